"""Kafka's VerifiableProducer and VerifiableConsumer go through rebalances, and nothing is lost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ..clients.adapter import Admin
from ..clients.stories import until
from .conftest import SESSION_TIMEOUT_MS
from .tools import Verifiable

MakeVerifiable = Callable[..., Verifiable]
RECORDS = 3_000
PER_SECOND = 1_500
# So that records go to all partitions: without keys a producer stays with one for 16 KiB.
KEYS = 32


class Members:
    """VerifiableConsumers of one group, and a producer that writes while they come and go."""

    def __init__(self, verifiable: MakeVerifiable, topic: str, group: str, config: Path) -> None:
        self._verifiable = verifiable
        self._config = config
        self.topic, self.group = topic, group
        self.all = {(topic, partition) for partition in range(4)}
        self.ever: list[Verifiable] = []

    def member(
        self, instance: str | None = None, session_ms: int = SESSION_TIMEOUT_MS
    ) -> Verifiable:
        static = () if instance is None else ("--group-instance-id", instance)
        who = ("--topic", self.topic, "--group-id", self.group, *static)
        how = ("--session-timeout", session_ms, "--command-config", self._config)
        self.ever.append(self._verifiable("consumer", *who, *how))
        return self.ever[-1]

    def producer(self) -> Verifiable:
        how = ("--max-messages", RECORDS, "--throughput", PER_SECOND, "--repeating-keys", KEYS)
        return self._verifiable("producer", "--topic", self.topic, *how)

    def until_owned(self, *consumers: Verifiable, each: int) -> None:
        def shared() -> bool:
            owned = [consumer.assignment() for consumer in consumers]
            return all(len(o) == each for o in owned) and set().union(*owned) == self.all

        until(shared, f"{each} partitions each", lambda: [c.assignment() for c in consumers])

    def until_all_consumed(self, producer: Verifiable) -> None:
        """Until what the producer sent was consumed, each record once, and committed."""
        until(producer.ended, "the producer is done")
        sent = sorted(producer.sent())
        assert len(sent) == RECORDS

        def consumed() -> list[tuple[int, int]]:
            return sorted(place for member in self.ever for place in member.consumed())

        until(lambda: len(consumed()) >= RECORDS, "all is consumed", lambda: len(consumed()))
        assert consumed() == sent
        ends = {partition: offset + 1 for partition, offset in sent}
        until(lambda: self.committed() == ends, "all is committed", self.committed)

    def committed(self) -> dict[int, int]:
        """The highest offset that any of them committed, by partition."""
        highest: dict[int, int] = {}
        for member in self.ever:
            for partition, offset in member.committed().items():
                highest[partition] = max(offset, highest.get(partition, 0))
        return highest


@pytest.fixture
def members(verifiable: MakeVerifiable, topic: str, group: str, tmp_path: Path) -> Members:
    config = tmp_path / "consumer.properties"
    config.write_text("heartbeat.interval.ms=300\n")
    return Members(verifiable, topic, group, config)


def test_a_member_that_leaves_hands_over_and_every_record_is_consumed_once(
    members: Members, admin: Admin, group: str
) -> None:
    stays, leaves = members.member(), members.member()
    members.until_owned(stays, leaves, each=2)
    producer = members.producer()
    until(lambda: bool(leaves.consumed() and stays.consumed()), "both have consumed some")
    leaves.stop()
    members.until_owned(stays, each=4)
    members.until_all_consumed(producer)
    told = {place.partition: said.offset for place, said in admin.group_offsets(group).items()}
    assert told == members.committed()


def test_a_static_member_restarts_within_its_session_and_the_other_notices_nothing(
    members: Members,
) -> None:
    stays, restarts = (members.member(name, session_ms=30_000) for name in ("one", "two"))
    members.until_owned(stays, restarts, each=2)
    owned = restarts.assignment()
    rebalances = len(stays.events("partitions_revoked"))
    producer = members.producer()
    until(lambda: bool(restarts.consumed() and stays.consumed()), "both have consumed some")
    restarts.stop()
    back = members.member("two", session_ms=30_000)
    until(lambda: back.assignment() == owned, "it has its partitions again", back.assignment)
    members.until_all_consumed(producer)
    assert len(stays.events("partitions_revoked")) == rebalances


def test_a_static_member_that_stays_away_is_replaced_after_its_session(
    members: Members,
) -> None:
    stays, vanishes = members.member("one"), members.member("two")
    members.until_owned(stays, vanishes, each=2)
    producer = members.producer()
    until(lambda: bool(vanishes.consumed() and stays.consumed()), "both have consumed some")
    vanishes.stop()  # a static member's close does not leave the group
    members.until_owned(stays, each=4)
    members.until_all_consumed(producer)
