"""What the doctor finds, that it finds nothing where all is well, and how it is told."""

import contextlib
from collections.abc import Callable

import pytest
from kafka import KafkaConsumer
from kohort.protocol.errors import ErrorCode
from kohort.testing import Kafka, Unhealthy

from .conftest import Service
from .hand_made import GROUP, TOPIC, HandMade, together
from .test_plugin import run

pytest_plugins = ["pytester"]


class Stopwatch:
    """In place of the one that a history has: moved by hand."""

    def __init__(self, kafka: Kafka) -> None:
        self.seconds = 0.0
        self.step = 1e-6  # no two things happen at once
        kafka.history._wall = self
        kafka.history._began = 0.0

    def __call__(self) -> float:
        self.seconds += self.step
        return self.seconds


def found(kafka: Kafka) -> list[str]:
    """And forget it: these tests have done it on purpose."""
    findings = [str(each) for each in kafka.doctor.findings]
    kafka.doctor.ignore()
    return findings


def alone(kafka: Kafka, client_id: str = "one", session_ms: int = 30_000) -> HandMade:
    """A member that owns both partitions."""
    kafka.topic(TOPIC, partitions=2)
    member = HandMade(kafka, client_id, session_ms)
    together(member).sync({member.member_id: [0, 1]})
    return member


def test_a_commit_of_an_old_generation_is_a_zombies(kafka: Kafka) -> None:
    with alone(kafka) as one:
        together(one).sync({one.member_id: [0, 1]})
        assert one.commit(4, generation=1) == ErrorCode.illegal_generation
        assert one.commit(5, generation=1) == ErrorCode.illegal_generation
    (finding,) = found(kafka)
    assert finding == (
        f"zombie commit: {one.member_id} tried to commit orders-0 at 4, orders-0 at 5 for billing "
        "in generation 1, and was refused with ILLEGAL_GENERATION: who owns that now does its "
        "work again"
    )


def test_a_commit_of_a_member_that_has_left_is_a_zombies(kafka: Kafka) -> None:
    with alone(kafka) as one:
        one.leave()
        assert one.commit(4) == ErrorCode.unknown_member_id
    (finding,) = found(kafka)
    assert "refused with UNKNOWN_MEMBER_ID" in finding


def test_whom_the_test_itself_has_expelled_is_no_zombie(kafka: Kafka) -> None:
    with alone(kafka) as one:
        kafka.clock.advance(minutes=5)
        assert one.commit(4) == ErrorCode.unknown_member_id
    with alone(kafka) as two:
        kafka.group(GROUP).evict(two.member_id)
        assert two.commit(4) == ErrorCode.unknown_member_id
    assert found(kafka) == []


def test_an_error_that_a_fault_answers_makes_no_zombie(kafka: Kafka) -> None:
    with alone(kafka) as one:
        kafka.faults.answer("OffsetCommit", error="ILLEGAL_GENERATION")
        assert one.commit(4) == ErrorCode.illegal_generation
    assert found(kafka) == []


@pytest.mark.parametrize(("later_s", "is_stale"), [(0.5, True), (0.05, False)])
def test_who_goes_on_in_a_generation_that_is_over_is_stale(
    kafka: Kafka, later_s: float, is_stale: bool
) -> None:
    """Not who had no time to hear of it."""
    watch = Stopwatch(kafka)
    with alone(kafka) as one:
        together(one).sync({one.member_id: [0, 1]})
        assert one.heartbeat(generation=1) == ErrorCode.illegal_generation
        watch.seconds += later_s
        assert one.heartbeat(generation=1) == ErrorCode.illegal_generation
    findings = found(kafka)
    assert len(findings) == is_stale
    assert all("Heartbeat for generation 1 of billing 0.5 s after" in each for each in findings)


@pytest.mark.parametrize(("interval_s", "is_slow"), [(4.0, True), (3.0, False), (3.2, False)])
def test_heartbeats_come_three_times_in_a_session(
    kafka: Kafka, interval_s: float, is_slow: bool
) -> None:
    """A little late does not matter."""
    watch = Stopwatch(kafka)
    with alone(kafka, session_ms=9_000) as one:
        for stall_s in (0, 0, 60):
            watch.seconds += interval_s + stall_s
            one.heartbeat()
    said = "sends a heartbeat every 4 s, more than a third of its session timeout of 9 s"
    assert [said in each for each in found(kafka)] == [True] * is_slow


@pytest.mark.clients
def test_a_real_client_that_beats_too_slowly_is_found(kafka: Kafka) -> None:
    """Its sessions stand still and four seconds pass with each request: no stall counts."""
    kafka.topic("orders", partitions=1)
    kafka.clock.freeze()
    Stopwatch(kafka).step = 4.0
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        client_id="slow",
        group_id="billing",
        session_timeout_ms=9_000,
        heartbeat_interval_ms=20,
    )
    with contextlib.closing(consumer):
        # At length: kafka-python 3.0.12 may lose a SyncGroup if a poll ends within a rebalance.
        while len(kafka.history.requests_of("Heartbeat")) < 3:
            consumer.poll(1_000)
        (finding,) = found(kafka)
    assert finding.startswith("slow heartbeat: slow-")


def test_a_leader_that_gives_a_partition_to_two_is_found(kafka: Kafka) -> None:
    kafka.topic(TOPIC, partitions=2)
    with HandMade(kafka, "one") as one, HandMade(kafka, "two") as two:
        leader = together(one, two)
        leader.sync({one.member_id: [0], two.member_id: [0, 1]})
    (finding,) = found(kafka)
    assert "orders-0 was given to both one-" in finding
    assert "in generation 2 of billing" in finding


