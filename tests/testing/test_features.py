"""The features of the harness by name, each shown in a few lines. Other tests go into each."""

import json
import urllib.request

import pytest
from kohort.control_api.control import Control
from kohort.control_api.server import ControlServer
from kohort.testing import BarrierTimeout, Kafka, KafkaContainer, UnusedFault

from .raw import Raw
from .test_mistakes import commit


@pytest.fixture
def orders(kafka: Kafka) -> Kafka:
    kafka.topic("orders", partitions=2)
    return kafka


def test_feature_01_virtual_clock(orders: Kafka) -> None:
    with Raw(orders) as raw:
        raw.join("billing")
    orders.clock.freeze()
    before = orders.clock.now_ms
    orders.clock.advance(seconds=45)
    assert orders.clock.now_ms == before + 45_000
    assert orders.group("billing").state == "Empty"


def test_feature_02_barriers(orders: Kafka) -> None:
    puppet = orders.puppet("billing", topics=["orders"])
    group = orders.group("billing").wait_stable(members=1).wait_generation(1)
    assert group.wait_owner("orders", 1).member_id == puppet.member_id
    puppet.commit("orders", 0, 3)
    assert group.wait_committed("orders", 0, 3) == 3
    assert orders.wait_request("OffsetCommit").offsets == {("orders", 0): 3}
    with pytest.raises(BarrierTimeout, match="billing is Stable in generation 1 with 1 member"):
        group.wait_stable(members=2, timeout=0.01)


def test_feature_03_fast_eviction() -> None:
    with Kafka(evict_disconnected=True) as kafka:
        with Raw(kafka) as raw:
            joined = raw.join("billing")
            raw.ask("SyncGroup", 3, group_id="billing", **_who(joined))
        kafka.group("billing").wait_empty()
        assert kafka.group("billing").generations[-1].cause == "session expired"


def _who(joined: dict[str, object]) -> dict[str, object]:
    return {"member_id": joined["member_id"], "generation_id": joined["generation_id"]}


def test_feature_04_explain(orders: Kafka) -> None:
    slow = orders.puppet("billing", topics=["orders"], client_id="slow")
    group = orders.group("billing").wait_stable(members=1)
    slow.slow()
    orders.clock.freeze()
    orders.puppet("billing", topics=["orders"], client_id="other")
    orders.wait(lambda: "1 of 2 members have rejoined" in group.explain())
    assert f"it waits for {slow.member_id}" in group.explain()


def test_feature_05_timing_presets() -> None:
    with Kafka(preset="kafka") as kafka:
        kafka.topic("orders", partitions=1)
        kafka.clock.freeze()
        puppet = kafka.puppet("billing", topics=["orders"])
        kafka.wait(lambda: "latecomers are waited for, 3.0 s" in kafka.group("billing").explain())
        kafka.clock.advance(seconds=3)
        puppet.wait_owned([("orders", 0)])


def test_feature_06_faults_that_must_fire(orders: Kafka) -> None:
    orders.faults.answer("OffsetCommit", error="NOT_COORDINATOR", nth=2, group="g")
    with Raw(orders) as raw:
        assert [commit(raw) for _ in range(3)] == ["none", "not_coordinator", "none"]
    orders.faults.drop("LeaveGroup")
    with pytest.raises(UnusedFault):
        orders.faults.check()


def test_feature_07_outcome_unknown(orders: Kafka) -> None:
    orders.faults.lose_answer("OffsetCommit")
    with Raw(orders) as raw, pytest.raises(ConnectionError):
        commit(raw)
    assert orders.group("g").committed("orders", 0) == 7


def test_feature_08_life_cycle_of_the_coordinator() -> None:
    with Kafka(nodes=2) as kafka:
        kafka.topic("orders", partitions=1)
        group = kafka.group("g")
        puppet = kafka.puppet("g", topics=["orders"])
        puppet.commit("orders", 0, 1)
        group.move_to(3 - group.node_id)
        puppet.commit("orders", 0, 2)
        kafka.crash()
        assert kafka.group("g").wait_committed("orders", 0) == 2


def test_feature_09_choreography(orders: Kafka) -> None:
    first = orders.puppet("billing", topics=["orders"], client_id="first")
    group = orders.group("billing").wait_stable(members=1)
    with group.hold_syncs() as held:
        group.rebalance("because the test says so")
        held.wait()
        assert group.state == "CompletingRebalance"
    group.wait_stable(members=1)
    assert first.generation == 2


