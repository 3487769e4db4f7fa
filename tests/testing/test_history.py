"""The history as data, as a timeline, and in the report of a failed test."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kohort.coordinator.outcome import EventType, GroupEvent
from kohort.offsets.causes import Cause
from kohort.protocol.apis import APIS, Api
from kohort.protocol.messages import request_schema, response_schema
from kohort.protocol.schema import Schema
from kohort.testing import Kafka
from kohort.testing.history import History
from kohort.testing.recorded_request import RecordedRequest
from kohort.testing.timeline.timeline import LINE_LENGTH_MAX, format_duration, timeline
from support.wire import Client

from .conftest import NewCommitter, client_settings
from .test_plugin import run

pytest_plugins = ["pytester"]


class Stopwatch:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def stopwatch() -> Stopwatch:
    return Stopwatch()


@pytest.fixture
def history(stopwatch: Stopwatch) -> History:
    return History(lambda: int(stopwatch.seconds * 1000), stopwatch)


def fetch(number: int) -> RecordedRequest:
    return RecordedRequest(number, 0, 1, 1, 4, "client", "/host", None)


def respond(history: History, request: RecordedRequest, size: int) -> None:
    request.response_frame = bytes(size)
    history.record(request)


def test_the_oldest_requests_are_dropped_above_the_byte_limit(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.testing.history.BYTES_MAX", 1000)
    fetches = [fetch(number) for number in (1, 2, 3, 4)]
    for each in fetches[:3]:
        history.record(each)
    for each, size in zip(fetches[:3], (300, 600, 200), strict=True):
        respond(history, each, size)
    assert history.requests == fetches[1:3]
    assert history.requests_after(2) == fetches[2:3]
    respond(history, fetches[0], 300)  # has been dropped
    history.record(fetches[3])
    respond(history, fetches[3], 5000)
    assert history.requests == fetches[3:]


def test_requests_can_be_read_while_others_arrive(history: History) -> None:
    class Arrival(int):
        """Whenever a request's number is compared with it, another request arrives."""

        def __lt__(self, number: int) -> bool:
            history.record(fetch(len(history.requests) + 1))
            return int(self) < number

    for number in range(1, 4):
        history.record(fetch(number))
    assert [each.number for each in history.requests_after(Arrival(1))] == [2, 3]
    assert len(history.requests) == 6


def test_a_generation_lasts_until_the_next_rebalance(
    history: History, stopwatch: Stopwatch
) -> None:
    def record(at_s: float, kind: EventType, generation: int, cause: Cause) -> None:
        stopwatch.seconds = at_s
        history.record_event(1, GroupEvent(kind, "billing", generation=generation, cause=cause))

    record(1.0, EventType.JOIN_COMPLETED, 1, Cause.MEMBER_JOINED)
    record(3.5, EventType.REBALANCE_STARTED, 1, Cause.SESSION_TIMEOUT)
    record(4.0, EventType.GROUP_EMPTIED, 2, Cause.SESSION_TIMEOUT)
    first, second = history.generations("billing")
    assert (first.number, first.lasted_ms, first.wall_s) == (1, 2500, 1.0)
    assert (second.number, second.lasted_ms, second.cause) == (2, None, "session expired")
    assert history.generations("other") == []
    assert history.groups == ["billing"]


def test_exits_have_causes_and_a_rejected_leave_is_no_exit(history: History) -> None:
    for kind, cause in (
        (EventType.MEMBER_EXPIRED, Cause.SESSION_TIMEOUT),
        (EventType.LEAVE_RECEIVED, Cause.SLOW_POLL),
        (EventType.LEAVE_RECEIVED, None),
        (EventType.MEMBER_JOINED, None),
    ):
        history.record_event(
            1, GroupEvent(kind, "billing", member_id="m", generation=3, cause=cause)
        )
    assert [(each.member_id, each.generation, each.cause) for each in history.exits("billing")] == [
        ("m", 3, "session expired"),
        ("m", 3, "poll interval exceeded"),
    ]


def test_a_timeline_has_short_lines_and_merges_equal_ones(
    history: History, stopwatch: Stopwatch
) -> None:
    for number in range(200):
        stopwatch.seconds = number
        member_id = "m" * 200 if number % 2 else f"m{number}"
        history.record_event(1, GroupEvent(EventType.MEMBER_JOINED, "billing", member_id=member_id))
    assert len(timeline(history)) == 200
    assert max(map(len, timeline(history))) == LINE_LENGTH_MAX
    for number in range(5):
        stopwatch.seconds = 1000 + number
        history.record_event(1, GroupEvent(EventType.MEMBER_JOINED, "billing", member_id="last"))
    assert timeline(history)[-1] == " 1000.000    = billing: member joined last × 5"


@pytest.mark.parametrize(
    ("ms", "text"), [(20, "20 ms"), (1500, "1.5 s"), (300_000, "5 min"), (604_800_000, "7 days")]
)
def test_a_duration_is_formatted_in_its_largest_unit(ms: int, text: str) -> None:
    assert format_duration(ms) == text


