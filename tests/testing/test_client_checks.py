"""Findings of the client checks, no findings for correct clients, and how they are reported."""

import contextlib
from typing import Any

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer
from kohort.testing import ClientCheckError, Kafka
from support.member import TOPIC, Member, only_member, rebalance

from .conftest import NewService, client_settings
from .test_plugin import run

pytest_plugins = ["pytester"]


class Stopwatch:
    """Replaces the wall time of a history."""

    def __init__(self, kafka: Kafka) -> None:
        self.seconds = 0.0
        self.step = 1e-6  # no two requests have the same time
        kafka.history._wall = self
        kafka.history._began = 0.0

    def __call__(self) -> float:
        self.seconds += self.step
        return self.seconds


def found(kafka: Kafka) -> list[str]:
    """The findings so far, which are ignored from now on: these tests cause them on purpose."""
    findings = [str(each) for each in kafka.client_checks.findings]
    kafka.client_checks.ignore()
    return findings


def new_member(kafka: Kafka, client_id: str) -> Member:
    return Member(kafka.bootstrap_servers, client_id)


def owner(kafka: Kafka, client_id: str = "one", **more: Any) -> Member:
    """Return the only member of its group: it owns both partitions of the topic."""
    kafka.topic(TOPIC, partitions=2)
    return only_member(kafka.bootstrap_servers, client_id, 0, 1, **more)


def test_a_commit_of_an_old_generation_is_a_zombie_commit(kafka: Kafka) -> None:
    with owner(kafka) as one:
        rebalance(one).sync({one.member_id: [0, 1]})
        assert one.commit_offset(4, generation=1) == "illegal_generation"
        assert one.commit_offset(5, generation=1) == "illegal_generation"
    (finding,) = found(kafka)
    assert finding == (
        f"zombie commit: {one.member_id} tried to commit orders-0 at 4, orders-0 at 5 for group "
        "billing in generation 1 and was rejected with ILLEGAL_GENERATION, so the next owner "
        "repeats its work"
    )


def test_a_commit_of_a_member_that_has_left_is_a_zombie_commit(kafka: Kafka) -> None:
    with owner(kafka) as one:
        one.leave()
        assert one.commit_offset(4) == "unknown_member_id"
    (finding,) = found(kafka)
    assert "rejected with UNKNOWN_MEMBER_ID" in finding


def test_a_member_that_the_test_removed_is_no_zombie(kafka: Kafka) -> None:
    with owner(kafka) as one:
        kafka.clock.advance(minutes=5)
        assert one.commit_offset(4) == "unknown_member_id"
    with owner(kafka) as two:
        kafka.group("billing").evict(two.member_id)
        assert two.commit_offset(4) == "unknown_member_id"
    assert found(kafka) == []


def test_an_error_from_a_fault_is_no_finding(kafka: Kafka) -> None:
    with owner(kafka) as one:
        kafka.faults.answer("OffsetCommit", error="ILLEGAL_GENERATION")
        assert one.commit_offset(4) == "illegal_generation"
    assert found(kafka) == []


@pytest.mark.parametrize(("later_s", "is_stale"), [(0.5, True), (0.05, False)])
def test_going_on_in_an_old_generation_is_a_finding(
    kafka: Kafka, later_s: float, is_stale: bool
) -> None:
    """This is not a finding if the error may not have arrived yet."""
    watch = Stopwatch(kafka)
    with owner(kafka) as one:
        rebalance(one).sync({one.member_id: [0, 1]})
        assert one.heartbeat(generation=1) == "illegal_generation"
        watch.seconds += later_s
        assert one.heartbeat(generation=1) == "illegal_generation"
    findings = found(kafka)
    assert len(findings) == is_stale
    message = "Heartbeat for generation 1 of group billing 0.5 s after"
    assert all(message in each for each in findings)


def test_a_stale_generation_names_the_error_that_the_member_ignored(kafka: Kafka) -> None:
    watch = Stopwatch(kafka)
    with owner(kafka) as one:
        rebalance(one).sync({one.member_id: [0, 1]})
        assert one.heartbeat(generation=1) == "illegal_generation"
        watch.seconds += 0.5
        kafka.group("billing").expire("one")
        assert one.heartbeat(generation=1) == "unknown_member_id"
    assert [each.endswith("received ILLEGAL_GENERATION") for each in found(kafka)] == [True]


@pytest.mark.parametrize(("interval_s", "is_slow"), [(4.0, True), (3.0, False), (3.2, False)])
def test_fewer_than_three_heartbeats_in_a_session_are_a_finding(
    kafka: Kafka, interval_s: float, is_slow: bool
) -> None:
    """A small delay is tolerated."""
    watch = Stopwatch(kafka)
    with owner(kafka, session_ms=9_000) as one:
        for stall_s in (0, 0, 60):
            watch.seconds += interval_s + stall_s
            one.heartbeat()
    message = "sends a heartbeat every 4 s, more than a third of its session timeout of 9 s"
    assert [message in each for each in found(kafka)] == [True] * is_slow


