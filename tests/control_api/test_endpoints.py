"""The endpoints, on a broker with a real consumer."""

import base64
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaException, Producer
from kohort.control_api import groups, transactions
from kohort.control_api.control import Control
from kohort.control_api.server import ControlServer
from kohort.testing import Kafka
from kohort.testing.faults.faults import UnusedFault

from ..testing.conftest import Service
from .conftest import ApiClient


@pytest.fixture
def service(api: ApiClient, kafka: Kafka) -> Iterator[Service]:
    assert api("POST", "/topics/orders", partitions=1).status == 200
    service = Service(kafka, "billing", "orders")
    yield service
    service.close()


def test_topics_are_created_filled_read_and_deleted(api: ApiClient) -> None:
    made = api("POST", "/topics/orders", partitions=2, config={"retention.ms": "1000"})
    assert made.body == {
        "topic": "orders",
        "partitions": [{"partition": index, "end_offset": 0} for index in range(2)],
    }
    done = api("POST", "/topics/orders/records", values=["a", None], keys=["k", None], partition=1)
    assert done.body["records"] == [
        {"partition": 1, "offset": 0},
        {"partition": 1, "offset": 1},
    ]
    read = api("GET", "/topics/orders/records?partition=1").body["records"]
    assert [(each["key"], each["value"]) for each in read] == [("k", "a"), (None, None)]
    assert len(api("GET", "/topics/orders/records?limit=1").body["records"]) == 1
    assert api("POST", "/topics/orders/partitions", total=3).body["partitions"][2:] == [
        {"partition": 2, "end_offset": 0}
    ]
    assert api("DELETE", "/topics/orders").status == 200
    assert api("GET", "/topics").body == {"topics": []}
    assert api.error("GET", "/topics/orders") == (404, "Topic orders does not exist")


def test_bytes_are_transferred_in_base64(api: ApiClient) -> None:
    api("POST", "/topics/orders", partitions=1)
    value = base64.b64encode(b"\xff\x00").decode()
    api("POST", "/topics/orders/records", values=[value], encoding="base64")
    (record,) = api("GET", "/topics/orders/records?encoding=base64").body["records"]
    assert record["value"] == value
    (record,) = api("GET", "/topics/orders/records").body["records"]
    assert record["value"] == "\\xff\x00"


def test_records_have_headers(api: ApiClient, kafka: Kafka) -> None:
    api("POST", "/topics/orders", partitions=1)
    api("POST", "/topics/orders/records", values=["a", "b"], headers={"trace": "7", "none": None})
    read = api("GET", "/topics/orders/records").body["records"]
    headers = [{"key": "trace", "value": "7"}, {"key": "none", "value": None}]
    assert [each["headers"] for each in read] == [headers, headers]
    more = {"encoding": "base64", "headers": {"bytes": "/w=="}}
    api("POST", "/topics/orders/records", values=["YQ=="], **more)
    assert kafka.topic("orders").records()[-1].headers == (("bytes", b"\xff"),)


def test_the_lag_of_a_group(api: ApiClient, kafka: Kafka) -> None:
    api("POST", "/topics/orders", partitions=2)
    api("POST", "/topics/orders/records", values=["a", "b", "c"])
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.commit("orders", 0, 1)
    assert api("GET", "/groups/billing/lag?topic=orders").body == {
        "topic": "orders",
        "lag": 2,
        "partitions": [{"partition": 0, "lag": 1}, {"partition": 1, "lag": 1}],
    }


def test_a_group_is_described_and_waited_for(api: ApiClient, service: Service) -> None:
    stable = api("POST", "/groups/billing/wait", until="stable", members=1)
    assert (stable.body["state"], stable.body["generation"]) == ("Stable", 1)
    (member,) = stable.body["members"]
    assert member["partitions"] == [{"topic": "orders", "partition": 0}]
    owned = api("POST", "/groups/billing/wait", until="owner", topic="orders", partition=0)
    assert owned.body["owner"] == member
    api("POST", "/topics/orders/records", values=["a", "b"])
    place = {"topic": "orders", "partition": 0}
    done = api("POST", "/groups/billing/wait", until="committed", offset=2, **place)
    assert done.body["committed"] == 2
    assert api("GET", "/groups/billing/offsets").body == {"offsets": [{**place, "offset": 2}]}
    last = api("GET", "/groups/billing/commits").body["commits"][-1]
    assert (last["client_id"], last["offset"]) == ("service", 2)
    (generation,) = api("GET", "/groups/billing/generations").body["generations"]
    assert generation["cause"] == "member joined"
    assert api("GET", "/groups").body["groups"] == [
        {"group": "billing", "state": "Stable", "members": 1}
    ]
    assert "service at /127.0.0.1" in api("GET", "/groups/billing/explain").body["explanation"]