@pytest.mark.clients
def test_a_rejected_commit_has_its_error_and_whether_a_fault_did_it(
    kafka: Kafka, new_committer: NewCommitter
) -> None:
    kafka.faults.answer("OffsetCommit", error="GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaException):
        new_committer().commit(5)
    (rejected,) = kafka.history.rejected_commits("billing")
    assert (rejected.topic, rejected.partition, rejected.offset) == ("orders", 0, 5)
    assert (rejected.error, rejected.is_by_fault) == ("GROUP_AUTHORIZATION_FAILED", True)
    assert rejected.generation is None
    assert kafka.history.commits("billing") == []


def test_requests_to_move_replicas_and_describe_the_quorum_have_partitions(kafka: Kafka) -> None:
    kafka.faults.answer("AlterReplicaLogDirs", "KAFKA_STORAGE_ERROR", topic="orders", times=1)
    dirs = [{"path": "/nowhere", "topics": [{"name": "orders", "partitions": (0, 1)}]}]
    quorum = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    with Client(kafka.bootstrap_servers) as client:
        client.call("AlterReplicaLogDirs", 2, dirs=dirs)
        client.call("AlterReplicaLogDirs", 2, dirs=dirs)
        client.call("DescribeQuorum", 0, topics=quorum)
    first, second = kafka.history.requests_of("AlterReplicaLogDirs")
    assert first.partitions == (("orders", 0), ("orders", 1))
    assert first.errors == ("KAFKA_STORAGE_ERROR", "KAFKA_STORAGE_ERROR")
    assert second.errors == ("LOG_DIR_NOT_FOUND", "LOG_DIR_NOT_FOUND")
    (described,) = kafka.history.requests_of("DescribeQuorum")
    assert described.partitions == (("__cluster_metadata", 0),)


def sample(schema: Schema) -> SimpleNamespace:
    """Return a message with one item in each array."""
    values: dict[str, Any] = {}
    for field in schema.all_fields:
        plain: Any = "orders" if field.type == "string" else 7
        item = plain if field.struct is None else sample(field.struct)
        values[field.attribute] = (item,) if field.is_array else item
    return SimpleNamespace(**values)


def has_array(schema: Schema, word: str) -> bool:
    """Whether the name of an array, also in other arrays, contains the word."""
    return any(
        word in field.name or (field.struct is not None and has_array(field.struct, word))
        for field in schema.all_fields
        if field.is_array
    )


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_topics_and_partitions_of_every_message_are_found(api: Api) -> None:
    for version in range(api.min_version, api.max_version + 1):
        request = request_schema(api.key, version)
        recorded = RecordedRequest(1, 0, 1, api.key, version, None, "", sample(request))
        recorded.topic_names = {7: "orders"}
        assert recorded.topics == ("orders",) * has_array(request, "topic"), version
        for schema in (request, response_schema(api.key, version)):
            found = {each[:2] for each in recorded.by_partition(sample(schema))}
            assert bool(found) == has_array(schema, "partition"), version
            assert found <= {("orders", 7)}


def test_the_states_of_a_classic_group_are_in_its_history(kafka: Kafka) -> None:
    kafka.fake_member("billing")
    assert [(each.before, each.after) for each in kafka.history.state_changes("billing")] == [
        (None, "Empty"),
        ("Empty", "PreparingRebalance"),
        ("PreparingRebalance", "CompletingRebalance"),
        ("CompletingRebalance", "Stable"),
    ]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_generations_and_assignments_continue_when_the_coordinator_moves(protocol: Any) -> None:
    with Kafka(nodes=2) as kafka:
        kafka.topic("orders", partitions=1)
        kafka.fake_member("billing", ["orders"], protocol=protocol).wait_owned(1)
        group = kafka.group("billing")
        group.move_to(3 - group.node_id)
        assert [each.until_ms for each in group.generations] == [None]
        assert [each.until_ms for each in group.assignments][-1] is None


def test_changes_of_the_clock_are_in_the_timeline(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.clock.advance(minutes=5)
    kafka.clock.resume()
    assert [(each.kind, each.by_ms) for each in kafka.history.clock_changes] == [
        ("frozen", 0),
        ("advanced", 300_000),
        ("resumed", 0),
    ]
    assert [line.split("~ ")[1] for line in timeline(kafka.history)] == [
        "clock frozen",
        "clock advanced by 5 min",
        "clock resumed",
    ]


def test_the_report_of_an_unused_broker_says_so(kafka: Kafka) -> None:
    expected = f"No client has sent a request to {kafka.bootstrap_servers} (bootstrap_servers)."
    assert kafka.report().strip() == expected


FAILING = """
    import pytest
    from confluent_kafka import Consumer, TopicPartition

    @pytest.mark.parametrize("fails", [True, False])
    def test_service(kafka, fails):
        kafka.topic("orders", partitions=1)
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        consumer.close()
        assert not fails
"""


@pytest.mark.clients
def test_a_failed_test_has_a_report_of_its_broker(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FAILING)
    result = run(pytester)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "*- kafka -*",
            "Group billing is Empty: it has committed offsets, but no members.*",
            "timeline (seconds since the broker of this test was created)",
            "*  OffsetCommit v* billing from rdkafka: ok*(orders-0 at 7)",
        ]
    )
    assert result.stdout.str().count("billing is Empty") == 1


@pytest.mark.clients
def test_the_history_does_not_keep_the_disk_of_an_old_broker(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1).produce(["a"])
    snapshot, disks = kafka.snapshot(), []
    for _ in range(2):
        consumer = Consumer(client_settings(kafka, group_id="billing", enable_auto_commit=False))
        consumer.assign([TopicPartition("orders", 0, 0)])
        assert consumer.poll(10) is not None
        consumer.close()
        disks.append(weakref.ref(kafka.disk.files))
        kafka.restore(snapshot)
    gc.collect()
    assert [each() for each in disks] == [None, None]
    fetches = kafka.history.requests_of("Fetch")
    assert {each.topics for each in fetches} - {()} == {("orders",)}
