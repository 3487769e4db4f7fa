"""The initial delay, the rebalance timeout, and the members of the next generation."""

from kohort.coordinator.classic.states import State
from kohort.offsets.records import GroupMetadata, GroupMetadataRecord
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness

E = ErrorCode


def test_an_initial_delay_of_zero_is_still_a_timer(harness: CoordinatorHarness) -> None:
    a = harness.join_dynamic()
    assert a not in harness.results
    harness.advance(0)
    assert harness.results[a].generation_id == 1


def test_the_initial_delay_is_limited_by_the_rebalance_timeout() -> None:
    """A new member joins in each delay of 3,000 ms, so the phase ends after 7,000 ms."""
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=3_000)
    a = harness.join_dynamic(rebalance_ms=7_000)
    for _ in range(2):
        harness.advance(2_999)
        harness.join_dynamic(rebalance_ms=100_000)
        harness.advance(1)
        assert a not in harness.results
    harness.join_dynamic(rebalance_ms=100_000)
    harness.advance(999)
    assert a not in harness.results
    harness.advance(1)
    assert len(harness.results[a].members) == 4


def test_rejoining_does_not_extend_the_initial_delay() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=3_000)
    member_id = harness.request_member_id()
    harness.join(member_id)
    harness.advance(2_000)
    again = harness.join(member_id)
    harness.advance(1_000)
    assert harness.results[again].generation_id == 1


def test_a_member_that_expires_completes_the_first_rebalance() -> None:
    """A member that leaves does not (upstream's testHeartbeatExpirationShouldRemoveMember)."""
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=600_000)
    a = harness.join_dynamic(rebalance_ms=600_000)
    harness.advance(300_000)
    assert harness.results[a].error_code is E.unknown_member_id
    assert harness.results[a].member_id == ""
    empty = GroupMetadata("consumer", 1, None, None, harness.now, ())
    assert (harness.state, harness.log[-1]) == (State.EMPTY, GroupMetadataRecord(GROUP, empty))


def test_the_first_joined_member_replaces_a_missing_leader(harness: CoordinatorHarness) -> None:
    a, b, c = harness.stable_group(None, None, None, session_ms=1_000_000)
    tickets = [harness.join(c, protocols=(("range", b"new"),)), harness.join(b)]
    harness.advance(60_000)
    assert [harness.results[ticket].leader for ticket in tickets] == [b, b]
    assert harness.heartbeat(a, 2) is E.unknown_member_id


def test_a_group_is_empty_if_no_member_rejoins_in_time(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group(None, None, session_ms=1_000_000)
    harness.join(a)
    harness.leave(a)
    harness.advance(60_000)
    assert (harness.state, harness.group.generation) == (State.EMPTY, 2)
    assert harness.group.protocol_type == "consumer"
    assert harness.heartbeat(b, 1) is E.unknown_member_id


def test_the_session_of_a_new_member_starts_after_its_first_rebalance(
    harness: CoordinatorHarness,
) -> None:
    """Upstream's testNewMemberTimeoutCompletion."""
    session_ms = 305_000
    a = harness.join_dynamic(session_ms=session_ms)
    harness.advance(0)
    assert harness.results[a].error_code is E.none
    member_id = harness.results[a].member_id
    harness.sync(member_id, 1, {member_id: b"all"})
    harness.advance(session_ms - 1)
    assert harness.state is State.STABLE
    harness.advance(1)
    empty = GroupMetadata("consumer", 2, None, None, harness.now, ())
    assert (harness.state, harness.log[-1]) == (State.EMPTY, GroupMetadataRecord(GROUP, empty))


def test_a_new_member_is_rejected_after_five_minutes_of_rebalance(
    harness: CoordinatorHarness,
) -> None:
    (_,) = harness.stable_group(None, session_ms=1_000_000, rebalance_ms=1_000_000)
    b = harness.join_dynamic(session_ms=6_000, rebalance_ms=1_000_000)
    harness.advance(299_999)
    assert b not in harness.results
    harness.advance(1)
    assert (harness.results[b].error_code, harness.results[b].member_id) == (
        E.unknown_member_id,
        "",
    )


def test_a_group_without_any_sync_is_empty_after_the_rebalance_timeout(
    harness: CoordinatorHarness,
) -> None:
    harness.join_dynamic(session_ms=1_000_000), harness.join_dynamic(session_ms=1_000_000)
    harness.advance(60_000)
    assert (harness.state, harness.group.generation) == (State.EMPTY, 2)