def test_a_wait_that_times_out_is_408_with_an_explanation(api: ApiClient) -> None:
    status, message = api.error(
        "POST", "/groups/billing/wait", until="stable", members=2, timeout=0.01
    )
    assert status == 408
    assert "to be Stable with 2 members\nGroup billing does not exist" in message


def test_advancing_the_clock_expires_a_session(api: ApiClient, service: Service) -> None:
    api("POST", "/groups/billing/wait", until="stable", members=1)
    api("POST", "/clock/freeze")
    before = api("GET", "/clock").body["now_ms"]
    assert api("POST", "/clock/advance", seconds=45, ms=1).body["now_ms"] == before + 45_001
    api("POST", "/groups/billing/wait", until="stable", members=1)  # it has rejoined
    causes = [
        each["cause"] for each in api("GET", "/groups/billing/generations").body["generations"]
    ]
    assert causes == ["member joined", "session expired", "member joined"]
    assert api("POST", "/clock/resume").body["now_ms"] >= before + 45_001
    types = [each["type"] for each in api("GET", "/events?group=billing").body["events"]]
    assert "member_expired" in types


def test_a_fault_fires_and_is_reported(api: ApiClient, service: Service) -> None:
    answer = {"action": "answer", "api": "OffsetCommit", "error": "NOT_COORDINATOR", "times": 2}
    fault = api("POST", "/faults", group="billing", **answer).body
    assert (fault["description"], fault["where"]) == (
        "answered with NOT_COORDINATOR",
        {"group": "billing"},
    )
    api("POST", "/topics/orders/records", values=["a"])
    fired = api("POST", f"/faults/{fault['fault']}/wait", times=2).body
    assert fired["fired"] == 2
    assert api("GET", f"/faults/{fault['fault']}").body == fired
    number = fired["requests"][0]
    # The limit is large enough for all commits of the service since the fault.
    since = api("GET", f"/requests?api=OffsetCommit&after={number - 1}&limit=10000")
    first = since.body["requests"][0]
    assert (first["number"], first["errors"]) == (number, ["NOT_COORDINATOR"])
    assert first["principal"] == "User:ANONYMOUS"
    checked = api("POST", "/faults/check")
    assert (checked.status, checked.body["faults"]) == (200, [fired])
    assert api("GET", "/faults").body == {"faults": []}


def test_an_unused_fault_is_409_with_the_requests_so_far(api: ApiClient) -> None:
    api("POST", "/faults", action="drop", api="Heartbeat", times=None)
    status, why = api.error("POST", "/faults/check")
    assert status == 409
    assert "no Heartbeat has arrived since it was set" in why
    assert api("POST", "/faults/check").status == 200
    fault = api("POST", "/faults", action="delay", api="Heartbeat", seconds=1).body["fault"]
    assert api("DELETE", f"/faults/{fault}").status == 200
    assert api("POST", "/faults/check").status == 200
    status, why = api.error("GET", f"/faults/{fault}")
    assert (status, why) == (404, f"fault {fault} does not exist; existing: none")


def test_group_control(api: ApiClient, service: Service) -> None:
    api("POST", "/groups/billing/wait", until="stable", members=1)
    hold = api("POST", "/groups/billing/holds", api="SyncGroup").body["hold"]
    assert api("POST", "/groups/billing/rebalance").status == 200
    (held,) = api("POST", f"/holds/{hold}/wait", count=1).body["requests"]
    assert held["api"] == "SyncGroup"
    assert api("GET", "/groups/billing").body["state"] == "CompletingRebalance"
    assert [each["hold"] for each in api("GET", "/holds").body["holds"]] == [hold]
    assert api("DELETE", f"/holds/{hold}").status == 200
    api("POST", "/groups/billing/wait", until="stable", members=1)
    assert api("POST", "/groups/billing/lead", member="service").status == 200
    api("POST", "/groups/billing/wait", until="generation", generation=3)
    api("POST", "/groups/billing/wait", until="stable", members=1)
    assert api("POST", "/groups/billing/evict", member="service", reason="too slow").status == 200
    api("POST", "/groups/billing/wait", until="stable", members=1)
    assert api("POST", "/groups/billing/expire", member="service").status == 200
    assert api("POST", "/groups/billing/loading").status == 200
    assert api.error("POST", "/groups/billing/loading")[0] == 400
    assert api("DELETE", "/groups/billing/loading").status == 200
    assert api.error("DELETE", "/groups/billing/loading")[0] == 404
    node_id = api("GET", "/groups/billing").body["node_id"]
    moved = api("POST", "/groups/billing/move", node_id=3 - node_id)
    assert moved.body["node_id"] == 3 - node_id
    api("POST", "/groups/billing/wait", until="stable", members=1)


