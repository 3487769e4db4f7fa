"""Faults between a client and the broker: what the client sees, what the broker did, and that a
fault which does not fire fails its test."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from kohort.protocol.errors import ErrorCode
from kohort.testing import Kafka, UnusedFault
from kohort.testing.faults import NEAR_MISSES

from .conftest import Committer
from .raw import Raw
from .test_mistakes import COMMIT, commit

pytestmark = pytest.mark.clients


def test_an_error_is_answered_as_often_as_it_is_set_and_nothing_is_applied(
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


def test_a_client_looks_for_the_coordinator_again_and_commits_there(
    kafka: Kafka, committer: Committer
) -> None:
    kafka.faults.answer("OffsetCommit", error="NOT_COORDINATOR", times=2, group="billing")
    committer.commit(7)
    assert kafka.group("billing").committed("orders", 0) == 7
    assert len(kafka.history.requests_of("OffsetCommit")) == 3


@pytest.mark.parametrize("way", ["answered late", "handled late"])
def test_a_delay_holds_back_an_answer(kafka: Kafka, committer: Committer, way: str) -> None:
    if way == "answered late":
        fault = kafka.faults.delay_answer("OffsetCommit", ms=50)
    else:
        fault = kafka.faults.delay("OffsetCommit", ms=50)
    committer.commit(5)
    (asked,) = fault.fired
    assert asked.answered_ms is not None
    assert (asked.answered_ms - asked.at_ms >= 50) == (way == "handled late")
    assert kafka.group("billing").committed("orders", 0) == 5


def test_outcome_unknown_and_applied(kafka: Kafka, committer: Committer) -> None:
    kafka.faults.lose_answer("OffsetCommit")
    committer.commit(4)  # librdkafka asks again, and is answered then
    group = kafka.group("billing")
    assert [commit.offset for commit in group.commits] == [4, 4]


def test_outcome_unknown_and_not_applied(kafka: Kafka, committer: Committer) -> None:
    kafka.faults.drop("OffsetCommit")
    committer.commit(4)
    assert [commit.offset for commit in kafka.group("billing").commits] == [4]
    assert len(kafka.history.requests_of("OffsetCommit")) == 2


def test_outcome_unknown_and_applied_late_over_a_newer_commit(
    kafka: Kafka, committer: Committer
) -> None:
    """A zombie: the broker wakes up to a commit that its client has long made obsolete."""
    kafka.faults.apply_late("OffsetCommit", ms=300)
    committer.commit(1)
    committer.commit(2)
    group = kafka.group("billing")
    kafka.wait(lambda: len(group.commits) == 3)
    assert [commit.offset for commit in group.commits] == [1, 2, 1]
    assert group.committed("orders", 0) == 1


def test_a_request_that_is_never_answered_times_out_at_its_client(
    kafka: Kafka, committer: Committer
) -> None:
    committer.commit(1)
    fault = kafka.faults.never_answer("OffsetFetch")
    with pytest.raises(KafkaException):
        committer.consumer.committed([TopicPartition("orders", 0)], timeout=0.2)
    fault.wait()
    assert fault.fired[0].answer is None


def test_an_answer_in_pieces_of_one_byte_is_an_answer(kafka: Kafka, committer: Committer) -> None:
    fault = kafka.faults.trickle("OffsetCommit")
    committer.commit(9)
    assert fault.fired[0].errors == ()
    assert committer.committed() == 9


@pytest.mark.parametrize("deed", ["close_mid_frame", "corrupt"])
def test_half_an_answer_or_a_bad_one_is_asked_for_again(
    kafka: Kafka, committer: Committer, deed: str
) -> None:
    committer.commit(9)
    fault = getattr(kafka.faults, deed)("FindCoordinator", client_id="second")
    second = Committer(kafka, client_id="second")
    try:
        assert second.committed() == 9
    finally:
        second.consumer.close()
    assert len(fault.fired) == 1


def test_a_fault_is_for_whom_it_names_only(
    kafka: Kafka, new_committer: Callable[..., Committer]
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


def test_chance_is_the_same_in_each_run(kafka: Kafka, committer: Committer) -> None:
    def refused(seed: int) -> list[int]:
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

    first = refused(7)
    assert 0 < len(first) < 20
    assert refused(7) == first
    assert refused(8) != first


@pytest.mark.parametrize("error", [16, ErrorCode.not_coordinator, "not_coordinator"])
def test_an_error_may_be_a_number(kafka: Kafka, error: str | int) -> None:
    fault = kafka.faults.answer("OffsetCommit", error=error)
    assert fault.what == "answered with NOT_COORDINATOR"
    fault.cancel()


def test_what_is_no_error_is_not_answered(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="no error of the number 1600"):
        kafka.faults.answer("OffsetCommit", error=1600)
    with pytest.raises(TypeError, match="Kafka's name of it, or its number, not None"):
        kafka.faults.answer("OffsetCommit", error=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("api", "where", "said"),
    [
        ("Fetch", {"group": "g"}, r"Fetch says nothing of a group \(group='g'\)"),
        ("Heartbeat", {"topic": "t"}, "Heartbeat says nothing of a topic"),
        ("Metadata", {"topic": "t", "partition": 0}, "Metadata says nothing of a partition"),
        ("ListOffsets", {"member": "m"}, "ListOffsets says nothing of a member"),
        ("FindCoordinator", {"instance_id": "i"}, "says nothing of a static member"),
        ("OffsetCommit", {"node": 2}, "there is no node 2; there is: 1"),
    ],
)
def test_a_fault_that_no_request_could_meet_is_refused(
    kafka: Kafka, api: str, where: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=f"this fault could never fire: .*{said}"):
        kafka.faults.drop(api, **where)
    assert kafka.faults.all == []


@pytest.mark.parametrize("version", [2, 4])
def test_a_fault_may_be_for_who_leaves_and_for_a_topic_without_its_partitions(
    kafka: Kafka, version: int
) -> None:
    leaving = {"member_id": "till-1-7c", "group_instance_id": None}
    how = leaving if version < 3 else {"members": [leaving]}
    kafka.faults.answer("LeaveGroup", error="UNKNOWN_SERVER_ERROR", member="till-1")
    kafka.faults.answer("Metadata", error="LEADER_NOT_AVAILABLE", topic="orders")
    with Raw(kafka) as raw:
        answer = raw.ask("LeaveGroup", version, group_id="g", **how)
        assert answer["error_code"] == "unknown_server_error"
        (topic,) = raw.ask("Metadata", 9, topics=[{"name": "orders"}])["topics"]
        assert topic["error_code"] == "leader_not_available"


def test_a_fault_that_never_fired_tells_what_nearly_fitted(
    kafka: Kafka, committer: Committer
) -> None:
    kafka.faults.answer("OffsetCommit", error="NOT_COORDINATOR", group="other")
    kafka.faults.drop("LeaveGroup")
    committer.commit(1)
    with pytest.raises(UnusedFault) as raised:
        kafka.faults.check()
    said = str(raised.value).splitlines()
    came = "ApiVersions, FindCoordinator, Metadata, OffsetCommit"
    assert said[:2] == [
        "a fault of this test has not fired.",
        "OffsetCommit (group other): answered with NOT_COORDINATOR, fired 0",
    ]
    assert said[2].startswith("    nearly: OffsetCommit v")
    assert said[2].endswith("billing from committer: ok, but it was group billing")
    assert said[3:] == [
        "LeaveGroup: dropped before it was applied, fired 0",
        f"    no LeaveGroup has come since it was set; what came at all: {came}",
    ]
    kafka.faults.check()  # what was told once is forgotten


def test_who_wants_no_answer_to_a_produce_learns_of_an_error_by_the_end(kafka: Kafka) -> None:
    kafka.faults.answer("Produce", error="NOT_LEADER_OR_FOLLOWER")
    with Raw(kafka) as raw:
        raw.send("Produce", 9, transactional_id=None, acks=0, timeout=1000, topic_data=[])
        assert raw.socket.recv(1) == b""


def test_of_what_nearly_fitted_the_nearest_are_kept(kafka: Kafka) -> None:
    fault = kafka.faults.drop("OffsetCommit", group="g", client_id="other")
    with Raw(kafka) as raw:
        for group in (*"abcdefgh", "g"):
            commit(raw, group)
    assert len(fault._near) == NEAR_MISSES
    assert "OffsetCommit v7 g from raw" in fault.tell(kafka).splitlines()[1]
    fault.cancel()


def test_what_came_on_the_heels_of_a_dropped_request_is_not_done_either(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.faults.drop("OffsetCommit")
    with Raw(kafka) as raw:
        connected, frames = raw.socket, list[bytes]()
        raw.socket = SimpleNamespace(sendall=frames.append)  # type: ignore[assignment]
        for _ in range(2):
            raw.send("OffsetCommit", 7, group_id="g", **COMMIT)
        raw.socket = connected
        connected.sendall(b"".join(frames))
        with pytest.raises(ConnectionError):
            raw.read()
    assert kafka.group("g").committed("orders", 0) is None


def test_the_history_has_the_answer_that_went_out_and_keeps_it_once(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    fault = kafka.faults.answer("Metadata", error="LEADER_NOT_AVAILABLE", client_id="raw")
    with Raw(kafka) as raw:
        told = raw.ask("Metadata", 4, topics=[{"name": "orders"}], allow_auto_topic_creation=False)
    assert [each["error_code"] for each in told["topics"]] == ["leader_not_available"]
    (asked,) = fault.fired
    assert asked.errors == ("LEADER_NOT_AVAILABLE",)
    assert asked.kept_bytes == len(asked.answer or b"")


def test_words_that_are_wrong_are_told_at_once(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match=r"no API called OffsetComit: did you mean OffsetCommit\?"):
        kafka.faults.drop("OffsetComit")
    with pytest.raises(ValueError, match=r"no error called NOT_COORD: did you mean NOT_"):
        kafka.faults.answer("OffsetCommit", error="NOT_COORD")
    with pytest.raises(TypeError, match="a fault has no colour; there is: group, member"):
        kafka.faults.drop("OffsetCommit", colour="red")
    with pytest.raises(ValueError, match="say how long"):
        kafka.faults.delay("OffsetCommit")
