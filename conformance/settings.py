"""The broker settings with which scenarios were recorded, and whether another broker has them.

Kafka reports its settings (DescribeConfigs). A scenario can be played on a broker with other
settings if its transcript does not depend on them. Each transcript lists the settings that its
scenario needs. They were found by playing the scenario on kohort with another value of each setting
(tests/parity/test_parity.py).
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

Settings = Mapping[str, str | None]
"""Settings by name; None if the broker reports that the setting has no value."""

USERS: Final = ("alice", "bob", "root")
"""The client ids that are users in scenarios with an authorizer. Each user's password is its name.
"""

INITIAL_DELAY: Final = "group.initial.rebalance.delay.ms"
MIGRATION: Final = "group.consumer.migration.policy"
AUTHORIZER: Final = "authorizer.class.name"

# Short sessions expire soon, and a broker with few offsets partitions is ready soon.
QUICK: Final = {
    "group.min.session.timeout.ms": "500",
    "group.max.session.timeout.ms": "1800000",
    INITIAL_DELAY: "0",
    "offsets.topic.num.partitions": "5",
}
CONFIGS: Final = {
    **QUICK,
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.regex.refresh.interval.ms": "10000",
}
# Target assignments are computed immediately, in the thread that handles the request.
CONSUMER: Final = {**CONFIGS, "group.consumer.assignor.offload.enable": "false"}
DELAYED: Final = {**CONSUMER, INITIAL_DELAY: "3000", "group.max.size": "2"}
# The clients of scripts that are not in USERS are anonymous, and may do everything.
AUTHORIZED: Final = {
    **CONSUMER,
    AUTHORIZER: "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
    "auto.create.topics.enable": "true",
}
# There is one offsets partition, so that its number does not depend on the name of a group. Kafka
# checks for timed-out transactions at the interval in which scripts let time pass (STEP_MS). The
# records of scripts are years older than Kafka's markers, which must not begin a new segment.
TRANSACTIONS: Final = {
    **CONSUMER,
    "log.retention.ms": "-1",
    "log.roll.ms": "1000000000000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.max.timeout.ms": "60000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
}
SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "quick": QUICK,
    "delayed": DELAYED,
    "configs": CONFIGS,
    "consumer": CONSUMER,
    "upgrade": {**CONSUMER, MIGRATION: "upgrade", "group.consumer.max.size": "2"},
    "downgrade": {**CONSUMER, MIGRATION: "downgrade", "group.max.size": "2"},
    "disabled": {**CONSUMER, MIGRATION: "disabled"},
    "transactions": TRANSACTIONS,
    "acls": AUTHORIZED,
    "open": {**AUTHORIZED, "allow.everyone.if.no.acl.found": "true"},
}

DEFAULTS: Final[Settings] = {
    "allow.everyone.if.no.acl.found": "false",
    AUTHORIZER: "",
    "auto.create.topics.enable": "true",
    "group.consumer.assignment.interval.ms": "1000",
    "group.consumer.assignor.offload.enable": "true",
    "group.consumer.max.size": "2147483647",
    MIGRATION: "bidirectional",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.regex.refresh.interval.ms": "600000",
    INITIAL_DELAY: "3000",
    "group.max.session.timeout.ms": "1800000",
    "group.max.size": "2147483647",
    "group.min.session.timeout.ms": "6000",
    "log.retention.ms": None,
    "log.roll.ms": None,
    "offsets.topic.num.partitions": "50",
    "super.users": "",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "transaction.max.timeout.ms": "900000",
    "transaction.state.log.num.partitions": "50",
}
"""Kafka's defaults of the settings above."""

GROUP_LEVEL: Final = {"group.consumer.assignment.interval.ms": "consumer.assignment.interval.ms"}
"""The broker settings that can also be set per group, with their group-level names. A scenario that
needs such a setting sets it for its group on any broker that supports it."""
# These settings also affect scenarios that were recorded with their defaults.
GENERAL: Final = (
    AUTHORIZER,
    MIGRATION,
    "auto.create.topics.enable",
    "group.consumer.max.size",
    "group.max.size",
)


def unmet(name: str, needs: Collection[str], broker: Settings) -> Iterator[str]:
    """Yield, as text, the settings that a scenario needs but the broker does not have. The scenario
    was recorded with SETTINGS[name], and its transcript depends on the settings in `needs`."""
    recorded = SETTINGS[name]
    for key in {**recorded, **dict.fromkeys(GENERAL)}:
        value = recorded.get(key, DEFAULTS[key])
        found = broker.get(key, DEFAULTS[key] if key not in recorded else None)
        if GROUP_LEVEL.get(key) in needs and key not in broker:
            yield f"{key} (the broker does not report it)"
        if (found or "") != (value or "") and (key in needs or key not in recorded):
            has = f"the broker has {found}" if found else "not set"
            has = has if key in broker else "the broker does not report it"
            yield f"{key}={value} ({has})"


def of_group(name: str, needs: Collection[str], broker: Settings) -> dict[str, str]:
    """Return the group configs that the scenario sets, because the broker's settings differ from
    the ones that it needs."""
    return {
        group_key: SETTINGS[name][key]
        for key, group_key in GROUP_LEVEL.items()
        if group_key in needs and broker.get(key) != SETTINGS[name][key]
    }


def properties(name: str) -> str:
    """Return the server.properties of a broker that can play the scenarios of SETTINGS[name]."""
    text = "".join(f"{key}={value}\n" for key, value in SETTINGS[name].items())
    if AUTHORIZER not in SETTINGS[name]:
        return text
    users = " ".join(f'user_{user}="{user}"' for user in USERS)
    return f"""{text}# The listener of --sasl-bootstrap-server; each user has its name as password.
listeners=PLAINTEXT://127.0.0.1:9092,SASL://127.0.0.1:9093
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=\\
  org.apache.kafka.common.security.plain.PlainLoginModule required {users};
"""
