"""The controls do what the harness does, on a broker with a real consumer."""

import base64
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from kohort.control_api.control import Control
from kohort.control_api.server import ControlServer
from kohort.testing import Kafka

from .conftest import Asker


class Service:
    """A consumer that reads and commits, on a thread of its own."""

    def __init__(self, kafka: Kafka) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": "billing",
                "client.id": "service",
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 50,
                "auto.commit.interval.ms": 20,
                "reconnect.backoff.ms": 1,
                "retry.backoff.ms": 10,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(["orders"])
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._consumer.poll(0.05)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._consumer.close()


@pytest.fixture
def service(ask: Asker, kafka: Kafka) -> Iterator[Service]:
    assert ask("POST", "/topics/orders", partitions=1).status == 200
    service = Service(kafka)
    yield service
    service.close()


def test_topics_are_made_filled_read_and_deleted(ask: Asker) -> None:
    made = ask("POST", "/topics/orders", partitions=2, config={"retention.ms": "1000"})
    assert made.body == {
        "topic": "orders",
        "partitions": [{"partition": index, "end_offset": 0} for index in range(2)],
    }
    done = ask("POST", "/topics/orders/records", values=["a", None], keys=["k", None], partition=1)
    assert done.body["records"] == [
        {"partition": 1, "offset": 0},
        {"partition": 1, "offset": 1},
    ]
    read = ask("GET", "/topics/orders/records?partition=1").body["records"]
    assert [(each["key"], each["value"]) for each in read] == [("k", "a"), (None, None)]
    assert len(ask("GET", "/topics/orders/records?limit=1").body["records"]) == 1
    assert ask("POST", "/topics/orders/partitions", total=3).body["partitions"][2:] == [
        {"partition": 2, "end_offset": 0}
    ]
    assert ask("DELETE", "/topics/orders").status == 200
    assert ask("GET", "/topics").body == {"topics": []}
    assert ask.refused("GET", "/topics/orders") == (404, "there is no topic orders")


def test_bytes_that_are_no_text_travel_in_base64(ask: Asker) -> None:
    ask("POST", "/topics/orders", partitions=1)
    value = base64.b64encode(b"\xff\x00").decode()
    ask("POST", "/topics/orders/records", values=[value], encoding="base64")
    (record,) = ask("GET", "/topics/orders/records?encoding=base64").body["records"]
    assert record["value"] == value
    (record,) = ask("GET", "/topics/orders/records").body["records"]
    assert record["value"] == "\\xff\x00"


def test_records_have_headers(ask: Asker, kafka: Kafka) -> None:
    ask("POST", "/topics/orders", partitions=1)
    ask("POST", "/topics/orders/records", values=["a", "b"], headers={"trace": "7", "none": None})
    read = ask("GET", "/topics/orders/records").body["records"]
    told = [{"key": "trace", "value": "7"}, {"key": "none", "value": None}]
    assert [each["headers"] for each in read] == [told, told]
    more = {"encoding": "base64", "headers": {"bytes": "/w=="}}
    ask("POST", "/topics/orders/records", values=["YQ=="], **more)
    assert kafka.topic("orders").records()[-1].headers == (("bytes", b"\xff"),)


def test_a_group_tells_how_far_it_is_behind(ask: Asker, kafka: Kafka) -> None:
    ask("POST", "/topics/orders", partitions=2)
    ask("POST", "/topics/orders/records", values=["a", "b", "c"])
    puppet = kafka.puppet("billing", topics=["orders"])
    puppet.commit("orders", 0, 1)
    assert ask("GET", "/groups/billing/lag?topic=orders").body == {
        "topic": "orders",
        "lag": 2,
        "partitions": [{"partition": 0, "lag": 1}, {"partition": 1, "lag": 1}],
    }


def test_a_group_tells_what_it_is_and_is_waited_for(ask: Asker, service: Service) -> None:
    stable = ask("POST", "/groups/billing/wait", until="stable", members=1)
    assert (stable.body["state"], stable.body["generation"]) == ("Stable", 1)
    (member,) = stable.body["members"]
    assert member["partitions"] == [{"topic": "orders", "partition": 0}]
    owned = ask("POST", "/groups/billing/wait", until="owner", topic="orders", partition=0)
    assert owned.body["owner"] == member
    ask("POST", "/topics/orders/records", values=["a", "b"])
    place = {"topic": "orders", "partition": 0}
    done = ask("POST", "/groups/billing/wait", until="committed", offset=2, **place)
    assert done.body["committed"] == 2
    assert ask("GET", "/groups/billing/offsets").body == {"offsets": [{**place, "offset": 2}]}
    last = ask("GET", "/groups/billing/commits").body["commits"][-1]
    assert (last["client_id"], last["offset"]) == ("service", 2)
    (generation,) = ask("GET", "/groups/billing/generations").body["generations"]
    assert generation["cause"] == "member joined"
    assert ask("GET", "/groups").body["groups"] == [
        {"group": "billing", "state": "Stable", "members": 1}
    ]
    assert "service at /127.0.0.1" in ask("GET", "/groups/billing/story").body["story"]


