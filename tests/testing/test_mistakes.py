"""Fourteen mistakes of other fakes, each by a test that would catch it here. Clients have no
library in between, so that nothing is asked again unseen."""

import errno
import json
import struct
import subprocess
import sys
import threading
from uuid import UUID

import pytest
from kohort.testing import Kafka, UnusedFault

from .raw import Raw

COMMIT = {
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "topics": [
        {
            "name": "orders",
            "partitions": [
                {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""},
            ],
        }
    ],
}


def commit(raw: Raw, group: str = "g", **more: object) -> str:
    """The error of one commit."""
    answer = raw.ask("OffsetCommit", 7, group_id=group, **{**COMMIT, **more})
    return str(answer["topics"][0]["partitions"][0]["error_code"])


def test_01_a_commit_is_not_ok_when_the_append_to_the_log_failed() -> None:
    with Kafka(durability="fsync") as kafka, Raw(kafka) as raw:
        kafka.topic("orders", partitions=1)
        assert commit(raw) == "none"
        kafka.disk.fail("append", error=errno.errorcode[errno.ENOSPC], topic="__consumer_offsets")
        refused = commit(raw, group="g")
        assert refused != "none"


def test_02_a_torn_tail_is_cut_off_so_that_later_commits_are_found() -> None:
    with Kafka(durability="fsync") as kafka:
        kafka.topic("orders", partitions=1)
        with Raw(kafka) as raw:
            assert commit(raw) == "none"
            kafka.disk.tear(topic="__consumer_offsets")
            assert commit(raw) != "none"
        kafka.crash(power=True)
        with Raw(kafka) as raw:
            kafka.wait(lambda: commit(raw, group="g") == "none")
        kafka.crash(power=True)
        assert kafka.group("g").committed("orders", 0) == 7


def test_03_a_folder_is_synced_after_a_rename() -> None:
    with Kafka(durability="fsync") as kafka:
        kafka.topic("orders", partitions=1)
        kafka.restart()
        done = kafka.disk.operations
    for place, (operation, name) in enumerate(done):
        if operation == "rename":
            rest = [each for each, _ in done[place + 1 :]]
            assert "sync_folder" in rest, name


def test_04_who_is_in_no_group_is_an_unknown_member_of_it(kafka: Kafka) -> None:
    who = {"group_id": "nobody's", "member_id": "me", "generation_id": 1}
    with Raw(kafka) as raw:
        assert raw.ask("Heartbeat", 4, **who)["error_code"] == "unknown_member_id"
        assert raw.ask("SyncGroup", 3, **who)["error_code"] == "unknown_member_id"
        assert raw.ask("LeaveGroup", 2, **who)["error_code"] == "unknown_member_id"


def test_05_static_members_outlive_a_round_that_they_miss(kafka: Kafka) -> None:
    with Raw(kafka) as static, Raw(kafka) as other:
        static.join("g", group_instance_id="till-1", timeout_ms=1_000)
        first = other.ask("JoinGroup", 5, **_joining("g", ""))
        other.send_join("g", first["member_id"], timeout_ms=1_000)
        kafka.wait(lambda: len(kafka.group("g").members) == 2)
        kafka.clock.advance(ms=1_500)  # after the round, before its members are to have synced
        assert other.read()["error_code"] == "none"
        assert {each.instance_id for each in kafka.group("g").members} == {"till-1", None}


