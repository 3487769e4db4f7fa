"""What a test makes a group do: with members that are real clients and know nothing of it."""

from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from kohort.broker.context import CoordinatorState
from kohort.testing import BarrierTimeout, Kafka
from kohort.testing.choreography import evict
from kohort.testing.clock import turns
from kohort.testing.group import Group

from .conftest import Committer, Service
from .raw import Raw

pytestmark = pytest.mark.clients

NewService = Callable[..., Service]


def test_a_rebalance_is_forced(kafka: Kafka, service: Service) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    group.rebalance("a rolling deploy")
    group.wait_generation(2).wait_stable(members=1)
    assert [g.cause for g in group.generations] == ["member joined", "requested by a test"]
    assert group.generations[1].reason == "a rolling deploy"


def test_a_member_is_evicted_and_comes_back_under_another_name(
    kafka: Kafka, service: Service
) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    first = group.members[0].member_id
    group.evict("service")
    kafka.wait(lambda: [m.member_id for m in group.members] not in ([], [first]))
    removed = [e.event.cause for e in kafka.history.events if e.event.type == "leave_received"]
    assert removed == ["member removed by an administrator"]


def test_a_session_ends_for_one_member_alone(kafka: Kafka, new_service: NewService) -> None:
    new_service("slow")
    new_service("quick")
    group = kafka.group("billing").wait_stable(members=2)
    with group.hold_joins() as held:
        group.expire("slow")
        held.wait()
        assert [member.client_id for member in group.members] == ["quick"]
        assert group.state == "PreparingRebalance"
        assert group.explain().endswith(" × JoinGroup of it.")  # of slow, soon of both
        assert "held by the test" in group.story()
    assert "The test holds" not in group.explain()
    group.wait_stable(members=2)
    causes = [g.cause for g in group.generations]
    assert "session expired" in causes


def test_a_round_is_held_open_while_members_wait_for_their_assignment(
    kafka: Kafka, new_service: NewService
) -> None:
    group = kafka.group("billing")
    with group.hold_syncs() as held:
        service = new_service("first")
        (asked,) = held.wait()
        assert asked.api == "SyncGroup"
        assert group.state == "CompletingRebalance"
        assert "waits for its leader" in group.explain()
        assert service.assigned == []
    group.wait_stable(members=1)
    kafka.wait_request("OffsetFetch", group="billing")  # of what it was given
    assert service.assigned == [("orders", 0), ("orders", 1)]


def test_who_was_delayed_or_held_before_waits_at_the_next_door_too(kafka: Kafka) -> None:
    group = kafka.group("billing")
    kafka.faults.delay("SyncGroup", ms=1)
    first, second = group.hold_syncs(), group.hold_syncs()
    with Raw(kafka) as raw:
        joined = raw.join("billing")
        who = {"member_id": joined["member_id"], "generation_id": joined["generation_id"]}
        raw.send("SyncGroup", 3, group_id="billing", **who)
        assert first.wait() == kafka.history.requests_of("SyncGroup")
        first.release()
        assert second.wait() == kafka.history.requests_of("SyncGroup")
        assert group.state == "CompletingRebalance"
        second.release()
        assert raw.read()["error_code"] == "none"
    group.wait_stable(members=1)


def test_a_hold_that_nobody_reaches_tells_the_story(kafka: Kafka) -> None:
    with (
        kafka.group("billing").hold_joins() as held,
        pytest.raises(BarrierTimeout, match=r"0 came\.\nbilling does not exist"),
    ):
        held.wait(timeout=0.01)


def test_the_leader_is_chosen(kafka: Kafka, new_service: NewService) -> None:
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


def test_who_is_not_there_cannot_be_evicted(kafka: Kafka, service: Service) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    with pytest.raises(ValueError, match=r"billing has no member nobody; there is: service \("):
        group.evict("nobody")


def test_a_coordinator_that_loads_evicts_nobody_and_says_so(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.puppet("billing", topics=["orders"])
    group = kafka.group("billing").wait_stable(members=1)
    (member,) = group.members
    with (
        group.loading(),
        pytest.raises(ValueError, match="not evicted: COORDINATOR_LOAD_IN_PROGRESS"),
    ):
        evict(group, member, "while nobody can be")
    group.wait_stable(members=1)
    assert group.exits == []


def test_a_coordinator_that_loads_slowly_is_waited_for(kafka: Kafka, committer: Committer) -> None:
    committer.commit(1)
    with kafka.group("billing").loading():
        asked = kafka.history.requests[-1].number
        committer.consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=True)
        refused = kafka.wait_request("OffsetCommit", after=asked)
        kafka.wait(lambda: refused.errors == ("COORDINATOR_LOAD_IN_PROGRESS",))
    kafka.group("billing").wait_committed("orders", 0, 2)


def is_served(group: Group) -> bool:
    group.kafka.run(turns(20))  # in which a log of a few records is read
    groups = group.node.coordinators
    shard = groups.contexts.get(groups.partition_of(group.group_id))
    return shard is not None and shard.state is CoordinatorState.ACTIVE


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_coordinators_that_load_go_on_in_any_order(first_to_end: int) -> None:
    with Kafka(nodes=2) as kafka:
        groups = kafka.group("one"), kafka.group("other")
        for group in groups:
            group.move_to(1)
        loadings = [group.loading() for group in groups]
        for index in (first_to_end, 1 - first_to_end):
            assert not is_served(groups[index])
            loadings[index].finish()
            assert is_served(groups[index])
        for group in groups:  # and nothing holds back what is read after that
            group.move_to(2)
            group.move_to(1)
            assert is_served(group)


def test_a_coordinator_that_two_let_load_waits_for_both(kafka: Kafka) -> None:
    group = kafka.group("billing")
    with group.loading(), group.loading() as inner:
        inner.finish()
        inner.finish()
        assert not is_served(group)
    assert is_served(group)


def test_a_disconnected_member_is_out_at_once_if_the_test_wants_it() -> None:
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


def test_a_coordinator_moves_and_its_clients_follow() -> None:
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
        # Sometimes librdkafka has asked who coordinates before it commits.
        assert set(errors) <= {(), ("NOT_COORDINATOR",)}
        committer.consumer.close()