@pytest.mark.parametrize(
    ("add", "remove"),
    [
        (groups.load, groups.finish_loading),
        (groups.hold_assignment, groups.release_assignment),
        (transactions.hold_markers, transactions.release_markers),
    ],
)
def test_only_one_of_several_concurrent_requests_succeeds(
    api: ApiClient, add: Callable[[Control, str], object], remove: Callable[[Control, str], object]
) -> None:
    start = threading.Barrier(8)

    def call(function: Callable[[Control, str], object]) -> type[Exception] | None:
        start.wait()
        try:
            function(api.control, "billing")
        except (LookupError, UnusedFault, ValueError) as error:
            return type(error)
        return None

    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(call, [add] * 8))
        removed = list(pool.map(call, [remove] * 8))
    assert (added.count(None), added.count(ValueError)) == (1, 7)
    assert removed.count(LookupError) == 7


@pytest.mark.parametrize("kind", ["loading", "assignment-hold"])
def test_what_a_restart_has_ended_does_not_exist(api: ApiClient, kind: str) -> None:
    for restart in ("/restart", "/crash"):
        assert api("POST", f"/groups/g/{kind}").status == 200
        assert api.error("POST", f"/groups/g/{kind}")[0] == 400
        api("POST", restart)
        assert api.error("DELETE", f"/groups/g/{kind}")[0] == 404
        assert api("POST", f"/groups/g/{kind}").status == 200
        api("POST", restart)
        assert api("POST", f"/groups/g/{kind}").status == 200
        assert api("DELETE", f"/groups/g/{kind}").status == 200


def test_a_transaction_is_described_and_waited_for(api: ApiClient, producer: Producer) -> None:
    waited = api("POST", "/transactions/billing-1/wait", until="open").body
    assert waited["partitions"] == [{"topic": "orders", "partition": 0}]
    (listed,) = api("GET", "/transactions").body["transactions"]
    assert (listed["transactional_id"], listed["state"]) == ("billing-1", "Ongoing")
    found = api("GET", "/transactions/billing-1").body
    assert found["explanation"].startswith("Transaction billing-1 has been open for ")
    error = api.error("POST", "/transactions/billing-1/wait", until="committed", timeout=0.01)
    assert error[0] == 408
    assert "Transaction billing-1 has been open for " in error[1]
    producer.commit_transaction()
    waited = api("POST", "/transactions/billing-1/wait", until="committed").body
    assert waited["state"] == "CompleteCommit"
    changes = api("GET", "/transactions/billing-1/changes").body["changes"]
    states = ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert [each["after"] for each in changes] == states
    assert api.error("GET", "/transactions/nobody")[0] == 404
    events = api("GET", "/events?limit=3").body["events"]
    assert [(each["type"], each["state_to"]) for each in events] == [
        ("transaction_changed", state) for state in states[1:]
    ]
    assert events[1]["detail"]["transactional_id"] == "billing-1"
    assert events[1]["detail"]["partitions"] == "orders-0"
    assert events[1]["reason"] == "ended"
    assert api("GET", "/events?group=billing").body["events"] == []


def test_a_transaction_is_aborted_over_http(api: ApiClient, producer: Producer) -> None:
    assert api("POST", "/transactions/billing-1/abort").body["transactional_id"] == "billing-1"
    api("POST", "/transactions/billing-1/wait", until="aborted")
    assert api.error("POST", "/transactions/billing-1/abort")[0] == 400
    assert api.error("POST", "/transactions/nobody/abort")[0] == 404
    with pytest.raises(KafkaException):
        producer.commit_transaction()


def test_a_transactional_id_expires_over_http(api: ApiClient, producer: Producer) -> None:
    assert api.error("POST", "/transactions/billing-1/expire")[0] == 400
    producer.abort_transaction()
    expired = api("POST", "/transactions/billing-1/expire").body
    assert expired == {"transactional_id": "billing-1"}
    assert api("GET", "/transactions").body == {"transactions": []}
    assert api.error("POST", "/transactions/billing-1/expire")[0] == 404