def _joining(group: str, member_id: str) -> dict[str, object]:
    return {
        "group_id": group,
        "session_timeout": 45_000,
        "rebalance_timeout": 1_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


def test_06_when_the_leader_goes_all_are_told_of_the_same_new_one(kafka: Kafka) -> None:
    puppets = [kafka.puppet("g", topics=["orders"], client_id=f"p{number}") for number in range(3)]
    kafka.topic("orders", partitions=3)
    group = kafka.group("g").wait_stable(members=3)
    leader = next(each for each in group.members if each.is_leader)
    next(each for each in puppets if each.member_id == leader.member_id).leave()
    group.wait_stable(members=2)
    joins = kafka.history.requests_of("JoinGroup", group="g")
    told = {each.response.leader for each in joins[-2:]}
    assert len(told) == 1
    assert told <= {each.member_id for each in group.members}


def test_07_who_shares_no_protocol_is_refused_and_a_run_can_be_repeated(kafka: Kafka) -> None:
    with Raw(kafka) as one, Raw(kafka) as other:
        one.join("g")
        refused = other.ask(
            "JoinGroup",
            5,
            **{**_joining("g", ""), "protocols": [{"name": "other", "metadata": b""}]},
        )
        assert refused["error_code"] == "inconsistent_group_protocol"
        assert len(kafka.group("g").members) == 1
    assert _shares("1") == _shares("2")


def _shares(hash_seed: str) -> object:
    case = {
        "assignor": "sticky",
        "partitions": {"a": 5, "b": 4},
        "members": {f"m{number}": {"topics": ["a", "b"]} for number in range(4)},
    }
    done = subprocess.run(
        [sys.executable, "-m", "kohort", "assign", "--cases", "-"],
        input=json.dumps(case),
        env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_08_a_frame_that_claims_to_be_huge_ends_its_connection_alone(kafka: Kafka) -> None:
    with Raw(kafka) as liar, Raw(kafka) as honest:
        liar.socket.sendall(struct.pack(">i", 2**31 - 1) + b"x")
        assert liar.socket.recv(1) == b""
        assert honest.ask("ApiVersions", 0)["error_code"] == "none"


def test_09_metadata_of_an_offset_has_a_limit(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    topics = [
        {
            "name": "orders",
            "partitions": [
                {"partition_index": 0, "committed_offset": 7, "committed_metadata": "x" * 5_000}
            ],
        }
    ]
    with Raw(kafka) as raw:
        assert commit(raw, topics=topics) == "offset_metadata_too_large"


def test_10_a_join_waits_for_the_others_and_a_follower_for_its_leader(kafka: Kafka) -> None:
    with Raw(kafka) as one, Raw(kafka) as two:
        first = one.join("g")
        pending = two.ask("JoinGroup", 5, **_joining("g", ""))
        two.send_join("g", pending["member_id"])
        kafka.wait(lambda: kafka.group("g").state == "PreparingRebalance")
        join = kafka.history.requests_of("JoinGroup", group="g")[-1]
        assert join.answer is None
        one.send_join("g", first["member_id"])
        leader, follower = one.read(), two.read()
        assert leader["generation_id"] == follower["generation_id"] == 2
        sync = {"group_id": "g", "generation_id": 2}
        two.send("SyncGroup", 3, member_id=follower["member_id"], **sync)
        asked = kafka.wait_request("SyncGroup", group="g")
        assert asked.answer is None
        given = [{"member_id": follower["member_id"], "assignment": b"yours"}]
        one.ask("SyncGroup", 3, member_id=leader["member_id"], assignments=given, **sync)
        assert two.read()["assignment"] == "yours"


def test_11_a_round_ends_with_its_timeout_and_a_sync_with_its_leader(kafka: Kafka) -> None:
    with Raw(kafka) as one, Raw(kafka) as two:
        one.join("g", timeout_ms=1_000)
        pending = two.ask("JoinGroup", 5, **_joining("g", ""))
        two.send_join("g", pending["member_id"], timeout_ms=1_000)
        kafka.wait(lambda: kafka.group("g").state == "PreparingRebalance")
        kafka.clock.advance(seconds=1)  # the first does not come back
        joined = two.read()
        assert [each["member_id"] for each in joined["members"]] == [joined["member_id"]]
        sync = {"group_id": "g", "generation_id": 2, "member_id": joined["member_id"]}
        assert two.ask("SyncGroup", 3, **sync)["error_code"] == "none"


def test_12_nothing_listens_before_it_is_set_up_and_nothing_is_left_behind() -> None:
    before = set(threading.enumerate())
    kafka = Kafka()
    assert kafka.broker.addresses == {}
    with kafka, Raw(kafka) as raw:
        assert raw.ask("ApiVersions", 0)["error_code"] == "none"
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        Raw(kafka)


@pytest.mark.parametrize("version", range(2, 11))
def test_13_a_fault_is_for_every_version_of_its_api(kafka: Kafka, version: int) -> None:
    topic = kafka.topic("orders", partitions=1)
    with Raw(kafka) as raw:
        if version >= 10:
            names = raw.ask("Metadata", 12, topics=[{"name": "orders"}])
            id_ = names["topics"][0]["topic_id"]
        kafka.faults.answer("OffsetCommit", error="NOT_COORDINATOR", topic=topic.name, group="g")
        values = {**COMMIT, "generation_id": -1, "group_id": "g"}
        if version >= 10:
            (only,) = COMMIT["topics"]  # type: ignore[misc]
            values["topics"] = [{**only, "topic_id": UUID(id_)}]
        answer = raw.ask("OffsetCommit", version, **values)
        assert answer["topics"][0]["partitions"][0]["error_code"] == "not_coordinator"


def test_14_a_fault_that_never_fires_fails_its_test() -> None:
    never = pytest.raises(UnusedFault, match="OffsetCommit: answered with NOT_COORDINATOR, fired 0")
    with never, Kafka() as kafka:
        kafka.faults.answer("OffsetCommit", error="NOT_COORDINATOR")