@pytest.mark.clients
def test_slow_heartbeats_of_a_real_client_are_a_finding(kafka: Kafka) -> None:
    """The broker's clock is frozen, and each request takes four seconds: stalls do not matter."""
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
        # Long polls: kafka-python 3.0.12 may lose a SyncGroup if a poll ends during a rebalance.
        while len(kafka.history.requests_of("Heartbeat")) < 3:
            consumer.poll(1_000)
        (finding,) = found(kafka)
    assert finding.startswith("slow heartbeat: slow-")


def test_a_partition_assigned_twice_is_a_finding(kafka: Kafka) -> None:
    kafka.topic(TOPIC, partitions=2)
    with (
        Member(kafka.bootstrap_servers, "one") as one,
        new_member(kafka, "two") as two,
    ):
        leader = rebalance(one, two)
        leader.sync({one.member_id: [0], two.member_id: [0, 1]})
    (finding,) = found(kafka)
    assert "orders-0 was assigned to both one-" in finding
    assert "in generation 2 of group billing" in finding


@pytest.mark.parametrize(
    ("assignor", "topic", "is_found"),
    [
        ("faust", "billing-count-changelog", False),
        ("faust", "orders", True),
        ("range", "billing-count-changelog", True),
    ],
)
def test_a_standby_of_faust_is_not_an_owner(
    kafka: Kafka, assignor: str, topic: str, is_found: bool
) -> None:
    kafka.topic(topic, partitions=1)
    with (
        Member(kafka.bootstrap_servers, "one", assignor=assignor) as one,
        Member(kafka.bootstrap_servers, "two", assignor=assignor) as two,
    ):
        rebalance(one, two).sync({one.member_id: [0], two.member_id: [0]}, topic)
    assert [each.startswith("overlapping owners: ") for each in found(kafka)] == [True] * is_found


@pytest.mark.parametrize("partition", [0, 1])
def test_a_commit_of_a_foreign_partition_is_a_finding(kafka: Kafka, partition: int) -> None:
    kafka.topic(TOPIC, partitions=2)
    with (
        Member(kafka.bootstrap_servers, "one") as one,
        new_member(kafka, "two") as two,
    ):
        rebalance(one, two).sync({one.member_id: [0], two.member_id: [1]})
        assert one.commit_offset(4, partition) == "none"
    message = f"overlapping owners: {one.member_id} committed orders-1 at 4 in generation 2 of "
    message += f"group billing, in which it belongs to {two.member_id}"
    assert found(kafka) == [message] * partition


@pytest.mark.parametrize(
    ("later_s", "has_twin", "is_found"),
    [(2.0, False, True), (0.5, False, False), (2.0, True, False)],
)
def test_a_fetch_of_a_lost_partition_is_a_finding(
    kafka: Kafka, later_s: float, has_twin: bool, is_found: bool
) -> None:
    """This is not a finding if the fetch was in flight, or another client has the same client
    id."""
    watch = Stopwatch(kafka)
    with owner(kafka, "one") as one, new_member(kafka, "two") as two:
        one.fetch(0, partition=1)
        rebalance(one, two).sync({one.member_id: [0], two.member_id: [1]})
        (one if two.is_leader else two).sync()
        watch.seconds += later_s
        if has_twin:
            with new_member(kafka, "one") as other:
                other.fetch(0)
        one.fetch(0, partition=1)
        one.fetch(0, partition=0)
    message = f"overlapping owners: {one.member_id} fetches orders-1, which was reassigned to "
    assert [each.startswith(message) for each in found(kafka)] == [True] * is_found


@pytest.mark.parametrize(("offset", "is_ahead"), [(3, False), (4, True)])
def test_a_commit_ahead_of_delivery_is_a_finding(kafka: Kafka, offset: int, is_ahead: bool) -> None:
    kafka.topic(TOPIC, partitions=2).produce(["a", "b", "c"], partition=0)
    with owner(kafka) as one:
        one.fetch(0)
        one.commit_offset(offset)
        one.commit_offset(offset)
    message = f"commit ahead of delivery: {one.member_id} committed orders-0 at 4, but has fetched "
    message += "only records before 3, so the records in between would be skipped"
    assert found(kafka) == [message] * is_ahead


