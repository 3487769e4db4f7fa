"""Static membership (KIP-345): restarts need no rebalance, and the old member id is fenced."""

from kohort.coordinator.classic.states import State
from kohort.offsets.records import GroupMetadataRecord
from kohort.protocol.errors import ErrorCode
from support.coordinator import CoordinatorHarness

E = ErrorCode


def test_the_replacement_of_a_static_member_is_written_to_the_log(
    harness: CoordinatorHarness,
) -> None:
    harness.stable_group("i1", "i2")
    new = harness.results[harness.join(instance="i2", protocols=(("range", b"new"),))].member_id
    stored = harness.log[-1]
    assert isinstance(stored, GroupMetadataRecord)
    assert stored.value.generation == 1
    assert {m.group_instance_id: (m.member_id, m.subscription) for m in stored.value.members}[
        "i2"
    ] == (new, b"new")
    harness.restart()
    assert harness.heartbeat(new, 1, instance="i2") is E.none


def test_the_second_join_of_an_instance_id_wins(harness: CoordinatorHarness) -> None:
    first, second = harness.join(instance="i1"), harness.join(instance="i1")
    assert harness.results[first].error_code is E.fenced_instance_id
    harness.advance(0)
    assert harness.results[second].error_code is E.none
    assert len(harness.group.members) == 1


# --- absent static members


def test_absent_static_members_without_rebalance_timeout_do_not_loop(
    harness: CoordinatorHarness,
) -> None:
    harness.stable_group("i1", "i2")
    for instance in ("i1", "i2"):
        harness.join(instance=instance, rebalance_ms=0)
    a, b = harness.group.members
    harness.leave((b, "i2"))
    harness.advance(0)  # must return
    assert harness.heartbeat(a, 1, instance="i1") is E.rebalance_in_progress
    harness.advance(9_999)
    assert harness.state is State.PREPARING_REBALANCE
    harness.advance(1)
    assert (harness.state, harness.group.members) == (State.EMPTY, {})


def test_a_missing_sync_of_a_replaced_member_starts_a_rebalance(
    harness: CoordinatorHarness,
) -> None:
    tickets = [harness.join(instance=name, session_ms=100_000) for name in ("i1", "i2")]
    harness.advance(0)
    a, _b = (harness.results[ticket].member_id for ticket in tickets)
    harness.sync(a, 1, {}, instance="i1")
    new = harness.results[harness.join(instance="i2", session_ms=100_000)].member_id
    assert harness.results[harness.sync(new, 1, instance="i2")].error_code is E.none
    harness.advance(60_000)
    assert harness.state is State.PREPARING_REBALANCE
    assert set(harness.group.members) == {a, new}