def test_markers_are_held_back_and_released_over_http(api: ApiClient, producer: Producer) -> None:
    held = api("POST", "/transactions/billing-1/marker-hold").body
    assert held == {"transactional_id": "billing-1"}
    assert api.error("POST", "/transactions/billing-1/marker-hold")[0] == 400
    waiting = api.error("POST", "/transactions/billing-1/marker-hold/wait", timeout=0.01)
    assert waiting[0] == 408
    assert "Transaction billing-1 has been open for " in waiting[1]
    producer.commit_transaction()
    waited = api("POST", "/transactions/billing-1/marker-hold/wait").body
    assert waited["state"] == "PrepareCommit"
    assert api("DELETE", "/transactions/billing-1/marker-hold").body == held
    api("POST", "/transactions/billing-1/wait", until="committed")
    assert api.error("DELETE", "/transactions/billing-1/marker-hold")[0] == 404
    assert api.error("POST", "/transactions/billing-1/marker-hold/wait")[0] == 404


def test_a_marker_hold_must_hold_something(api: ApiClient) -> None:
    api("POST", "/transactions/biling-1/marker-hold")
    status, message = api.error("POST", "/faults/check")
    assert status == 409
    assert "markers (transactional_id biling-1): held back, fired 0" in message
    assert api.error("DELETE", "/transactions/biling-1/marker-hold")[0] == 404
    api("POST", "/transactions/biling-1/marker-hold")
    assert api.error("DELETE", "/transactions/biling-1/marker-hold")[0] == 409
    assert api("POST", "/faults/check").status == 200


def test_a_reset_keeps_the_address(api: ApiClient) -> None:
    api("POST", "/topics/orders", partitions=1)
    api("POST", "/faults", action="drop", api="Heartbeat")
    before = api("GET", "/cluster").body
    assert [node["node_id"] for node in before["nodes"]] == [1, 2]
    assert api("POST", "/reset").body == before
    assert api("GET", "/topics").body == {"topics": []}
    assert api("POST", "/faults/check").body == {"faults": []}


def test_the_cluster_has_the_advertised_addresses() -> None:
    config = {"advertised.listeners": "PLAINTEXT://localhost:0"}
    with Kafka(nodes=2, host="0.0.0.0", config=config) as kafka:
        ports = [port for _, port in kafka.broker.addresses.values()]
        advertised = ",".join(f"localhost:{port}" for port in ports)
        control = Control(kafka)
        with ControlServer(control, "127.0.0.1", 0) as server:
            api = ApiClient(control, server.url)
            cluster = api("GET", "/cluster").body
            assert cluster["bootstrap_servers"] == advertised
            assert [(each["host"], each["port"]) for each in cluster["nodes"]] == [
                ("localhost", port) for port in ports
            ]
            assert f"<code>{advertised}</code>" in api.raw("GET", "/")[2].decode()


def test_fake_members_share_a_group_and_follow_a_script(api: ApiClient) -> None:
    api("POST", "/topics/orders", partitions=2)
    first, second = (
        api("POST", "/groups/billing/fake-members", topics=["orders"], client_id=name).body[
            "fake_member"
        ]
        for name in ("a", "b")
    )
    api("POST", "/groups/billing/wait", until="stable", members=2)
    owner = api("POST", f"/fake-members/{first}/wait", partitions=1).body
    assert (owner["client_id"], len(owner["owned"])) == ("a", 1)
    place = {"topic": "orders", "partition": owner["owned"][0]["partition"]}
    commit = api("POST", f"/fake-members/{first}/commit", offset=1, **place)
    assert commit.body == {"rejected_with": None}
    late = api("POST", f"/fake-members/{first}/commit", offset=2, generation=0, **place)
    assert late.body == {"rejected_with": "ILLEGAL_GENERATION"}
    (rejected,) = api("GET", "/groups/billing/rejected-commits").body["rejected_commits"]
    assert (rejected["client_id"], rejected["error"]) == ("a", "ILLEGAL_GENERATION")
    assert api("POST", f"/fake-members/{second}/script", action="leave").status == 200
    assert len(api("POST", f"/fake-members/{first}/wait", partitions=2).body["owned"]) == 2
    (left,) = api("GET", "/groups/billing/exits").body["exits"]
    assert (left["client_id"], left["cause"]) == ("b", "member left")
    status, why = api.error("POST", f"/fake-members/{second}/commit", offset=1, **place)
    assert (status, why) == (
        400,
        "fake member b of group billing has left or was killed and cannot commit",
    )
    status, why = api.error("POST", "/groups/g/fake-members", topics=["orders"], assignor="rnage")
    assert status == 400
    assert "rnage" in why
    status, why = api.error("POST", "/groups/g/fake-members", topics=["orders"], assignor="./x:Y")
    assert status == 400
    assert why.startswith("./x:Y cannot be imported: TypeError: ")


