"""Faults: what the client sees, what the broker has done, and that unused faults fail the test."""

import subprocess
import sys
from contextlib import closing
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka import KafkaException, TopicPartition
from kohort.protocol.budgets import INLINE_ITEMS_MAX, LONG_REQUESTS_MAX
from kohort.protocol.errors import ErrorCode
from kohort.testing import Kafka, UnusedFault
from kohort.testing.faults.faults import NEAR_MISSES_MAX
from support.wire import Client

from ..clients.adapter import LIBRARIES, ConsumerSettings, Partition, load
from ..clients.consumers import until
from .conftest import Committer, NewCommitter

pytestmark = pytest.mark.clients

LONG = {
    "topics": [
        {
            "name": "orders",
            "partitions": [
                {"partition_index": index, "timestamp": -1} for index in range(INLINE_ITEMS_MAX + 1)
            ],
        }
    ]
}
"""A ListOffsets that counts as a long request."""
TOPICS = [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 7}]}]
"""The topics of an OffsetCommit."""


def test_answer_rejects_requests_the_given_number_of_times(
    kafka: Kafka, committer: Committer
) -> None:
    fault = kafka.faults.answer("OffsetCommit", error="GROUP_AUTHORIZATION_FAILED", times=2)
    for offset in (1, 2):
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            committer.commit(offset)
        assert kafka.group("billing").committed("orders", 0) is None
    committer.commit(3)
    assert kafka.group("billing").committed("orders", 0) == 3
    assert [each.errors for each in fault.fired] == [("GROUP_AUTHORIZATION_FAILED",)] * 2


def test_a_client_finds_its_coordinator_again_and_commits(
    kafka: Kafka, committer: Committer
) -> None:
    kafka.faults.answer("OffsetCommit", error="NOT_COORDINATOR", times=2, group="billing")
    committer.commit(7)
    assert kafka.group("billing").committed("orders", 0) == 7
    assert len(kafka.history.requests_of("OffsetCommit")) == 3


@pytest.mark.parametrize("delayed", ["request", "response"])
def test_a_request_or_its_response_can_be_delayed(
    kafka: Kafka, committer: Committer, delayed: str
) -> None:
    if delayed == "response":
        fault = kafka.faults.delay_answer("OffsetCommit", ms=50)
    else:
        fault = kafka.faults.delay("OffsetCommit", ms=50)
    committer.commit(5)
    (request,) = fault.fired
    assert request.response_at_ms is not None
    # The time when it was handled, not when a delayed response is sent.
    assert (request.response_at_ms - request.at_ms >= 50) == (delayed == "request")
    assert kafka.group("billing").committed("orders", 0) == 5


def test_lose_answer_applies_the_request(kafka: Kafka, committer: Committer) -> None:
    kafka.faults.lose_answer("OffsetCommit")
    committer.commit(4)  # librdkafka retries
    group = kafka.group("billing")
    assert [commit.offset for commit in group.commits] == [4, 4]


def test_drop_does_not_apply_the_request(kafka: Kafka, committer: Committer) -> None:
    kafka.faults.drop("OffsetCommit")
    committer.commit(4)
    assert [commit.offset for commit in kafka.group("billing").commits] == [4]
    assert len(kafka.history.requests_of("OffsetCommit")) == 2


@pytest.mark.parametrize("fault", ["drop", "lose_answer", "never_answer"])
def test_faults_on_long_requests_do_not_block_later_long_requests(kafka: Kafka, fault: str) -> None:
    fired = getattr(kafka.faults, fault)("ListOffsets", times=LONG_REQUESTS_MAX)
    for count in range(1, LONG_REQUESTS_MAX + 1):
        with Client(kafka.bootstrap_servers) as client:
            client.send("ListOffsets", 6, **LONG)
            fired.wait(count)
    with Client(kafka.bootstrap_servers) as client:
        assert client.call("ListOffsets", 6, **LONG)["topics"]


