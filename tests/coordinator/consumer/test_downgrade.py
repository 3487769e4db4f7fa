"""A consumer group becomes a classic group when its last member of the consumer protocol leaves."""

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import LeaveGroup, LeaveResult, LeavingMember
from kohort.coordinator.outcome import EventType
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness, consumer_heartbeat, join_group
from support.mixed_groups import consumer_protocols, mixed_group, rejoin

E = ErrorCode


def with_mixed_group(**config: object) -> CoordinatorHarness:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=0, **config)
    mixed_group(harness, "ic")
    return harness


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("heartbeat", Cause.LEFT_CLEANLY),
        ("leave", Cause.LEFT_CLEANLY),
        ("session", Cause.SESSION_TIMEOUT),
    ],
)
def test_the_group_is_classic_after_its_last_consumer_has_left(how: str, cause: Cause) -> None:
    harness = with_mixed_group()
    if how == "heartbeat":
        harness.consumer("c", -1)
    elif how == "leave":
        harness.leave("c")
    else:
        for _ in range(5):
            harness.advance(9_000)
            harness.heartbeat("a", 3)
    assert not harness.coordinator.consumer_groups
    assert (harness.state, harness.group.generation) == (State.PREPARING_REBALANCE, 3)
    assert harness.heartbeat("a", 3) is E.rebalance_in_progress
    assert harness.causes()[-1] == cause.value
    ticket = harness.join("a", protocols=consumer_protocols())
    harness.advance(0)
    joined = harness.results[ticket]
    assert (joined.generation_id, joined.leader) == (4, "a")


def test_members_keep_their_partitions() -> None:
    harness = with_mixed_group()
    target = dict(harness.consumers.targets["a"])
    harness.consumer("c", -1)
    (member,) = harness.group.members.values()
    assert (member.member_id, member.session_timeout_ms) == ("a", 10_000)
    assert (member.rebalance_timeout_ms, member.client_host) == (60_000, "/127.0.0.1")
    decoded = harness.coordinator._partition.codec.assignment(member.assignment)
    (partitions,) = target.values()
    assert tuple(decoded.partitions["orders"]) == tuple(sorted(partitions))
    (event,) = harness.events_of(EventType.GROUP_CONVERTED)
    assert event.detail == {"type": "classic"}


def test_sessions_continue_in_the_classic_group() -> None:
    harness = with_mixed_group()
    harness.consumer("c", -1)
    harness.advance(10_000)
    assert harness.state is State.EMPTY


def test_several_consumers_leave_together() -> None:
    harness = with_mixed_group()
    harness.consumer_join("d")
    harness.leave("c", "d")
    assert list(harness.group.members) == ["a"]


def test_a_group_that_is_too_large_stays_until_it_fits() -> None:
    harness = with_mixed_group(group_max_size=1)
    rejoin(harness, "b")
    harness.consumer("c", -1)
    assert set(harness.consumers.members) == {"a", "b"}
    harness.leave("b")
    assert list(harness.group.members) == ["a"]


@pytest.mark.parametrize("metadata", [b"", b"\xff\xff"], ids=["no version", "negative version"])
@pytest.mark.parametrize("how", ["heartbeat", "leave", "parts", "session"])
def test_a_group_with_a_malformed_subscription_stays_as_it_is(how: str, metadata: bytes) -> None:
    harness = with_mixed_group()
    rejoin(harness, "a", protocols=(*consumer_protocols(), ("x", metadata)))
    rejoin(harness, "b", protocols=consumer_protocols(name="x"))
    members, epoch = dict(harness.consumers.members), harness.consumers.epoch
    events = len(harness.events)
    if how == "heartbeat":
        assert harness.consumer("c", -1).error_code is E.group_id_not_found
    elif how == "leave":
        assert harness.leave("c").error_code is E.group_id_not_found
    elif how == "parts":
        leaving = LeavingMember("c", None, None, validated_id="c")
        left = harness.call(LeaveGroup(GROUP, (leaving,), is_confirmed=True))
        assert left == LeaveResult(E.group_id_not_found, ())
    else:
        harness._apply_outcome(harness.coordinator.expire_session(GROUP, "c", harness.now))
    assert (harness.consumers.members, harness.consumers.epoch) == (members, epoch)
    assert not {each.type for each in harness.events[events:]} & {
        *(EventType.LEAVE_RECEIVED, EventType.MEMBER_EXPIRED, EventType.GROUP_CONVERTED)
    }
    harness.leave("a")
    assert harness.consumer("c", -1).error_code is E.none
    assert list(harness.group.members) == ["b"]


# --- by the replacement of a static member


def test_a_classic_successor_with_another_subscription_rebalances() -> None:
    harness = with_mixed_group()
    protocols = consumer_protocols("orders", "other")
    joined = rejoin(harness, "", instance="ic", protocols=protocols)
    assert joined.error_code is E.none
    assert harness.state is State.PREPARING_REBALANCE
    assert harness.causes()[-1] == Cause.STATIC_REPLACED.value


# --- records that cannot be stored


def test_a_downgrade_that_is_too_large_leaves_the_group_as_it_was() -> None:
    harness = with_mixed_group()
    left = harness.fail_append(consumer_heartbeat("c", -1))
    assert left.error_code is E.unknown_server_error
    assert not harness.coordinator.groups
    assert set(harness.consumers.members) == {"a", "c"}
    assert harness.consumer("c", 3).error_code is E.none
    assert harness.heartbeat("a", 3) is E.none


def test_a_member_whose_removal_is_too_large_expires_again() -> None:
    harness = with_mixed_group()
    harness.consumer("c", 3)
    harness.now += 45_000
    harness.heartbeat("a", 3)
    outcome = harness.coordinator.tick(harness.now)
    assert outcome.records
    harness._apply_outcome(harness.coordinator.append_failed(outcome, harness.now))
    assert set(harness.consumers.members) == {"a", "c"}
    for _ in range(5):
        harness.advance(9_000)
        harness.heartbeat("a", 3)
    assert list(harness.group.members) == ["a"]


def test_a_leave_that_is_too_large_removes_nobody() -> None:
    harness = with_mixed_group()
    harness.consumer_join("d")
    left = harness.fail_append(LeaveGroup(GROUP, (LeavingMember("a", None, None),)))
    assert (left.error_code, left.members) == (E.unknown_server_error, ())
    assert set(harness.consumers.members) == {"a", "c", "d"}


def test_a_join_is_answered_if_the_records_of_its_downgrade_are_too_large() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=3_000)
    harness.consumer_join("c")
    harness.consumer("c", -1)
    joined = harness.fail_append(join_group(version=3))
    assert joined.error_code is E.unknown_server_error
    assert not harness.coordinator.groups
    assert not harness.consumers.members


def test_an_upgrade_that_is_too_large_leaves_the_classic_group(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None, protocols=consumer_protocols())
    harness.group.members[a].assignment = b""
    command = consumer_heartbeat("c", 0, (), topics=("orders",), rebalance_ms=1)
    outcome = harness.coordinator.handle(command, 1_000, harness.now)
    assert outcome.replies[0][1].error_code is E.none
    harness._publish(outcome)
    harness.is_checking = False  # the assignment was changed without a record
    harness._apply_outcome(harness.coordinator.append_failed(outcome, harness.now))
    assert harness.results[1_000].error_code is E.unknown_server_error
    assert not harness.coordinator.consumer_groups
    assert harness.heartbeat(a, 1) is E.none
