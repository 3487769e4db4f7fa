"""TxnOffsetCommit in each state of a group, and pending offsets until the marker."""

from typing import Any, Self

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from kohort.coordinator import admin
from kohort.coordinator.commands import OffsetFetch, TxnOffsetCommit
from kohort.coordinator.outcome import EventType
from kohort.offsets.records import GroupTombstone, OffsetTombstone, TransactionEnd
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness, offset_commit

E = ErrorCode
PRODUCER = 7
DAY_MS = 24 * 3600 * 1000


def commit(
    harness: CoordinatorHarness,
    offset: int = 5,
    *,
    partition: int = 0,
    producer: int = PRODUCER,
    **more: Any,
) -> ErrorCode:
    plain = offset_commit(GROUP, [("t", partition, offset)], **more)
    (error,) = harness.call(TxnOffsetCommit(plain, producer, 0)).errors
    assert isinstance(error, ErrorCode)
    return error


def end(harness: CoordinatorHarness, *, is_commit: bool, producer: int = PRODUCER) -> None:
    """Do what the runtime does after it has appended a marker."""
    harness.append(TransactionEnd(producer, 0, 0, is_commit))


def fetched(harness: CoordinatorHarness, *, stable: bool = False, partition: int = 0) -> Any:
    """Return the committed offset, or the error."""
    result = harness.call(OffsetFetch(GROUP, (("t", (partition,)),), stable, None, -1))
    (found,) = result.topics[0][1]
    return found.error_code or found.committed_offset


# --- groups without members. The others are in the table of test_states.py.


@pytest.mark.parametrize("has_offsets", [False, True])
@pytest.mark.parametrize(
    ("member_id", "generation", "instance", "is_valid"),
    [
        ("", -1, None, True),
        ("stranger", -1, None, True),
        ("", -1, "unknown instance", True),
        ("stranger", 0, None, False),
        ("stranger", 1, None, False),
    ],
)
def test_only_commits_without_a_generation_create_a_group(
    harness: CoordinatorHarness,
    member_id: str,
    generation: int,
    instance: str | None,
    is_valid: bool,
    has_offsets: bool,
) -> None:
    if has_offsets:
        harness.commit(("t", 3, 1))
    records = len(harness.log)
    error = commit(harness, member_id=member_id, generation=generation, instance=instance)
    invalid = E.unknown_member_id if has_offsets else E.illegal_generation
    assert error is (E.none if is_valid else invalid)
    assert (len(harness.log) > records) is is_valid
    end(harness, is_commit=True)
    assert fetched(harness) == (5 if is_valid else -1)


def test_replaced_static_member_is_fenced(harness: CoordinatorHarness) -> None:
    (old,) = harness.stable_group("i")
    harness.join(instance="i")
    harness.advance(harness.config.group_initial_rebalance_delay_ms)
    generation = harness.group.generation
    error = commit(harness, member_id=old, generation=generation, instance="i")
    assert error is E.fenced_instance_id


def test_a_transactional_commit_does_not_extend_the_session(harness: CoordinatorHarness) -> None:
    (member_id,) = harness.stable_group(None, session_ms=10_000)
    harness.advance(9_000)
    assert commit(harness, member_id=member_id, generation=1) is E.none
    harness.advance(1_000)
    assert member_id not in harness.group.members


def test_too_large_metadata_leaves_nothing_pending(harness: CoordinatorHarness) -> None:
    assert commit(harness, metadata="x" * 5_000) is E.offset_metadata_too_large
    assert not harness.coordinator.pending_offsets
    assert fetched(harness, stable=True) == -1


# --- expiration


def test_a_group_and_its_pending_partitions_do_not_expire_during_a_transaction(
    harness: CoordinatorHarness,
) -> None:
    """Upstream: OffsetMetadataManager.cleanupExpiredOffsets."""
    harness.commit(("t", 0, 1), ("t", 1, 1))
    commit(harness)
    harness.advance(8 * DAY_MS)
    assert [fetched(harness, partition=n) for n in range(2)] == [1, -1]
    assert [each.group_id for each in harness.list_groups()] == [GROUP]
    end(harness, is_commit=False)
    harness.advance(harness.check_interval_ms)
    assert fetched(harness) == -1
    assert not harness.list_groups()


# --- deletion


class CountedTombstone(OffsetTombstone):
    comparisons = created = 0
    __hash__ = OffsetTombstone.__hash__

    def __new__(cls, *args: Any) -> Self:
        cls.created += 1
        return super().__new__(cls, *args)

    def __eq__(self, other: object) -> bool:
        CountedTombstone.comparisons += 1
        return super().__eq__(other)


