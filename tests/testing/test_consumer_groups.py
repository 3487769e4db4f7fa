"""Groups of the consumer protocol (KIP-848), with librdkafka's consumers: explanations of what they
wait for, control by a test, faults by member epoch, and mixed groups."""

import re
from functools import partial

import pytest
from kohort.testing import BarrierTimeout, Kafka, UnusedFault

from .conftest import NewService

pytestmark = pytest.mark.clients


@pytest.fixture
def new_consumer(new_service: NewService) -> NewService:
    return partial(new_service, group_protocol="consumer")


def test_a_rebalance_is_the_next_epoch(kafka: Kafka, new_consumer: NewService) -> None:
    new_consumer("service")
    group = kafka.group("billing").wait_stable(members=1)
    before = group.generation
    group.rebalance("a rolling deploy")
    group.wait_epoch(before + 1).wait_stable(members=1)
    last = group.generations[-1]
    assert (last.number, last.cause, last.reason) == (
        before + 1,
        "requested by a test",
        "a rolling deploy",
    )
    with pytest.raises(ValueError, match="is a consumer group, which has no leader"):
        group.lead("service")


def test_the_states_of_a_group_are_in_its_history(kafka: Kafka, new_consumer: NewService) -> None:
    group = kafka.group("billing")
    first = new_consumer("first")
    group.wait_stable(members=1)
    with group.hold_assignment():
        new_consumer("second")
        kafka.wait(lambda: len(group.members) == 2)
    group.wait_stable(members=2)
    first.close()
    steps = [(each.before, each.after) for each in kafka.history.state_changes("billing")]
    assert steps[:5] == [
        (None, "Empty"),
        ("Empty", "Stable"),
        ("Stable", "Assigning"),
        ("Assigning", "Reconciling"),
        ("Reconciling", "Stable"),
    ]


def test_an_owner_is_awaited_by_its_epoch(kafka: Kafka, new_consumer: NewService) -> None:
    new_consumer("service")
    group = kafka.group("billing").wait_stable(members=1)
    epoch = group.generation
    with group.hold_assignment():
        group.rebalance()
        assert group.members[0].epoch == epoch
        with pytest.raises(BarrierTimeout, match=rf"orders-0 to a member in epoch {epoch + 1}"):
            group.wait_owner("orders", 0, epoch=epoch + 1, timeout=0.1)
    assert group.wait_owner("orders", 0, "service", epoch=epoch + 1).epoch == epoch + 1
    with pytest.raises(TypeError, match="epoch must be a number, not 'service': wait_epoch"):
        group.wait_epoch("service")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"generation must be a number, not '3': wait_generation"):
        group.wait_generation("3")  # type: ignore[arg-type]


def test_a_hold_of_the_other_protocol_is_explained(kafka: Kafka, new_consumer: NewService) -> None:
    new_consumer("service")
    group = kafka.group("billing").wait_stable(members=1)
    with group.hold_joins() as held, pytest.raises(BarrierTimeout, match="hold_heartbeats"):
        held.wait(timeout=0.1)