@pytest.mark.clients
def test_the_checks_and_filters_work_after_a_topic_was_deleted(
    kafka: Kafka, new_service: NewService
) -> None:
    """Fetches have topic ids, whose names must remain the same."""
    new_service("reader")
    kafka.topic(TOPIC).produce(["a"], partition=0)
    kafka.group("billing").wait_committed(TOPIC, 0, 1)
    assert found(kafka) == []
    fetches = kafka.history.requests_of("Fetch")
    kafka.topic(TOPIC).delete()
    assert found(kafka) == []
    assert {topic for each in fetches for topic, _, _ in each.by_partition(each.message)} == {TOPIC}


def test_a_client_that_never_fetched_may_commit_any_offset(kafka: Kafka) -> None:
    """It may have the offset from another client of its process, or from a person."""
    with owner(kafka) as one:
        one.fetch(0, partition=1)
        one.commit_offset(100)
    assert found(kafka) == []


def test_a_client_may_commit_the_offset_it_seeks_to(kafka: Kafka) -> None:
    with owner(kafka) as one:
        one.fetch(0)
        one.fetch(100)
        one.commit_offset(100)
    assert found(kafka) == []


def test_only_a_client_left_open_is_a_finding(kafka: Kafka) -> None:
    one = owner(kafka)
    (finding,) = kafka.client_checks.left_open
    assert str(finding) == (
        f"client left open: {one.member_id} is still in group billing and connected: close it"
    )
    with one:
        pass
    assert kafka.client_checks.left_open == []


def test_two_clients_with_one_instance_id_are_a_finding(kafka: Kafka) -> None:
    kafka.topic(TOPIC, partitions=1)
    config = client_settings(
        kafka,
        group_id="billing",
        group_instance_id="worker-1",
        session_timeout_ms=6000,
        heartbeat_interval_ms=100,
    )
    first, second = (Consumer({**config, "client.id": name}) for name in ("one", "two"))
    with contextlib.closing(first), contextlib.closing(second):
        first.subscribe([TOPIC])
        kafka.wait(lambda: first.poll(0.02) or first.assignment(), "an assignment of the first")
        second.subscribe([TOPIC])
        kafka.wait(lambda: second.poll(0.02) or second.assignment(), "one of the second")
        kafka.wait(lambda: kafka.client_checks.findings)
        (finding,) = found(kafka)
    assert finding == (
        "shared instance id: clients one and two of group billing both use the "
        "group.instance.id worker-1, so the later one fences the earlier one"
    )


def test_check_raises_findings_that_are_not_ignored(kafka: Kafka) -> None:
    with owner(kafka) as one:
        one.leave()
        one.commit_offset(4)
    with pytest.raises(ClientCheckError, match=r"mistakes in this test:\n  zombie commit: one-"):
        kafka.client_checks.check()
    with pytest.raises(ValueError, match="Unknown kind 'zombie'; use one of zombie commit,"):
        kafka.client_checks.ignore("zombie")
    kafka.client_checks.ignore("zombie commit")
    kafka.client_checks.check()
    kafka.reset()  # `ignore` applies to the rest of the test
    with owner(kafka) as one:
        one.leave()
        one.commit_offset(4)
    kafka.client_checks.check()


OPEN_CLIENT = """
    import pytest
    from confluent_kafka import Consumer, TopicPartition

    kept = []

    def test_something(kafka):
        servers = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}
        consumer = Consumer({**servers, "group.id": "billing"})
        kafka.topic("orders", partitions=1)
        consumer.subscribe(["orders"])
        consumer.poll(0)
        kafka.group("billing")
        while not consumer.assignment():
            consumer.poll(0.1)
        kept.append(consumer)
"""
LEFT_OPEN = "*client left open: rdkafka-* is still in group billing and connected: close it"


@pytest.mark.clients
@pytest.mark.parametrize(
    ("options", "outcome", "lines"),
    [
        (
            ("-W", "default"),
            {"passed": 1, "warnings": 1},
            [f"*.py:6: ClientCheckWarning: {LEFT_OPEN}"],
        ),
        (("--kafka-client-checks=error",), {"passed": 1, "errors": 1}, [LEFT_OPEN]),
        (("--kafka-client-checks=off",), {"passed": 1, "warnings": 0}, []),
        (("-W", "ignore:client left:kohort.testing.ClientCheckWarning"), {"passed": 1}, []),
    ],
    ids=["warn", "error", "off", "filtered"],
)
def test_findings_are_warnings_or_errors(
    pytester: pytest.Pytester, options: tuple[str, ...], outcome: dict[str, int], lines: list[str]
) -> None:
    pytester.makepyfile(OPEN_CLIENT)
    result = run(pytester, *options)
    result.assert_outcomes(**{"warnings": 0, **outcome})
    result.stdout.fnmatch_lines(lines)