def test_a_group_with_many_pending_offsets_is_deleted_in_linear_time(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.is_checking = False
    count = 300
    harness.commit(*[("t", partition, 1) for partition in range(count)])
    pending = offset_commit(GROUP, [("t", partition, 2) for partition in range(1, count + 1)])
    assert set(harness.call(TxnOffsetCommit(pending, PRODUCER, 0)).errors) == {E.none}
    monkeypatch.setattr(admin, "OffsetTombstone", CountedTombstone)
    written = len(harness.log)
    assert harness.delete() is E.none
    assert CountedTombstone.comparisons < 10 * count
    tombstones = [OffsetTombstone(GROUP, "t", partition) for partition in range(count + 1)]
    assert harness.log[written:] == [*tombstones, GroupTombstone(GROUP)]


def test_a_deletion_does_not_read_the_pending_offsets_of_other_groups(
    harness: CoordinatorHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = offset_commit("other", [("t", partition, 2) for partition in range(10)])
    harness.call(TxnOffsetCommit(pending, PRODUCER, 0))
    harness.commit(("t", 0, 1))
    monkeypatch.setattr(admin, "OffsetTombstone", CountedTombstone)
    CountedTombstone.created = 0
    assert harness.delete() is E.none
    assert CountedTombstone.created == 1


# --- random histories


class PendingHistory(RuleBasedStateMachine):
    """Commits with and without two producers, markers, tombstones and restarts of one group. The
    model is an ordered list of commits: a marker commits its producer's commits, and the newest one
    counts. The harness compares the state with a replay after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = CoordinatorHarness()
        self.offset = 0
        self.committed: dict[int, int] = {}
        self.pending: dict[int, dict[int, int]] = {}

    def _next(self) -> int:
        self.offset += 1
        return self.offset

    @rule(producer=st.sampled_from([7, 8]), partition=st.integers(0, 1))
    def a_producer_commits(self, producer: int, partition: int) -> None:
        offset = self._next()
        assert commit(self.harness, offset, partition=partition, producer=producer) is E.none
        self.pending.setdefault(producer, {})[partition] = offset

    @rule(partition=st.integers(0, 1))
    def a_consumer_commits(self, partition: int) -> None:
        offset = self._next()
        self.harness.commit(("t", partition, offset))
        self.committed[partition] = offset

    @rule(producer=st.sampled_from([7, 8]), is_commit=st.booleans())
    def a_marker_is_written(self, producer: int, is_commit: bool) -> None:
        end(self.harness, is_commit=is_commit, producer=producer)
        for partition, offset in self.pending.pop(producer, {}).items():
            if is_commit:
                # Offsets grow, so the larger one was committed later.
                self.committed[partition] = max(offset, self.committed.get(partition, -1))

    @rule(partition=st.integers(0, 1))
    def an_offset_is_deleted(self, partition: int) -> None:
        self.harness.delete_offsets(("t", (partition,)))
        self.committed.pop(partition, None)
        for pending in self.pending.values():
            pending.pop(partition, None)

    @rule()
    def the_partition_is_loaded_again(self) -> None:
        self.harness.restart()

    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        for partition in (0, 1):
            committed = self.committed.get(partition, -1)
            assert fetched(self.harness, partition=partition) == committed
            is_pending = any(partition in each for each in self.pending.values())
            stable = fetched(self.harness, stable=True, partition=partition)
            assert stable == (E.unstable_offset_commit if is_pending else committed)


TestPendingHistory = PendingHistory.TestCase
TestPendingHistory.settings = settings(stateful_step_count=30)


# --- events


def test_the_event_of_a_committed_transaction_has_the_offsets_that_count_now() -> None:
    harness = CoordinatorHarness()
    commit(harness, 5)
    commit(harness, 6, partition=1)
    harness.commit(("t", 1, 9))  # supersedes the transactional commit
    (event,) = harness.coordinator.commit_events(PRODUCER)
    assert (event.type, event.group_id) == (EventType.COMMIT_ACCEPTED, GROUP)
    assert event.detail == {"producer_id": str(PRODUCER), "t-0": "5"}
    end(harness, is_commit=True)
    assert harness.coordinator.commit_events(PRODUCER) == ()


def test_without_events_of_commits_events_of_transactions_have_no_offsets() -> None:
    harness = CoordinatorHarness(reports_commits=False)
    commit(harness, 5)
    assert harness.coordinator.commit_events(PRODUCER) == ()
