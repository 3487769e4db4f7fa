"""VerifiableProducer and VerifiableConsumer during rebalances: each record is consumed once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource

from ..clients.adapter import Admin
from ..clients.consumers import until
from .conftest import SESSION_TIMEOUT_MS
from .tools import Verifiable

MakeVerifiable = Callable[..., Verifiable]
Args = tuple[object, ...]
RECORDS = 3_000
PER_SECOND = 1_500
# Without keys, a producer fills a batch of 16 KiB for one partition, then for the next one.
KEYS = 32


class Members:
    """VerifiableConsumers of one group, and a producer for their topic."""

    def __init__(
        self, verifiable: MakeVerifiable, topic: str, group: str, set_session: Callable[[int], Args]
    ) -> None:
        self._verifiable = verifiable
        self._set_session = set_session
        self.topic, self.group = topic, group
        self.all = {(topic, partition) for partition in range(4)}
        self.started: list[Verifiable] = []

    def member(
        self, instance: str | None = None, session_ms: int = SESSION_TIMEOUT_MS
    ) -> Verifiable:
        static = () if instance is None else ("--group-instance-id", instance)
        identity = ("--topic", self.topic, "--group-id", self.group, *static)
        self.started.append(self._verifiable("consumer", *identity, *self._set_session(session_ms)))
        return self.started[-1]

    def producer(self) -> Verifiable:
        options = ("--max-messages", RECORDS, "--throughput", PER_SECOND, "--repeating-keys", KEYS)
        return self._verifiable("producer", "--topic", self.topic, *options)

    def until_owned(self, *consumers: Verifiable, each: int) -> None:
        def shared() -> bool:
            owned = [consumer.assignment() for consumer in consumers]
            return all(len(o) == each for o in owned) and set().union(*owned) == self.all

        until(shared, f"{each} partitions each", lambda: [c.assignment() for c in consumers])

    def until_all_consumed(self, producer: Verifiable) -> None:
        """Wait until each record of the producer is consumed exactly once and committed."""
        until(producer.ended, "the producer has ended")
        sent = sorted(producer.sent())
        assert len(sent) == RECORDS

        def consumed() -> list[tuple[int, int]]:
            return sorted(place for member in self.started for place in member.consumed())

        until(
            lambda: len(consumed()) >= RECORDS, "all records are consumed", lambda: len(consumed())
        )
        assert consumed() == sent
        ends = {partition: offset + 1 for partition, offset in sent}
        until(lambda: self.committed() == ends, "the end offsets are committed", self.committed)

    def committed(self) -> dict[int, int]:
        """The highest committed offset by partition."""
        highest: dict[int, int] = {}
        for member in self.started:
            for partition, offset in member.committed().items():
                highest[partition] = max(offset, highest.get(partition, 0))
        return highest


@pytest.fixture(params=["classic", "consumer"])
def members(
    verifiable: MakeVerifiable,
    topic: str,
    group: str,
    bootstrap: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Members:
    """Members of one protocol or the other."""
    config = tmp_path / "consumer.properties"
    config.write_text("heartbeat.interval.ms=300\n")

    def classic(session_ms: int) -> Args:
        return ("--session-timeout", session_ms, "--command-config", config)

    def modern(session_ms: int) -> Args:
        """Set the session timeout, which is a config of the group."""
        configs = {"consumer.session.timeout.ms": str(session_ms)}
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        admin.alter_configs([ConfigResource("GROUP", group, configs)])
        admin.close()
        return ("--group-protocol", "consumer")

    return Members(verifiable, topic, group, classic if request.param == "classic" else modern)


def test_partitions_of_a_leaving_member_are_reassigned_without_loss(
    members: Members, admin: Admin, group: str
) -> None:
    remaining, leaving = members.member(), members.member()
    members.until_owned(remaining, leaving, each=2)
    producer = members.producer()
    until(lambda: bool(leaving.consumed() and remaining.consumed()), "both have consumed records")
    leaving.stop()
    members.until_owned(remaining, each=4)
    members.until_all_consumed(producer)
    offsets = {partition: at.offset for (_, partition), at in admin.group_offsets(group).items()}
    assert offsets == members.committed()


def test_static_member_restarts_within_its_session_without_a_rebalance(members: Members) -> None:
    remaining, restarting = (members.member(name, session_ms=30_000) for name in ("one", "two"))
    members.until_owned(remaining, restarting, each=2)
    owned = restarting.assignment()
    rebalances = len(remaining.events("partitions_revoked"))
    producer = members.producer()
    until(
        lambda: bool(restarting.consumed() and remaining.consumed()), "both have consumed records"
    )
    restarting.stop()
    restarted = members.member("two", session_ms=30_000)
    until(lambda: restarted.assignment() == owned, "it owns its partitions", restarted.assignment)
    members.until_all_consumed(producer)
    assert len(remaining.events("partitions_revoked")) == rebalances


def test_static_member_is_removed_after_its_session_timeout(members: Members) -> None:
    remaining, stopped = members.member("one"), members.member("two")
    members.until_owned(remaining, stopped, each=2)
    producer = members.producer()
    until(lambda: bool(stopped.consumed() and remaining.consumed()), "both have consumed records")
    stopped.stop()  # a static member does not leave the group when it closes
    members.until_owned(remaining, each=4)
    members.until_all_consumed(producer)