def test_a_fake_member_has_joined_in_the_response_or_is_rejected(api: ApiClient) -> None:
    api("POST", "/topics/orders", partitions=2)
    path, fields = "/groups/billing/fake-members", {"topics": ["orders"], "assignor": "roundrobin"}
    joined = api("POST", path, **fields).body
    assert (joined["generation"], len(joined["owned"])) == (1, 2)
    status, why = api.error("POST", path, topics=["orders"], assignor="range", client_id="till")
    assert status == 409
    assert why.startswith(
        "fake member till cannot join group billing: INCONSISTENT_GROUP_PROTOCOL."
    )
    only_range = {"topics": ["orders"], "assignor": "range"}
    rejected = api("POST", path, **only_range, may_be_rejected=True).body
    assert rejected["errors"] == [{"api": "JoinGroup", "error": "INCONSISTENT_GROUP_PROTOCOL"}]
    api("POST", "/faults", action="answer", api="JoinGroup", error="NOT_COORDINATOR", times=10**6)
    assert api.error("POST", path, timeout=0.01, **fields)[0] == 408


def test_conditions_last_until_they_are_cancelled_and_must_fire(api: ApiClient) -> None:
    api("POST", "/topics/orders", partitions=1)
    given = {
        "latency": {"ms": 20, "jitter_ms": 5, "api": "Metadata", "client_id": "far"},
        "limit_bandwidth": {"bytes_per_second": 1000, "node": 1},
        "network_partition": {"client_id": "far", "node": 1},
        "skew_clock": {"node": 1, "seconds": -2.5},
    }
    for condition, fields in given.items():
        set_ = api("POST", "/conditions", condition=condition, **fields)
        assert (set_.status, set_.body["fired"]) == (200, 0)
    listed = api("GET", "/faults").body["faults"]
    assert [each["description"] for each in listed] == [
        "latency of 20 ± 5 ms",
        "bandwidth of 1000 bytes per second",
        "network partition",
        "clock skew of -2500 ms",
    ]
    status, unused = api.error("POST", "/faults/check")
    assert (status, unused.count("fired 0")) == (409, 4)
    assert api("GET", "/faults").body["faults"] == []
    skew = api("POST", "/conditions", condition="skew_clock", **given["skew_clock"]).body
    assert api("DELETE", f"/faults/{skew['fault']}").status == 200
    for fields, message in (
        (
            {"condition": "limit_bandwidth"},
            "missing field 'bytes_per_second': required with condition=limit_bandwidth",
        ),
        (
            {"condition": "network_partition", "node": 1, "ms": 1},
            "invalid ms: not used with condition=network_partition",
        ),
        ({"condition": "latency", "api": "Fetsch", "ms": 1}, "did you mean Fetch?"),
        ({"condition": "slow_sync", "ms": 5}, "With durability none, no record is synced"),
    ):
        status, why = api.error("POST", "/conditions", **fields)
        assert (status, message in why) == (400, True), why


def test_a_slow_sync_is_set_waited_for_and_cancelled() -> None:
    with Kafka(durability="fsync") as kafka:
        control = Control(kafka)
        with ControlServer(control, "127.0.0.1", 0) as server:
            api = ApiClient(control, server.url)
            fields = {"condition": "slow_sync", "ms": 5, "topic": "__consumer_offsets"}
            slow = api("POST", "/conditions", **fields).body
            assert slow["description"] == "sync of __consumer_offsets takes 5 ms longer"
            api("POST", "/groups/billing/fake-members", topics=["orders"])
            path = f"/faults/{slow['fault']}"
            assert api("POST", f"{path}/wait", timeout=5).body["fired"] > 0
            assert api("DELETE", path).status == 200


def test_nodes_crashes_and_snapshots(api: ApiClient) -> None:
    up = [node["is_up"] for node in api("POST", "/nodes/1/stop").body["nodes"]]
    assert up == [False, True]
    assert api.error("POST", "/nodes/1/stop") == (400, "Node 1 is already down")
    assert api.error("POST", "/nodes/7/start")[0] == 404
    before = api("POST", "/nodes/1/start").body
    api("POST", "/topics/orders", partitions=1)
    snapshot = api("POST", "/snapshots").body["snapshot"]
    api("POST", "/topics/more", partitions=1)
    assert api("POST", "/crash").body == before
    assert api("POST", "/restart").body == before
    assert "more" in api("GET", "/topics").body["topics"]
    assert api("POST", f"/snapshots/{snapshot}/restore").body == before
    assert api("GET", "/topics").body["topics"] == ["orders"]
    assert api.error("POST", "/snapshots/99/restore")[0] == 404
