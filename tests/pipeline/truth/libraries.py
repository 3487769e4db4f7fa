"""How the libraries differ, as far as a coordinator's log can show it. From their sources: Java's
KafkaConsumer (classic protocol), librdkafka, kafka-python 3, aiokafka 0.12."""

from dataclasses import dataclass
from typing import Literal

from kohort.offsets.causes import Cause

Commits = Literal["polls", "background-changes", "background"]
"""Java and kafka-python commit within poll(), all that they own, again and again; librdkafka's
timer commits what has changed; aiokafka's task commits everything, even while its user is busy."""


@dataclass(frozen=True, slots=True)
class Library:
    name: str
    software: str  # as ApiVersions tells it
    session_ms: int
    commits: Commits
    says_why: bool  # KIP-800
    tells_poll_interval: bool  # max.poll.interval.ms as the rebalance timeout; else its session
    watches_partitions: Literal["leader", "all"]  # who joins again when a topic has grown
    client_id: str  # unless its user gives one


JAVA = Library(
    "java", "apache-kafka-java/4.1.0", 45_000, "polls", True, True, "leader", "consumer-{group}-1"
)
LIBRDKAFKA = Library(
    "librdkafka", "librdkafka/2.12.1", 45_000, "background-changes", False, True, "all", "rdkafka"
)
KAFKA_PYTHON = Library(
    "kafka-python",
    "kafka-python/3.0.12",
    45_000,
    "polls",
    False,
    True,
    "leader",
    "kafka-python-3.0.12",
)
AIOKAFKA = Library(
    "aiokafka", "aiokafka/0.12.0", 10_000, "background", False, False, "leader", "aiokafka-0.12.0"
)
LIBRARIES = (JAVA, LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA)

# What Java says (AbstractCoordinator, ConsumerCoordinator, KafkaConsumer, KafkaAdminClient).
JAVA_SAYS = {
    "close": "the consumer is being closed",
    "slow": "consumer poll timeout has expired.",
    "again": "need to revoke partitions and re-join",
    "grown": "cached metadata has changed from (version1: {}) at the beginning of the rebalance",
    "enforced": "rebalance enforced by user",
}
BY_ADMIN = "member was removed by an admin"

# Why a member joins again of its own accord: the key into what Java says, or nothing to say.
WHY = {
    Cause.COOPERATIVE_FOLLOWUP: "again",
    Cause.PARTITIONS_ADDED: "grown",
    Cause.LEADER_REJOINED: "enforced",
}