def test_feature_10_puppets(orders: Kafka) -> None:
    left = orders.puppet("billing", topics=["orders"], client_id="left")
    left.wait_owned([("orders", 0), ("orders", 1)])
    right = orders.puppet("billing", topics=["orders"], client_id="right")
    orders.group("billing").wait_stable(members=2)
    assert sorted(left.owned + right.owned) == [("orders", 0), ("orders", 1)]
    assert len(left.owned) == 1


def test_feature_11_disk_faults() -> None:
    with Kafka(durability="fsync") as kafka, Raw(kafka) as raw:
        kafka.topic("orders", partitions=1)
        kafka.disk.fail("sync", topic="__consumer_offsets")
        assert commit(raw) != "none"
        kafka.disk.heal()
        kafka.wait(lambda: commit(raw) == "none")


def test_feature_12_history_as_data(orders: Kafka) -> None:
    puppet = orders.puppet("billing", topics=["orders"])
    group = orders.group("billing").wait_stable(members=1)
    puppet.commit("orders", 0, 1)
    puppet.commit("orders", 0, 5)
    assert [(c.before, c.offset, c.generation) for c in group.commits] == [(None, 1, 1), (1, 5, 1)]
    (generation,) = group.generations
    assert (generation.cause, generation.number) == ("member joined", 1)
    assert [each.api for each in orders.history.requests if each.group == "billing"][-1] == (
        "OffsetCommit"
    )


def test_feature_13_doctor(orders: Kafka) -> None:
    with Raw(orders, client_id="zombie") as raw:
        joined = raw.join("billing")
        raw.ask("LeaveGroup", 2, group_id="billing", member_id=joined["member_id"])
        assert commit(raw, "billing", **_committer(joined)) == "unknown_member_id"
    (finding,) = orders.doctor.findings
    assert (finding.kind, finding.client_id) == ("zombie commit", "zombie")
    orders.doctor.ignore("zombie commit")
    assert orders.doctor.findings == []


def _committer(joined: dict[str, object]) -> dict[str, object]:
    return {
        "member_id": joined["member_id"],
        "generation_id_or_member_epoch": joined["generation_id"],
    }


def test_feature_14_snapshot_fork_reset(orders: Kafka) -> None:
    with Raw(orders) as raw:
        commit(raw)
    point = orders.snapshot()
    with orders.fork(point) as other, Raw(other) as raw:
        assert other.group("g").wait_committed("orders", 0) == 7
    orders.reset()
    assert orders.group("g").committed("orders", 0) is None
    orders.restore(point)
    assert orders.group("g").wait_committed("orders", 0) == 7


def test_feature_15_version_profiles() -> None:
    with Kafka(profile="kafka-2.8") as kafka, Raw(kafka) as raw:
        served = {
            each["api_key"]: each["max_version"] for each in raw.ask("ApiVersions", 0)["api_keys"]
        }
        assert served[9] == 7  # OffsetFetch of one group only


def test_feature_16_any_language(orders: Kafka) -> None:
    """Over HTTP, as tests/console goes into."""
    with ControlServer(Control(orders), "127.0.0.1", 0) as server:

        def ask(path: str, **given: object) -> object:
            body = json.dumps(given).encode() if given else None
            request = urllib.request.Request(f"{server.url}{path}", body)
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)

        ask("/topics/orders/records", values=["a"])
        assert len(orders.topic("orders").records()) == 1


def test_feature_17_words_not_wire_structs(orders: Kafka) -> None:
    with pytest.raises(ValueError, match=r"did you mean OffsetCommit\?"):
        orders.faults.drop("OffsetComit")
    with Raw(orders) as raw:
        for version in (2, 7, 9):
            raw.ask("OffsetCommit", version, group_id="g", topics=[_orders_at(version)])
    asked = orders.history.requests_of("OffsetCommit", group="g")
    assert [each.offsets for each in asked] == [{("orders", 0): offset} for offset in (2, 7, 9)]


def _orders_at(offset: int) -> dict[str, object]:
    place = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    return {"name": "orders", "partitions": [place]}


def test_feature_18_drop_in() -> None:
    with KafkaContainer().with_kraft() as kafka:
        assert kafka.get_bootstrap_server().startswith("127.0.0.1:")