def test_a_barrier_that_waits_in_vain_is_408_with_the_story(ask: Asker) -> None:
    status, story = ask.refused(
        "POST", "/groups/billing/wait", until="stable", members=2, timeout=0.01
    )
    assert status == 408
    assert "2 members, in vain.\nbilling does not exist" in story


def test_a_session_ends_when_the_clock_is_advanced(ask: Asker, service: Service) -> None:
    ask("POST", "/groups/billing/wait", until="stable", members=1)
    ask("POST", "/clock/freeze")
    before = ask("GET", "/clock").body["now_ms"]
    assert ask("POST", "/clock/advance", seconds=45, ms=1).body["now_ms"] == before + 45_001
    ask("POST", "/groups/billing/wait", until="stable", members=1)  # it has come back
    causes = [
        each["cause"] for each in ask("GET", "/groups/billing/generations").body["generations"]
    ]
    assert causes == ["member joined", "session expired", "member joined"]
    assert ask("POST", "/clock/resume").body["now_ms"] >= before + 45_001
    types = [each["type"] for each in ask("GET", "/events?group=billing").body["events"]]
    assert "member_expired" in types


def test_a_fault_fires_and_is_told_of(ask: Asker, service: Service) -> None:
    how = {"deed": "answer", "api": "OffsetCommit", "error": "NOT_COORDINATOR", "times": 2}
    fault = ask("POST", "/faults", group="billing", **how).body
    assert (fault["what"], fault["where"]) == (
        "answered with NOT_COORDINATOR",
        {"group": "billing"},
    )
    ask("POST", "/topics/orders/records", values=["a"])
    fired = ask("POST", f"/faults/{fault['fault']}/wait", times=2).body
    assert fired["fired"] == 2
    assert ask("GET", f"/faults/{fault['fault']}").body == fired
    number = fired["requests"][0]
    # The service goes on to commit: however many came since, this one is among them.
    since = ask("GET", f"/requests?api=OffsetCommit&after={number - 1}&limit=10000")
    met = since.body["requests"][0]
    assert (met["number"], met["errors"]) == (number, ["NOT_COORDINATOR"])
    checked = ask("POST", "/faults/check")
    assert (checked.status, checked.body["faults"]) == (200, [fired])
    assert ask("GET", "/faults").body == {"faults": []}


def test_a_fault_that_has_not_fired_is_409_with_what_came(ask: Asker) -> None:
    ask("POST", "/faults", deed="drop", api="Heartbeat", times=None)
    status, why = ask.refused("POST", "/faults/check")
    assert status == 409
    assert "no Heartbeat has come since it was set" in why
    assert ask("POST", "/faults/check").status == 200
    fault = ask("POST", "/faults", deed="delay", api="Heartbeat", seconds=1).body["fault"]
    assert ask("DELETE", f"/faults/{fault}").status == 200
    assert ask("POST", "/faults/check").status == 200
    status, why = ask.refused("GET", f"/faults/{fault}")
    assert (status, why) == (404, f"there is no fault {fault}; there is: none")


def test_a_group_is_held_led_evicted_moved_and_loaded(ask: Asker, service: Service) -> None:
    ask("POST", "/groups/billing/wait", until="stable", members=1)
    hold = ask("POST", "/groups/billing/holds", api="SyncGroup").body["hold"]
    assert ask("POST", "/groups/billing/rebalance").status == 200
    (held,) = ask("POST", f"/holds/{hold}/wait", count=1).body["requests"]
    assert held["api"] == "SyncGroup"
    assert ask("GET", "/groups/billing").body["state"] == "CompletingRebalance"
    assert [each["hold"] for each in ask("GET", "/holds").body["holds"]] == [hold]
    assert ask("DELETE", f"/holds/{hold}").status == 200
    ask("POST", "/groups/billing/wait", until="stable", members=1)
    assert ask("POST", "/groups/billing/lead", who="service").status == 200
    ask("POST", "/groups/billing/wait", until="generation", generation=3)
    ask("POST", "/groups/billing/wait", until="stable", members=1)
    assert ask("POST", "/groups/billing/evict", who="service", reason="too slow").status == 200
    ask("POST", "/groups/billing/wait", until="stable", members=1)
    assert ask("POST", "/groups/billing/expire", who="service").status == 200
    assert ask("POST", "/groups/billing/loading").status == 200
    assert ask.refused("POST", "/groups/billing/loading")[0] == 400
    assert ask("DELETE", "/groups/billing/loading").status == 200
    assert ask.refused("DELETE", "/groups/billing/loading")[0] == 404
    node_id = ask("GET", "/groups/billing").body["node_id"]
    moved = ask("POST", "/groups/billing/move", node_id=3 - node_id)
    assert moved.body["node_id"] == 3 - node_id
    ask("POST", "/groups/billing/wait", until="stable", members=1)