def test_failed_long_requests_do_not_block_later_long_requests(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_context: object, _node: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("kohort.broker.handlers.k02_list_offsets.handle", fail)
    with Kafka() as kafka:
        for _ in range(LONG_REQUESTS_MAX + 1):
            with Client(kafka.bootstrap_servers) as client, pytest.raises(ConnectionError):
                client.call("ListOffsets", 6, **LONG)
    assert caplog.text.count("Handling ListOffsets v6") == LONG_REQUESTS_MAX + 1


def test_apply_late_overwrites_a_newer_commit(kafka: Kafka, committer: Committer) -> None:
    """A zombie request that was delayed in the network has the same effect."""
    kafka.faults.apply_late("OffsetCommit", ms=300)
    committer.commit(1)
    committer.commit(2)
    group = kafka.group("billing")
    kafka.wait(lambda: len(group.commits) == 3)
    assert [commit.offset for commit in group.commits] == [1, 2, 1]
    assert group.committed("orders", 0) == 1


def test_never_answer_lets_the_client_time_out(kafka: Kafka, committer: Committer) -> None:
    committer.commit(1)
    fault = kafka.faults.never_answer("OffsetFetch")
    with pytest.raises(KafkaException):
        committer.consumer.committed([TopicPartition("orders", 0)], timeout=0.2)
    fault.wait()
    assert fault.fired[0].response_frame is None


def test_a_response_in_pieces_of_one_byte_is_valid(kafka: Kafka, committer: Committer) -> None:
    fault = kafka.faults.trickle("OffsetCommit")
    committer.commit(9)
    assert fault.fired[0].errors == ()
    assert committer.committed() == 9


@pytest.mark.parametrize("action", ["close_mid_frame", "corrupt"])
def test_a_client_retries_after_half_a_response_or_a_corrupt_one(
    kafka: Kafka, committer: Committer, action: str
) -> None:
    committer.commit(9)
    fault = getattr(kafka.faults, action)("FindCoordinator", client_id="second")
    second = Committer(kafka, client_id="second")
    try:
        assert second.committed() == 9
    finally:
        second.consumer.close()
    assert len(fault.fired) == 1


def test_a_fault_applies_only_to_matching_requests(
    kafka: Kafka, new_committer: NewCommitter
) -> None:
    mine, other = new_committer(client_id="mine"), new_committer(client_id="other")
    fault = kafka.faults.answer(
        "OffsetCommit",
        error="INVALID_COMMIT_OFFSET_SIZE",
        client_id="mine",
        topic="orders",
        partition=1,
        nth=2,
    )
    other.commit(1, partition=1)
    mine.commit(2, partition=0)
    mine.commit(3, partition=1)
    with pytest.raises(KafkaException):
        mine.commit(4, partition=1)
    mine.commit(5, partition=1)
    assert [each.offsets for each in fault.fired] == [{("orders", 1): 4}]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_id_filter_matches_all_connections_of_one_client(
    kafka: Kafka, library: str
) -> None:
    kafka.topic("orders", partitions=1).produce(["tea"])
    fault = kafka.faults.drop("Fetch", client_id="till-1", times=2)
    with closing(load(library)(kafka.bootstrap_servers)) as client:
        for client_id in ("till-2", "till-1", "till-11"):
            with closing(client.consumer(ConsumerSettings(client_id=client_id))) as consumer:
                consumer.assign(Partition("orders", 0))
                until(consumer.poll, f"{client_id} reads the record")
    assert [each.client_id for each in fault.fired] == ["till-1", "till-1"]
    # The client reconnects after each fault.
    assert fault.fired[0].connection != fault.fired[1].connection


def test_probability_with_a_seed_is_deterministic(kafka: Kafka, committer: Committer) -> None:
    def rejected(seed: int) -> list[int]:
        fault = kafka.faults.answer(
            "OffsetCommit", "UNKNOWN_SERVER_ERROR", times=None, probability=0.5, seed=seed
        )
        failed = []
        for offset in range(20):
            try:
                committer.commit(offset)
            except KafkaException:
                failed.append(offset)
        fault.cancel()
        return failed

    first = rejected(7)
    assert 0 < len(first) < 20
    assert rejected(7) == first
    assert rejected(8) != first


@pytest.mark.parametrize("error", [16, ErrorCode.not_coordinator, "not_coordinator"])
def test_an_error_may_be_given_by_its_code(kafka: Kafka, error: str | int) -> None:
    fault = kafka.faults.answer("OffsetCommit", error=error)
    assert fault.description == "answered with NOT_COORDINATOR"
    fault.cancel()


def test_an_unknown_error_is_rejected(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="Kafka has no error code 1600"):
        kafka.faults.answer("OffsetCommit", error=1600)
    with pytest.raises(TypeError, match="the name or the code of a Kafka error, not None"):
        kafka.faults.answer("OffsetCommit", error=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("api", "where", "message"),
    [
        (
            "Fetch",
            {"group": "g"},
            r"Fetch requests have no group \(group='g'\); they have .*client_id, topic, partition",
        ),
        ("Heartbeat", {"topic": "t"}, "Heartbeat requests have no topic"),
        ("Metadata", {"topic": "t", "partition": 0}, "Metadata requests have no partition"),
        ("ListOffsets", {"member": "m"}, "ListOffsets requests have no member"),
        ("FindCoordinator", {"instance_id": "i"}, "requests have no instance id"),
        ("OffsetCommit", {"node": 2}, "node 2 does not exist; the nodes are 1"),
    ],
)
def test_a_fault_that_could_never_fire_is_rejected(
    kafka: Kafka, api: str, where: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"This fault could never fire: .*{message}"):
        kafka.faults.drop(api, **where)
    assert kafka.faults.all == []


@pytest.mark.parametrize("version", [2, 4])
def test_filters_match_leaving_members_and_topics_without_partitions(
    kafka: Kafka, version: int
) -> None:
    leaving = {"member_id": f"till-1-{uuid4()}", "group_instance_id": None}
    fields = leaving if version < 3 else {"members": [leaving]}
    kafka.faults.answer("LeaveGroup", error="UNKNOWN_SERVER_ERROR", member="till-1")
    kafka.faults.answer("Metadata", error="LEADER_NOT_AVAILABLE", topic="orders")
    with Client(kafka.bootstrap_servers) as raw:
        response = raw.call("LeaveGroup", version, group_id="g", **fields)
        assert response["error_code"] == "unknown_server_error"
        (topic,) = raw.call("Metadata", 9, topics=[{"name": "orders"}])["topics"]
        assert topic["error_code"] == "leader_not_available"


def test_a_client_id_that_begins_with_another_is_another_member(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    members = [
        kafka.fake_member("billing", ["orders"], client_id=name) for name in ("app", "app-1")
    ]
    kafka.group("billing").wait_stable(members=2)
    with kafka.faults.answer("OffsetCommit", "UNKNOWN_MEMBER_ID", member="app"):
        assert [each.commit("orders", 0, 1) for each in reversed(members)] == [
            None,
            "UNKNOWN_MEMBER_ID",
        ]


def test_an_unused_fault_reports_near_misses(kafka: Kafka, committer: Committer) -> None:
    kafka.faults.answer("OffsetCommit", error="NOT_COORDINATOR", group="other")
    kafka.faults.drop("LeaveGroup")
    committer.commit(1)
    with pytest.raises(UnusedFault) as raised:
        kafka.faults.check()
    lines = str(raised.value).splitlines()
    apis = "ApiVersions, FindCoordinator, Metadata, OffsetCommit"
    assert lines[:2] == [
        "unused faults at the end of the test",
        "OffsetCommit (group other): answered with NOT_COORDINATOR, fired 0",
    ]
    assert lines[2].startswith("    near miss (group billing): OffsetCommit v")
    assert lines[2].endswith("billing from committer: ok")
    assert lines[3:] == [
        "LeaveGroup: dropped, not applied, fired 0",
        f"    no LeaveGroup has arrived since it was set; all requests so far: {apis}",
    ]
    kafka.faults.check()  # they were removed


def test_nth_does_not_count_requests_of_an_earlier_fault(
    kafka: Kafka, committer: Committer
) -> None:
    first = kafka.faults.lose_answer("OffsetCommit")
    second = kafka.faults.drop("OffsetCommit", nth=2)
    committer.commit(1)  # librdkafka retries
    assert len(first.fired) == 1
    assert second.report().splitlines()[2] == (
        "    1 matching request had an earlier fault (applied, response lost); nth does not count "
        "them"
    )
    committer.commit(2)
    assert len(second.fired) == 1
    assert "earlier fault" not in second.report()


# Prints the modules that setting a fault has loaded.
LOADED_BY_A_FAULT = """
import sys
from kohort.testing import Kafka
with Kafka() as kafka:
    before = set(sys.modules)
    kafka.faults.latency(ms=5, client_id="till").cancel()
    kafka.faults.network_partition(client_id="till").cancel()
    kafka.faults.latency(ms=5, group="billing").cancel()
    kafka.faults.throttle("Fetch", ms=5, client_id="till").cancel()
    print(sorted(set(sys.modules) - before))
"""


def test_a_fault_loads_no_schemas_that_it_does_not_need() -> None:
    """Loading takes seconds, in which the event loop of an async test would be blocked."""
    command = [sys.executable, "-c", LOADED_BY_A_FAULT]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_error_for_produce_with_acks_0_closes_the_connection(kafka: Kafka) -> None:
    kafka.faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER")
    with Client(kafka.bootstrap_servers) as raw:
        raw.send("Produce", 9, transactional_id=None, acks=0, timeout=1000, topic_data=[])
        assert raw.socket.recv(1) == b""


def test_the_nearest_of_many_near_misses_are_kept(kafka: Kafka) -> None:
    fault = kafka.faults.drop("OffsetCommit", group="g", client_id="other")
    with Client(kafka.bootstrap_servers, "raw") as raw:
        for group in (*"abcdefgh", "g"):
            raw.commit(group)
    assert len(fault._near_misses) == NEAR_MISSES_MAX
    assert "OffsetCommit v8 g from raw" in fault.report().splitlines()[1]
    fault.cancel()


def test_requests_pipelined_behind_a_dropped_one_are_not_handled(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.faults.drop("OffsetCommit")
    with Client(kafka.bootstrap_servers) as raw:
        commit = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": TOPICS}
        frames = [raw.encode("OffsetCommit", 7, **commit) for _ in range(2)]
        raw.socket.sendall(b"".join(frames))
        with pytest.raises(ConnectionError):
            raw.receive()
    assert kafka.group("g").committed("orders", 0) is None


def test_the_history_keeps_only_the_response_that_was_sent(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    fault = kafka.faults.answer("Metadata", error="LEADER_NOT_AVAILABLE", client_id="raw")
    with Client(kafka.bootstrap_servers, "raw") as raw:
        topics = [{"name": "orders"}]
        response = raw.call("Metadata", 4, topics=topics, allow_auto_topic_creation=False)
    assert [each["error_code"] for each in response["topics"]] == ["leader_not_available"]
    (request,) = fault.fired
    assert request.errors == ("LEADER_NOT_AVAILABLE",)
    assert request.retained_bytes == len(request.response_frame or b"")


def test_invalid_arguments_of_faults_are_rejected(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match=r"Unknown API 'OffsetComit': did you mean OffsetCommit\?"):
        kafka.faults.drop("OffsetComit")
    with pytest.raises(ValueError, match=r"no error 'NOT_COORD': did you mean NOT_"):
        kafka.faults.answer("OffsetCommit", error="NOT_COORD")
    with pytest.raises(TypeError, match="A fault has no argument color; it has group, member"):
        kafka.faults.drop("OffsetCommit", color="red")
    with pytest.raises(TypeError, match=r"A fault has no argument topics: did you mean topic\?"):
        kafka.faults.drop("OffsetCommit", topics="orders")
    with pytest.raises(ValueError, match="delay must be positive, not 0 ms"):
        kafka.faults.delay("OffsetCommit")


@pytest.mark.parametrize("version", range(2, 11))
def test_a_fault_applies_to_every_version_of_its_api(kafka: Kafka, version: int) -> None:
    topic = kafka.topic("orders", partitions=1)
    with Client(kafka.bootstrap_servers) as raw:
        if version >= 10:
            metadata = raw.call("Metadata", 12, topics=[{"name": "orders"}])
            topic_id = UUID(metadata["topics"][0]["topic_id"])
        kafka.faults.answer("OffsetCommit", error="NOT_COORDINATOR", topic=topic.name, group="g")
        topics = [{**TOPICS[0], "topic_id": topic_id}] if version >= 10 else TOPICS
        values = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": topics}
        response = raw.call("OffsetCommit", version, **values)
        assert response["topics"][0]["partitions"][0]["error_code"] == "not_coordinator"


@pytest.mark.kafka(config={"kohort.request.cache": "true"})  # also for `make uncached`
def test_repeated_requests_are_decoded_only_for_a_fault(kafka: Kafka) -> None:
    """As in `kohort serve`, the request cache recognizes them."""

    def is_recognized() -> bool:
        *_, before, last = kafka.history.requests_of("OffsetCommit")
        return last.cached_message is before.cached_message

    kafka.topic("orders", partitions=1)
    kafka.faults.delay("Heartbeat", ms=1, times=None)
    with Client(kafka.bootstrap_servers) as raw:
        raw.commit("g")  # creates the coordinator's log, and is not cached
        assert [raw.commit("g"), raw.commit("g")] == ["none", "none"]
        assert is_recognized()
        fault = kafka.faults.answer("OffsetCommit", "NOT_COORDINATOR", nth=2)
        assert raw.commit("g") == "none"
        assert not is_recognized()
        assert raw.commit("g") == "not_coordinator"
        assert not fault.is_active
        assert [raw.commit("g"), raw.commit("g")] == ["none", "none"]
        assert is_recognized()
    kafka.faults.clear()


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        ({"group": "biling"}, "no request has group biling: did you mean billing?"),
        ({"topic": "oders"}, "no request has topic oders: did you mean orders?"),
        ({"client_id": "tills"}, "no request has client id tills: did you mean till?"),
    ],
)
def test_the_report_of_an_unused_fault_suggests_similar_names(
    kafka: Kafka, where: dict[str, Any], hint: str
) -> None:
    kafka.topic("orders", partitions=1)
    fault = kafka.faults.drop("OffsetCommit", **where)
    kafka.fake_member("billing", ["orders"], client_id="till").commit("orders", 0, 1)
    assert f"\n    {hint}\n" in fault.report()
    fault.cancel()


def test_a_fault_whose_probability_selected_no_request_says_so(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    member = kafka.fake_member("billing", topics=["orders"])
    fault = kafka.faults.drop("OffsetCommit", probability=1e-9)
    for offset in range(2):
        assert member.commit("orders", 0, offset) is None
    assert fault.report().endswith("probability 1e-09 selected none of 2 matching requests")
    fault.cancel()


@pytest.mark.parametrize(
    ("name", "value"), [("node", "1"), ("partition", "0"), ("group", b"billing"), ("client_id", 7)]
)
def test_a_filter_of_the_wrong_type_is_rejected(kafka: Kafka, name: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be (int|str), not "):
        kafka.faults.drop("Fetch", **{name: value})


def test_a_wait_for_more_times_than_a_fault_fires_is_rejected(kafka: Kafka) -> None:
    fault = kafka.faults.drop("Fetch")
    with pytest.raises(ValueError, match="The fault fires only once: set it with times=2"):
        fault.wait(2)
    fault.cancel()
