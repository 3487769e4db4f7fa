"""The topic of a run keeps every record, whatever the defaults of the broker."""

import asyncio
import re

import pytest
from kohort.broker.broker import Broker
from kohort.check import run
from kohort.check.cluster import Cluster
from kohort.check.targets import OwnBroker
from kohort.client_security import Security
from kohort.protocol.bootstrap import addresses
from kohort.topics.registry_log import BrokerConfigRecord

DEFAULTS = {"log.cleanup.policy": "compact", "log.retention.ms": "1", "log.retention.bytes": "1"}


async def create_topic(bootstrap: str, name: str = "topic", seconds: float = 10) -> None:
    cluster = Cluster(addresses(bootstrap), Security(), name)
    try:
        await run._create_topic(cluster, seconds)
    finally:
        cluster.disconnect()


def what_is_kept(broker: Broker) -> set[tuple[tuple[str, ...], int, int]]:
    """Cleanup policy, retention time and size of the partitions."""
    topic = broker.node.topics.get("topic")
    assert topic is not None
    settings = [topic.settings_at(each.leader_id) for each in topic.partitions]
    return {(each.cleanup_policy, each.retention_ms, each.retention_bytes) for each in settings}


def test_defaults_of_the_broker_do_not_delete_records() -> None:
    with OwnBroker() as broker:
        broker._kafka.call(lambda each: each.node.topics.change(BrokerConfigRecord("", DEFAULTS)))
        asyncio.run(create_topic(broker.bootstrap))
        assert broker._kafka.call(what_is_kept) == {(("delete",), -1, -1)}


def test_a_rejected_topic_and_missing_partitions_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with OwnBroker() as broker:
        asyncio.run(create_topic(broker.bootstrap))
        monkeypatch.setattr(run, "PARTITIONS", 5)
        for name, problem in {
            "topic": "the metadata lists 4 of 5 partitions",
            "a b": "CreateTopics failed: INVALID_TOPIC_EXCEPTION",
        }.items():
            message = f"topic {name} was not usable within 0.1 s: {problem}"
            with pytest.raises(run.CannotJudge, match=f"^{re.escape(message)}$"):
                asyncio.run(create_topic(broker.bootstrap, name, 0.1))