def test_a_reset_forgets_all_and_stays_where_it_is(ask: Asker) -> None:
    ask("POST", "/topics/orders", partitions=1)
    ask("POST", "/faults", deed="drop", api="Heartbeat")
    before = ask("GET", "/cluster").body
    assert [node["node_id"] for node in before["nodes"]] == [1, 2]
    assert ask("POST", "/reset").body == before
    assert ask("GET", "/topics").body == {"topics": []}
    assert ask("POST", "/faults/check").body == {"faults": []}


def test_clients_are_sent_to_the_address_that_the_broker_itself_tells_them() -> None:
    advertised = {"advertised.listeners": "PLAINTEXT://localhost:0"}
    with Kafka(nodes=2, host="0.0.0.0", config=advertised) as kafka:
        ports = [port for _, port in kafka.broker.addresses.values()]
        told = ",".join(f"localhost:{port}" for port in ports)
        control = Control(kafka)
        with ControlServer(control, "127.0.0.1", 0) as server:
            ask = Asker(control, server.url)
            cluster = ask("GET", "/cluster").body
            assert cluster["bootstrap_servers"] == told
            assert [(each["host"], each["port"]) for each in cluster["nodes"]] == [
                ("localhost", port) for port in ports
            ]
            assert f"<code>{told}</code>" in ask.raw("GET", "/")[2].decode()


def test_puppets_share_a_group_and_deviate_as_told(ask: Asker) -> None:
    ask("POST", "/topics/orders", partitions=2)
    first, second = (
        ask("POST", "/groups/billing/puppets", topics=["orders"], client_id=name).body["puppet"]
        for name in ("a", "b")
    )
    ask("POST", "/groups/billing/wait", until="stable", members=2)
    owner = ask("POST", f"/puppets/{first}/wait", partitions=1).body
    assert (owner["client_id"], len(owner["owned"])) == ("a", 1)
    place = {"topic": "orders", "partition": owner["owned"][0]["partition"]}
    commit = ask("POST", f"/puppets/{first}/commit", offset=1, **place)
    assert commit.body == {"refused_with": None}
    late = ask("POST", f"/puppets/{first}/commit", offset=2, generation=0, **place)
    assert late.body == {"refused_with": "ILLEGAL_GENERATION"}
    (refused,) = ask("GET", "/groups/billing/refused-commits").body["refused_commits"]
    assert (refused["client_id"], refused["error"]) == ("a", "ILLEGAL_GENERATION")
    assert ask("POST", f"/puppets/{second}/script", deed="leave").status == 200
    assert len(ask("POST", f"/puppets/{first}/wait", partitions=2).body["owned"]) == 2
    (out,) = ask("GET", "/groups/billing/exits").body["exits"]
    assert (out["client_id"], out["cause"]) == ("b", "member left")
    status, why = ask.refused("POST", f"/puppets/{second}/commit", offset=1, **place)
    assert (status, why) == (400, "puppet b of billing is gone, and commits nothing")
    status, why = ask.refused("POST", "/groups/g/puppets", topics=["orders"], assignor="rnage")
    assert status == 400
    assert "rnage" in why


def test_a_puppet_has_joined_when_the_answer_is_there_or_it_is_told_why_not(ask: Asker) -> None:
    ask("POST", "/topics/orders", partitions=2)
    path, how = "/groups/billing/puppets", {"topics": ["orders"], "assignor": "roundrobin"}
    joined = ask("POST", path, **how).body
    assert (joined["generation"], len(joined["owned"])) == (1, 2)
    status, why = ask.refused("POST", path, topics=["orders"], client_id="till")
    assert status == 409
    assert why.startswith("puppet till may not join billing: INCONSISTENT_GROUP_PROTOCOL. It offer")
    refused = ask("POST", path, topics=["orders"], may_be_refused=True).body
    assert refused["errors"] == [{"api": "JoinGroup", "error": "INCONSISTENT_GROUP_PROTOCOL"}]
    ask("POST", "/faults", deed="answer", api="JoinGroup", error="NOT_COORDINATOR", times=10**6)
    assert ask.refused("POST", path, timeout=0.01, **how)[0] == 408


def test_nodes_stop_the_broker_crashes_and_goes_back_to_a_snapshot(ask: Asker) -> None:
    up = [node["is_up"] for node in ask("POST", "/nodes/1/stop").body["nodes"]]
    assert up == [False, True]
    assert ask.refused("POST", "/nodes/1/stop") == (400, "node 1 is down already")
    assert ask.refused("POST", "/nodes/7/start")[0] == 404
    before = ask("POST", "/nodes/1/start").body
    ask("POST", "/topics/orders", partitions=1)
    snapshot = ask("POST", "/snapshots").body["snapshot"]
    ask("POST", "/topics/more", partitions=1)
    assert ask("POST", "/crash").body == before
    assert ask("POST", "/restart").body == before
    assert "more" in ask("GET", "/topics").body["topics"]
    assert ask("POST", f"/snapshots/{snapshot}/restore").body == before
    assert ask("GET", "/topics").body["topics"] == ["orders"]
    assert ask.refused("POST", "/snapshots/99/restore")[0] == 404