def test_commits_have_the_client_of_their_member(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    member = kafka.fake_member("billing", ["orders"], protocol="consumer", client_id="app")
    member.wait_owned(1)
    assert member.commit("orders", 0, 3) is None
    (commit,) = kafka.history.commits("billing")
    assert (commit.client_id, commit.member_id) == ("app", member.member_id)


def test_a_held_assignment_leaves_the_group_assigning(
    kafka: Kafka, new_consumer: NewService
) -> None:
    group = kafka.group("billing")
    first = new_consumer("first")
    group.wait_stable(members=1)
    kafka.wait(lambda: len(first.assigned) == 2)
    with group.hold_assignment():
        second = new_consumer("second")
        kafka.wait(lambda: len(group.members) == 2)
        kafka.wait_request("ConsumerGroupHeartbeat", client_id="second", count=2)
        assert group.state == "Assigning"
        assert "the test holds its assignment of epoch" in group.explain()
        assert (len(first.assigned), second.assigned) == (2, [])
    group.wait_stable(members=2)
    kafka.wait(lambda: len(second.assigned) == 1)


def test_the_first_assignment_of_a_new_group_can_be_held(
    kafka: Kafka, new_consumer: NewService
) -> None:
    group = kafka.group("billing")
    held = group.hold_assignment()
    service = new_consumer("service")
    kafka.wait_request("ConsumerGroupHeartbeat", client_id="service", count=2)
    assert (group.state, service.assigned) == ("Assigning", [])
    held.release()
    group.wait_stable(members=1)
    kafka.wait(lambda: len(service.assigned) == 2)


def test_the_assignment_of_a_classic_group_cannot_be_held(
    kafka: Kafka, new_service: NewService
) -> None:
    new_service("service")
    group = kafka.group("billing").wait_stable(members=1)
    with pytest.raises(ValueError, match=r"billing is a classic group, .* use hold_syncs\(\)"):
        group.hold_assignment()


@pytest.mark.kafka(config={"group.consumer.assignment.interval.ms": 15_000})
def test_the_assignment_interval_is_explained(kafka: Kafka, new_consumer: NewService) -> None:
    group = kafka.group("billing")
    new_consumer("first")
    group.wait_stable(members=1)
    kafka.clock.freeze()
    new_consumer("second")
    kafka.wait(lambda: len(group.members) == 2)
    pattern = r"Assigning in epoch \d+ with 2 members: it waits for the assignment interval, which "
    assert re.search(pattern + r"ends in 1\d\.\d s", group.explain())
    with kafka.faults.drop("ConsumerGroupHeartbeat", times=None):
        kafka.clock.advance(seconds=16)
        assert "the next heartbeat of a member computes the assignment" in group.explain()
        kafka.wait_request("ConsumerGroupHeartbeat", after=kafka.history.requests[-1].number)
    kafka.clock.advance_with_heartbeats(seconds=20)
    group.wait_stable(members=2)


def test_a_fenced_member_gives_up_its_partitions_and_joins_again(
    kafka: Kafka, new_consumer: NewService
) -> None:
    new_consumer("service")
    group = kafka.group("billing").wait_stable(members=1)
    member_id = group.members[0].member_id
    number = kafka.history.requests[-1].number
    group.fence("service")
    kafka.wait(
        lambda: any(
            each.is_join and not each.errors and each.response_frame
            for each in kafka.history.requests_after(number)
        )
    )
    group.wait_stable(members=1)
    assert group.members[0].member_id == member_id
    errors = [e for each in kafka.history.requests_after(number) for e in each.errors]
    assert "FENCED_MEMBER_EPOCH" in errors
    assert any(each.event.type == "member_fenced" for each in kafka.history.events)


def test_an_expired_member_joins_again(kafka: Kafka, new_consumer: NewService) -> None:
    new_consumer("first")
    new_consumer("second")
    group = kafka.group("billing").wait_stable(members=2)
    group.expire("first")
    group.wait_stable(members=2)
    assert [each.cause for each in group.exits] == ["session expired"]
    group.evict("second")
    kafka.wait(lambda: len(group.exits) == 2)
    assert group.exits[-1].cause == "member removed by an administrator"
    group.wait_stable(members=2)
    assert kafka.client_checks.findings == []


def test_held_heartbeats_keep_a_member_from_revoking(
    kafka: Kafka, new_consumer: NewService
) -> None:
    group = kafka.group("billing")
    new_consumer("first")
    group.wait_stable(members=1)
    with group.hold_heartbeats() as held:
        held.wait()
        assert "The test holds 1 × ConsumerGroupHeartbeat of this group." in group.explain()
    new_consumer("second")
    group.wait_stable(members=2)


def test_a_fault_is_matched_by_member_epoch(kafka: Kafka, new_consumer: NewService) -> None:
    group = kafka.group("billing")
    joins = kafka.faults.answer(
        "ConsumerGroupHeartbeat", "COORDINATOR_LOAD_IN_PROGRESS", generation=0, times=2
    )
    new_consumer("service")
    joins.wait()
    epoch = group.wait_stable(members=1).generation
    fenced = kafka.faults.answer("ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH", generation=epoch)
    fenced.wait()
    group.wait_stable(members=1)
    assert [each.generation for each in joins.fired] == [0, 0]
    assert [each.generation for each in fenced.fired] == [epoch]
    with pytest.raises(ValueError, match="have no generation"):
        kafka.faults.answer("Metadata", "UNKNOWN_SERVER_ERROR", generation=1)


def test_a_fault_is_matched_by_the_client_id_of_a_member(
    kafka: Kafka, new_consumer: NewService
) -> None:
    new_consumer("first")
    group = kafka.group("billing").wait_stable(members=1)
    member_id = group.members[0].member_id
    of_other = kafka.faults.delay("ConsumerGroupHeartbeat", ms=1, member="second")
    fault = kafka.faults.delay("ConsumerGroupHeartbeat", ms=1, member="first").wait()
    assert fault.fired[0].member_id == member_id
    kafka.wait_request("ConsumerGroupHeartbeat", after=fault.fired[0].number)
    with pytest.raises(UnusedFault, match=re.escape(f"member first (member id {member_id})")):
        of_other.end()


def test_a_mixed_group_says_what_its_classic_member_has_to_do(
    kafka: Kafka, new_service: NewService
) -> None:
    group = kafka.group("billing")
    new_service("old")
    group.wait_stable(members=1)
    with group.hold_joins() as held:
        new_service("new", group_protocol="consumer")
        held.wait()
        old = next(each for each in group.members if each.client_id == "old")
        assert old.protocol == "classic"
        explanation = group.explain()
        assert f"Classic member {old.member_id} has to rejoin within " in explanation
        assert f"waits for orders-1 of {old.member_id}" in explanation
    group.wait_stable(members=2)
    assert sorted(each.protocol for each in group.members) == ["classic", "consumer"]
    assert sorted(len(each.partitions) for each in group.members) == [1, 1]
    assert "billing: converted to a consumer group" in kafka.report()
    with pytest.raises(ValueError, match="uses the classic protocol"):
        group.fence("old")
