"""Mistakes of other fake brokers. The clients have no library, which could hide them by retries."""

import json
import struct
import subprocess
import sys

from kohort.testing import Kafka
from support.wire import Client


def test_a_member_of_no_group_gets_unknown_member_id(kafka: Kafka) -> None:
    fields = {"group_id": "unknown", "member_id": "me", "generation_id": 1}
    with Client(kafka.bootstrap_servers) as raw:
        assert raw.call("Heartbeat", 4, **fields)["error_code"] == "unknown_member_id"
        assert raw.call("SyncGroup", 3, **fields)["error_code"] == "unknown_member_id"
        assert raw.call("LeaveGroup", 2, **fields)["error_code"] == "unknown_member_id"


def test_static_members_survive_a_rebalance_that_they_miss(kafka: Kafka) -> None:
    with Client(kafka.bootstrap_servers) as static, Client(kafka.bootstrap_servers) as other:
        static.join("g", group_instance_id="till-1", rebalance_timeout=1_000)
        other.send_join("g", other.new_member_id("g"), rebalance_timeout=1_000)
        kafka.wait(lambda: len(kafka.group("g").members) == 2)
        kafka.clock.advance(ms=1_500)  # past the rebalance timeout, not past that of SyncGroup
        assert other.receive()["error_code"] == "none"
        assert {each.instance_id for each in kafka.group("g").members} == {"till-1", None}


def test_all_members_get_the_same_new_leader(kafka: Kafka) -> None:
    fakes = [
        kafka.fake_member("g", topics=["orders"], client_id=f"p{number}") for number in range(3)
    ]
    kafka.topic("orders", partitions=3)
    group = kafka.group("g").wait_stable(members=3)
    leader = next(each for each in group.members if each.is_leader)
    next(each for each in fakes if each.member_id == leader.member_id).leave()
    group.wait_stable(members=2)
    joins = kafka.history.requests_of("JoinGroup", group="g")
    leaders = {each.response.leader for each in joins[-2:]}
    assert len(leaders) == 1
    assert leaders <= {each.member_id for each in group.members}


def test_a_member_without_a_common_protocol_is_rejected(kafka: Kafka) -> None:
    with Client(kafka.bootstrap_servers) as one, Client(kafka.bootstrap_servers) as other:
        one.join("g")
        response = other.join("g", protocols=[{"name": "other", "metadata": b""}])
        assert response["error_code"] == "inconsistent_group_protocol"
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


def test_a_frame_with_a_huge_size_closes_only_its_connection(kafka: Kafka) -> None:
    with Client(kafka.bootstrap_servers) as liar, Client(kafka.bootstrap_servers) as honest:
        liar.socket.sendall(struct.pack(">i", 2**31 - 1) + b"x")
        assert liar.socket.recv(1) == b""
        assert honest.call("ApiVersions", 0)["error_code"] == "none"


def test_offset_metadata_has_a_size_limit(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    topics = [
        {
            "name": "orders",
            "partitions": [
                {"partition_index": 0, "committed_offset": 7, "committed_metadata": "x" * 5_000}
            ],
        }
    ]
    with Client(kafka.bootstrap_servers) as raw:
        assert raw.commit("g", topics=topics) == "offset_metadata_too_large"


def test_a_join_waits_for_all_members_and_a_sync_for_the_leader(kafka: Kafka) -> None:
    with Client(kafka.bootstrap_servers) as one, Client(kafka.bootstrap_servers) as two:
        first = one.join("g")
        two.send_join("g", two.new_member_id("g"))
        kafka.wait(lambda: kafka.group("g").state == "PreparingRebalance")
        join = kafka.history.requests_of("JoinGroup", group="g")[-1]
        assert join.response_frame is None
        one.send_join("g", first["member_id"])
        leader, follower = one.receive(), two.receive()
        assert leader["generation_id"] == follower["generation_id"] == 2
        sync = {"group_id": "g", "generation_id": 2}
        two.send("SyncGroup", 3, member_id=follower["member_id"], **sync)
        assert kafka.wait_request("SyncGroup", group="g").response_frame is None
        assigned = [{"member_id": follower["member_id"], "assignment": b"partitions"}]
        one.call("SyncGroup", 3, member_id=leader["member_id"], assignments=assigned, **sync)
        assert two.receive()["assignment"] == b"partitions"


def test_a_rebalance_completes_at_its_timeout(kafka: Kafka) -> None:
    with Client(kafka.bootstrap_servers) as one, Client(kafka.bootstrap_servers) as two:
        one.join("g", rebalance_timeout=1_000)
        two.send_join("g", two.new_member_id("g"), rebalance_timeout=1_000)
        kafka.wait(lambda: kafka.group("g").state == "PreparingRebalance")
        kafka.clock.advance(seconds=1)  # the first does not rejoin
        joined = two.receive()
        assert [each["member_id"] for each in joined["members"]] == [joined["member_id"]]
        sync = {"group_id": "g", "generation_id": 2, "member_id": joined["member_id"]}
        assert two.call("SyncGroup", 3, **sync)["error_code"] == "none"
