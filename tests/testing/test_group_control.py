"""What a test makes a group do, with real clients as members."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from confluent_kafka import TopicPartition
from kohort.broker.runtime.context import CoordinatorState
from kohort.testing import BarrierTimeout, Kafka, group_control
from kohort.testing.group import Group
from kohort.testing.group_control import Loading, evict
from kohort.testing.loop_thread import TIMEOUT_SECONDS, iterations
from support.wire import Client

from .conftest import Committer, NewService, Service

pytestmark = pytest.mark.clients


def test_rebalance_begins_a_rebalance(kafka: Kafka, service: Service) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    group.rebalance("a rolling deploy")
    group.wait_generation(2).wait_stable(members=1)
    assert [g.cause for g in group.generations] == ["member joined", "requested by a test"]
    assert group.generations[1].reason == "a rolling deploy"


def test_an_evicted_member_rejoins_with_another_id(kafka: Kafka, service: Service) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    first = group.members[0].member_id
    group.evict("service")
    kafka.wait(lambda: [m.member_id for m in group.members] not in ([], [first]))
    removed = [e.event.cause for e in kafka.history.events if e.event.type == "leave_received"]
    assert removed == ["member removed by an administrator"]


def test_expire_ends_the_session_of_one_member(kafka: Kafka, new_service: NewService) -> None:
    new_service("slow")
    new_service("quick")
    group = kafka.group("billing").wait_stable(members=2)
    with group.hold_joins() as held:
        group.expire("slow")
        held.wait()
        assert [member.client_id for member in group.members] == ["quick"]
        assert group.state == "PreparingRebalance"
        assert " × JoinGroup of this group." in group.explain()  # of one member or of both
        assert "held by the test" in group.explain(verbose=True)
    assert "The test holds" not in group.explain()
    group.wait_stable(members=2)
    causes = [g.cause for g in group.generations]
    assert "session expired" in causes


def test_held_syncs_leave_members_without_an_assignment(
    kafka: Kafka, new_service: NewService
) -> None:
    group = kafka.group("billing")
    with group.hold_syncs() as held:
        service = new_service("first")
        (request,) = held.wait()
        assert request.api == "SyncGroup"
        assert group.state == "CompletingRebalance"
        assert "waits for the assignment of generation 1 from its leader" in group.explain()
        assert service.assigned == []
    group.wait_stable(members=1)
    kafka.wait_request("OffsetFetch", group="billing")  # for its partitions
    assert service.assigned == [("orders", 0), ("orders", 1)]


def test_a_request_that_was_delayed_or_held_can_be_held_again(kafka: Kafka) -> None:
    group = kafka.group("billing")
    kafka.faults.delay("SyncGroup", ms=1)
    first, second = group.hold_syncs(), group.hold_syncs()
    with Client(kafka.bootstrap_servers) as raw:
        joined = raw.join("billing")
        member = {"member_id": joined["member_id"], "generation_id": joined["generation_id"]}
        raw.send("SyncGroup", 3, group_id="billing", **member)
        assert first.wait() == kafka.history.requests_of("SyncGroup")
        first.release()
        assert second.wait() == kafka.history.requests_of("SyncGroup")
        assert group.state == "CompletingRebalance"
        second.release()
        assert raw.receive()["error_code"] == "none"
    group.wait_stable(members=1)


def test_the_timeout_of_a_hold_of_a_stable_group_names_what_starts_a_rebalance(
    kafka: Kafka,
) -> None:
    kafka.fake_member("billing")
    with (
        kafka.group("billing").hold_joins() as held,
        pytest.raises(BarrierTimeout, match=r"0 arrived \(a hold starts no rebalance: group\.reb"),
    ):
        held.wait(timeout=0.01)


def test_the_timeout_of_a_hold_explains_the_group(kafka: Kafka) -> None:
    with (
        kafka.group("billing").hold_joins() as held,
        pytest.raises(BarrierTimeout, match=r"0 arrived\nGroup billing does not exist"),
    ):
        held.wait(timeout=0.01)


def test_a_hold_does_not_count_requests_of_closed_connections(kafka: Kafka) -> None:
    member = kafka.fake_member("billing", ["orders"])
    group = kafka.group("billing")
    with group.hold_joins() as hold:
        group.rebalance()
        (first,) = hold.wait()
        kafka.crash()
        (second,) = hold.wait()
        assert (second.member_id, second.number > first.number) == (member.member_id, True)
        with pytest.raises(BarrierTimeout, match="1 arrived"):
            hold.wait(2, timeout=0.01)


def test_lead_chooses_the_leader(kafka: Kafka, new_service: NewService) -> None:
    new_service("first")
    group = kafka.group("billing").wait_stable(members=1)
    new_service("second")
    group.wait_stable(members=2)
    for leader in ("second", "first"):
        group.lead(leader)
        kafka.wait(
            lambda leader=leader: (
                group.state == "Stable"
                and [m.client_id for m in group.members if m.is_leader] == [leader]
            )
        )


def test_evicting_an_unknown_member_raises(kafka: Kafka, service: Service) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    with pytest.raises(
        ValueError, match=r"billing has no member 'nobody'; its members: service \("
    ):
        group.evict("nobody")


def test_a_loading_coordinator_rejects_an_eviction(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.fake_member("billing", topics=["orders"])
    group = kafka.group("billing").wait_stable(members=1)
    (member,) = group.members
    with (
        group.loading(),
        pytest.raises(ValueError, match=r"Cannot evict .*: COORDINATOR_LOAD_IN_PROGRESS"),
    ):
        evict(kafka._host, "billing", member, "while it is loading")
    group.wait_stable(members=1)
    assert group.exits == []


def test_an_assignment_cannot_be_held_before_the_coordinator_is_active(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_control, "TIMEOUT_SECONDS", 0.1)
    group = kafka.group("billing")
    with group.loading(), pytest.raises(BarrierTimeout, match=r"become active\n.* is loading its"):
        group.hold_assignment()


def test_clients_wait_for_a_loading_coordinator(kafka: Kafka, committer: Committer) -> None:
    committer.commit(1)
    with kafka.group("billing").loading():
        last = kafka.history.requests[-1].number
        committer.consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=True)
        commit = kafka.wait_request("OffsetCommit", after=last)
        kafka.wait(lambda: commit.errors == ("COORDINATOR_LOAD_IN_PROGRESS",))
    kafka.group("billing").wait_committed("orders", 0, 2)


@pytest.mark.parametrize("group_id", ["g", "h", "i"])
def test_a_coordinator_can_be_kept_loading_before_its_first_request(group_id: str) -> None:
    """The groups have different coordinators."""
    with Kafka(nodes=3) as kafka:
        kafka.topic("orders", partitions=1)
        with kafka.group(group_id).loading():
            member = kafka.fake_member(group_id, ["orders"])
            assert member.errors[0] == ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS")
        assert member.wait_owned(1) == [("orders", 0)]


def test_a_wait_does_not_end_while_the_coordinator_is_loading(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned(1)
    fake.commit("orders", 0, 1)
    group = kafka.group("billing").wait_stable(members=1)
    waits: list[Callable[..., object]] = [
        partial(group.wait_stable, 1),
        partial(group.wait_generation, 1),
        partial(group.wait_owner, "orders", 0),
        partial(group.wait_committed, "orders", 0),
    ]
    with group.loading() as loading, ThreadPoolExecutor() as pool:
        for wait in waits:
            with pytest.raises(BarrierTimeout, match=r"is loading its log .*LOAD_IN_PROGRESS"):
                wait(timeout=0)
        waiting = [pool.submit(wait) for wait in waits]
        loading.finish()
        for each in waiting:
            each.result(TIMEOUT_SECONDS)


def test_a_wait_sees_the_end_of_loading_without_any_request(kafka: Kafka) -> None:
    group = kafka.group("unused")

    async def finish(loading: Loading) -> None:
        waiting = asyncio.ensure_future(group._until(lambda: True, TIMEOUT_SECONDS))
        await iterations(20)
        assert not waiting.done()
        loading.finish()
        assert await waiting == (True, "")

    with group.loading() as loading:
        kafka.run(finish(loading))


def test_a_wait_does_not_end_while_the_node_of_the_coordinator_is_down(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.fake_member("billing", topics=["orders"]).wait_owned(1)
    group = kafka.group("billing")
    with (
        kafka.broker_down(),
        pytest.raises(BarrierTimeout, match="are down: clients get COORDINATOR_NOT_AVAILABLE"),
    ):
        group.wait_gone(timeout=0)


def is_active(kafka: Kafka, group: Group) -> bool:
    kafka.run(iterations(20))  # enough to load a few records
    groups = group.node.coordinators
    shard = groups.contexts.get(groups.partition_of(group.group_id))
    return shard is not None and shard.state is CoordinatorState.ACTIVE


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_loadings_finish_in_any_order(first_to_end: int) -> None:
    with Kafka(nodes=2) as kafka:
        groups = kafka.group("one"), kafka.group("other")
        for group in groups:
            group.move_to(1)
        loadings = [group.loading() for group in groups]
        for index in (first_to_end, 1 - first_to_end):
            assert not is_active(kafka, groups[index])
            loadings[index].finish()
            assert is_active(kafka, groups[index])
        for group in groups:  # later loading is not delayed
            group.move_to(2)
            group.move_to(1)
            assert is_active(kafka, group)


def test_two_loadings_of_one_coordinator_must_both_finish(kafka: Kafka) -> None:
    group = kafka.group("billing")
    with group.loading(), group.loading() as inner:
        inner.finish()
        inner.finish()
        assert not is_active(kafka, group)
    assert is_active(kafka, group)


def test_evict_disconnected_removes_a_member_at_once() -> None:
    with Kafka(evict_disconnected=True) as kafka:
        kafka.topic("orders", partitions=1)
        service = Service(kafka, "billing", "orders", session_timeout_ms=45_000)
        group = kafka.group("billing").wait_stable(members=1)
        first = group.members[0].member_id
        kafka.faults.drop("Heartbeat")
        try:
            kafka.wait(lambda: first not in [member.member_id for member in group.members])
        finally:
            service.close()
        assert [g.cause for g in group.generations][:2] == ["member joined", "session expired"]


def test_evict_disconnected_removes_a_member_before_its_first_sync() -> None:
    with Kafka(evict_disconnected=True) as kafka:
        with Client(kafka.bootstrap_servers) as client:
            client.join("billing")
        kafka.group("billing").wait_empty()


def test_clients_follow_a_coordinator_that_moves() -> None:
    with Kafka(nodes=2) as kafka:
        kafka.topic("orders", partitions=1)
        committer = Committer(kafka)
        committer.commit(1)
        group = kafka.group("billing")
        before = group.node_id
        group.move_to(3 - before)
        assert group.node_id == 3 - before
        committer.commit(2)
        assert group.committed("orders", 0) == 2
        errors = [each.errors for each in kafka.history.requests_of("OffsetCommit")]
        # librdkafka may send FindCoordinator before it commits.
        assert set(errors) <= {(), ("NOT_COORDINATOR",)}
        committer.consumer.close()


def test_a_hold_of_heartbeats_of_classic_members_names_the_holds_for_them(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.fake_member("billing", topics=["orders"])
    held = kafka.group("billing").hold_heartbeats()
    with pytest.raises(BarrierTimeout, match=r"use the classic protocol: use hold_joins\(\) or"):
        held.wait(timeout=0.01)


def test_requests_of_closed_connections_are_not_explained_as_held(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    with group.hold_joins() as held:
        kafka.fake_member("billing", topics=["orders"])
        held.wait()
        kafka.restart()
        held.wait()
        assert "holds 1 × JoinGroup of this group" in group.explain()


@pytest.mark.parametrize("action", ["expire", "evict", "lead", "fence"])
def test_members_of_a_group_without_a_coordinator_are_unknown(kafka: Kafka, action: str) -> None:
    kafka.topic("orders", partitions=1)
    kafka.fake_member("billing", topics=["orders"], client_id="till")
    with (
        kafka.broker_down(),
        pytest.raises(ValueError, match="billing has no coordinator, because"),
    ):
        getattr(kafka.group("billing"), action)("till")