@pytest.mark.parametrize("partition", [0, 1])
def test_who_commits_what_is_anothers_is_found(kafka: Kafka, partition: int) -> None:
    kafka.topic(TOPIC, partitions=2)
    with HandMade(kafka, "one") as one, HandMade(kafka, "two") as two:
        together(one, two).sync({one.member_id: [0], two.member_id: [1]})
        assert one.commit(4, partition) == ErrorCode.none
    wrong = f"overlapping owners: {one.member_id} committed orders-1 at 4 in generation 2 of "
    wrong += f"billing, in which it is {two.member_id}'s"
    assert found(kafka) == [wrong] * partition


@pytest.mark.parametrize(
    ("later_s", "peeks", "is_found"), [(2.0, False, True), (0.5, False, False), (2.0, True, False)]
)
def test_who_fetches_what_it_has_lost_is_found(
    kafka: Kafka, later_s: float, peeks: bool, is_found: bool
) -> None:
    """Not one whose fetch was on its way, nor where somebody else of its name fetches too."""
    watch = Stopwatch(kafka)
    with alone(kafka, "one") as one, HandMade(kafka, "two") as two:
        one.fetch(0, partition=1)
        together(one, two).sync({one.member_id: [0], two.member_id: [1]})
        (one if two.is_leader else two).sync()
        watch.seconds += later_s
        if peeks:
            with HandMade(kafka, "one") as other:
                other.fetch(0)
        one.fetch(0, partition=1)
        one.fetch(0, partition=0)
    said = f"overlapping owners: {one.member_id} fetches orders-1, which it had, and which is now "
    assert [each.startswith(said) for each in found(kafka)] == [True] * is_found


@pytest.mark.parametrize(("offset", "is_ahead"), [(3, False), (4, True)])
def test_a_commit_beyond_what_was_given_is_found(kafka: Kafka, offset: int, is_ahead: bool) -> None:
    kafka.topic(TOPIC, partitions=2).produce(["a", "b", "c"], partition=0)
    with alone(kafka) as one:
        one.fetch(0)
        one.commit(offset)
        one.commit(offset)
    said = f"commit ahead of delivery: {one.member_id} committed orders-0 at 4, and was given only "
    said += "what is before 3: what lies between is passed over"
    assert found(kafka) == [said] * is_ahead


def test_who_never_fetched_may_commit_what_it_likes(kafka: Kafka) -> None:
    """It was told by somebody else: by another client of the same process, or by a person."""
    with alone(kafka) as one:
        one.fetch(0, partition=1)
        one.commit(100)
    assert found(kafka) == []


def test_where_a_client_has_gone_to_it_may_commit(kafka: Kafka) -> None:
    with alone(kafka) as one:
        one.fetch(0)
        one.fetch(100)
        one.commit(100)
    assert found(kafka) == []


@pytest.mark.clients
def test_nothing_is_found_where_members_come_work_and_go(
    kafka: Kafka, new_service: Callable[..., Service]
) -> None:
    topic = kafka.topic("orders", partitions=2)
    group = kafka.group(GROUP)
    new_service("one")
    group.wait_stable(members=1)
    topic.produce(["a"] * 20)
    two = new_service("two")
    group.wait_stable(members=2)
    topic.produce(["a"] * 20)
    two.close()
    group.wait_stable(members=1)
    topic.produce(["a"] * 20)
    for partition in (0, 1):
        group.wait_committed("orders", partition, 30)
    assert kafka.doctor.findings == []
    kafka.doctor.check()


def test_a_member_that_is_left_open_is_found_and_one_that_is_closed_is_not(kafka: Kafka) -> None:
    one = alone(kafka)
    (finding,) = kafka.doctor.left_open
    assert str(finding) == (
        f"client left open: {one.member_id} is in billing still, and connected: close it"
    )
    with one:
        pass
    assert kafka.doctor.left_open == []


def test_findings_are_errors_for_who_asks_and_can_be_ignored(kafka: Kafka) -> None:
    with alone(kafka) as one:
        one.leave()
        one.commit(4)
    with pytest.raises(Unhealthy, match=r"has found\n  zombie commit: one-"):
        kafka.doctor.check()
    with pytest.raises(ValueError, match="no finding 'zombie'; there is: zombie commit,"):
        kafka.doctor.ignore("zombie")
    kafka.doctor.ignore("zombie commit")
    kafka.doctor.check()


SICK = """
    import pytest
    from confluent_kafka import Consumer, TopicPartition

    kept = []

    def test_something(kafka):
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing"})
        kafka.topic("orders", partitions=1)
        consumer.subscribe(["orders"])
        consumer.poll(0)
        kafka.group("billing")
        while not consumer.assignment():
            consumer.poll(0.1)
        kept.append(consumer)
"""
LEFT = "*client left open: rdkafka-* is in billing still, and connected: close it"


@pytest.mark.clients
@pytest.mark.parametrize(
    ("options", "outcome", "lines"),
    [
        (
            ("-W", "default"),
            {"passed": 1, "warnings": 1},
            [f"*.py:6: DoctorWarning: {LEFT}"],
        ),
        (("--kafka-doctor=error",), {"passed": 1, "errors": 1}, [LEFT]),
        (("--kafka-doctor=off",), {"passed": 1, "warnings": 0}, []),
        (("-W", "ignore:client left:kohort.testing.DoctorWarning"), {"passed": 1}, []),
    ],
    ids=["warn", "error", "off", "filtered"],
)
def test_findings_are_warnings_or_errors(
    pytester: pytest.Pytester, options: tuple[str, ...], outcome: dict[str, int], lines: list[str]
) -> None:
    pytester.makepyfile(SICK)
    result = run(pytester, *options)
    result.assert_outcomes(**{"warnings": 0, **outcome})
    result.stdout.fnmatch_lines(lines)
