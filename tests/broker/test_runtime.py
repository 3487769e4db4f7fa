"""The runtime on failing disks: no acknowledged commit is lost, no rejected commit appears, and the
partition continues with the log on disk."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest
from kohort.broker.runtime import loader
from kohort.broker.runtime.context import RETRY_FAILED_MS, CoordinatorState
from kohort.broker.runtime.loader import EAGER_RECORDS
from kohort.coordinator.commands import Heartbeat, JoinGroup, OffsetFetch
from kohort.coordinator.coordinator import Coordinator
from kohort.coordinator.outcome import Outcome, RegexQuery
from kohort.log.group_commit import Durability
from kohort.log.log import LogConfig
from kohort.log.tasks import CooperativeTask
from kohort.protocol.errors import ErrorCode
from support.broker import BrokerHarness
from support.coordinator import join_group, offset_commit
from support.runtime import RuntimeHarness

DURABILITIES: list[Durability] = ["fsync", "os"]


def errors_of(result: Any) -> tuple[ErrorCode, ...]:
    return tuple(result.errors)


def join() -> JoinGroup:
    return join_group(group_id="g", version=3)


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_commit_gets_its_response_only_once_it_is_durable(durability: Durability) -> None:
    harness = RuntimeHarness(durability)
    harness.commit("c1", 5)
    assert "c1" not in harness.results
    harness.run_loop()
    assert errors_of(harness.results["c1"]) == (ErrorCode.none,)
    assert harness.partition.log.end_offset == 1


def test_a_fetch_waits_for_the_durability_of_earlier_commits() -> None:
    harness = RuntimeHarness("fsync")
    harness.commit("c1", 5)
    harness.fetch("fetch")
    assert "fetch" not in harness.results
    harness.run_loop()
    assert harness.results["fetch"].topics[0][1][0].committed_offset == 5


def test_commits_during_a_failing_sync_are_rejected_with_it() -> None:
    harness = RuntimeHarness("fsync")
    harness.commit_and_run(1)
    harness.group_commit._sync_seconds = 1.0  # a slow disk: the sync runs in a thread
    harness.commit("failing", 6)
    harness.due.pop(0)()  # written; the sync is running
    harness.commit("during", 7)
    harness.files.fail("sync")
    harness.run_loop()
    for name in ("failing", "during"):
        assert errors_of(harness.results[name]) == (ErrorCode.not_coordinator,), name
    assert harness.committed_offset() == 1


def test_a_commit_during_a_sync_waits_for_the_next_flush() -> None:
    harness = RuntimeHarness("fsync")
    harness.commit_and_run(1)
    harness.group_commit._sync_seconds = 1.0  # a slow disk: the sync runs in a thread
    harness.commit("under way", 2)
    harness.due.pop(0)()
    harness.commit("during", 3)
    harness.due.pop(0)()  # the first sync ends
    assert "under way" in harness.results
    assert "during" not in harness.results
    assert harness.partition.log.end_offset == 2
    harness.run_loop()
    assert errors_of(harness.results["during"]) == (ErrorCode.none,)


def test_rejected_commits_do_not_appear_if_the_log_cannot_be_reopened() -> None:
    harness = RuntimeHarness("fsync")
    harness.commit_and_run(5)
    harness.files.fail("sync")
    harness.files.fail("open")
    assert harness.commit_and_run(6) is ErrorCode.not_coordinator
    harness.commit("too early", 7)
    assert errors_of(harness.results["too early"]) == (ErrorCode.not_coordinator,)
    harness.timers.advance(RETRY_FAILED_MS)
    assert harness.committed_offset() == 5
    harness.commit_and_run(8)
    assert harness.committed_offset() == 8


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_log_without_its_files_is_not_treated_as_empty(durability: Durability) -> None:
    harness = RuntimeHarness(durability)
    harness.commit_and_run(5)
    harness.files.contents.clear()
    harness.files.fail("append")
    assert harness.commit_and_run(6) is ErrorCode.not_coordinator
    for _ in range(2):
        harness.results.clear()
        harness.fetch("fetch")
        assert harness.results["fetch"].error_code is ErrorCode.not_coordinator
        harness.timers.advance(RETRY_FAILED_MS)


def test_waiting_joins_fail_when_their_partition_fails() -> None:
    harness = RuntimeHarness("fsync")
    harness.submit("join", join())
    harness.run_loop()
    harness.files.fail("sync", times=3)
    assert harness.commit_and_run(1, group_id="other") is ErrorCode.not_coordinator
    assert harness.results["join"].error_code is ErrorCode.not_coordinator


def test_a_disconnected_client_leaves_no_ticket_but_its_join_continues() -> None:
    harness = RuntimeHarness("os")
    ticket = harness.submit("join", join())
    harness.run_loop()
    harness.runtime.forget(ticket)
    harness.timers.advance(0)
    harness.run_loop()
    assert "join" not in harness.results
    assert not harness.runtime._waiting
    assert harness.context.coordinator.groups["g"].generation == 1


@pytest.mark.interpreted
@pytest.mark.parametrize("failing", ["handle", "apply", "tick"])
def test_a_failing_decision_fails_all_waiting_requests_and_reloads_the_partition(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception may leave the groups in a state in which no decision completes the join."""
    harness = RuntimeHarness()
    harness.commit_and_run(5)
    harness.submit("join", join())
    harness.run_loop()
    coordinator = harness.context.coordinator
    monkeypatch.setattr(coordinator, failing, lambda *_: 1 / 0)
    decide = {"tick": partial(harness.timers.advance, 0)}.get(
        failing, partial(harness.commit, "failing", 6, group_id="other")
    )
    with pytest.raises(ZeroDivisionError):
        decide()
    harness.run_loop()
    assert harness.results["join"].error_code is ErrorCode.not_coordinator
    assert not harness.runtime._waiting
    assert not coordinator.groups
    assert harness.committed_offset() == 5
    # Before `apply`, the record was appended to the log.
    assert harness.committed_offset("other") == (6 if failing == "apply" else -1)
    harness.submit("rejoin", join())
    harness.timers.advance(0)
    harness.run_loop()
    assert harness.results["rejoin"].error_code is ErrorCode.none


@pytest.mark.interpreted
def test_a_failing_match_of_regular_expressions_reloads_the_partition() -> None:
    harness = RuntimeHarness()
    harness.commit_and_run(5)
    coordinator = harness.context.coordinator

    def match() -> CooperativeTask[dict[str, tuple[str, ...]]]:
        yield None
        raise ZeroDivisionError

    outcome = Outcome((), (), (), (RegexQuery("g", 1, match),))
    assert harness.runtime.carry_out("g", lambda *_: outcome)
    with pytest.raises(ZeroDivisionError):
        harness.run_loop()
    harness.run_loop()
    assert harness.context.coordinator is not coordinator
    assert harness.committed_offset() == 5


def failing_sweep(*_: Any) -> Iterator[Any]:
    yield Outcome((), ())
    raise ZeroDivisionError


@pytest.mark.interpreted
def test_a_failing_sweep_is_repeated_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = RuntimeHarness()
    harness.commit_and_run(5)
    with monkeypatch.context() as broken:
        broken.setattr(Coordinator, "delete_offsets_of_topics", failing_sweep)
        harness.topic_deleted("other")
        with pytest.raises(ZeroDivisionError):
            harness.run_loop()
    assert harness.committed_offset() == 5
    harness.topic_deleted("another")
    harness.run_loop()
    assert harness.runtime.has_cleaned_up(2)
    assert harness.committed_offset() == 5


@pytest.mark.interpreted
@pytest.mark.parametrize("failing", ["apply", "loaded", "delete_offsets_of_topics"])
def test_a_load_that_raises_is_repeated_later_and_others_continue(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = BrokerHarness(durability="os")
    before.create_topic("orders")
    groups = {before.partition_of(name): name for name in map(str, range(100))}
    for group_id in groups.values():
        before.commit(group_id, "orders", 0)
    harness = before.restart("os")
    original, calls = getattr(Coordinator, failing), count()
    fail = failing_sweep if failing == "delete_offsets_of_topics" else lambda *_: 1 / 0

    def fail_once(*arguments: Any) -> Any:
        return (original if next(calls) else fail)(*arguments)

    monkeypatch.setattr(Coordinator, failing, fail_once)
    harness.load()
    states = Counter(each.state for each in harness.node.coordinators.contexts.values())
    assert states == {CoordinatorState.FAILED: 1, CoordinatorState.ACTIVE: len(groups) - 1}
    harness.advance(RETRY_FAILED_MS)
    for group_id in groups.values():
        harness.commit(group_id, "orders", 0)


def test_a_large_log_is_loaded_in_slices_while_requests_fail() -> None:
    before = RuntimeHarness("os")
    commit = offset_commit("g", [("t", each, 1) for each in range(EAGER_RECORDS + 1)])
    before.submit("all", commit)
    before.run_loop()
    before.commit_and_run(9, group_id="h")
    harness = RuntimeHarness("os", before.files)
    harness.fetch("early", "h")
    assert harness.results["early"].error_code is ErrorCode.coordinator_load_in_progress
    # Sessions do not expire during loading.
    harness.submit("heartbeat", Heartbeat("h", 1, "m", None))
    assert harness.results["heartbeat"].error_code is ErrorCode.none
    harness.run_loop()
    assert harness.committed_offset("h") == 9


# --- records above max.message.bytes


def test_a_too_large_commit_is_rejected_and_earlier_ones_stay() -> None:
    harness = RuntimeHarness("fsync")
    harness.commit("before", 5)
    offsets = [("t", each, 7) for each in range(270)]
    command = offset_commit("g", offsets, metadata="x" * 4_000)
    harness.submit("large", command)
    harness.run_loop()
    assert errors_of(harness.results["before"]) == (ErrorCode.none,)
    assert errors_of(harness.results["large"]) == (ErrorCode.unknown_server_error,) * 270
    assert harness.partition.log.end_offset == 1
    assert harness.commit_and_run(6) is ErrorCode.none
    assert harness.committed_offset() == 6


def test_tombstones_may_exceed_the_message_size_limit() -> None:
    harness = RuntimeHarness("fsync")
    harness.commit_and_run(5)
    harness.partition.log.config = LogConfig(max_message_bytes=80)
    harness.commit("rejected", 6)
    harness.topic_deleted()
    harness.run_loop()
    assert errors_of(harness.results["rejected"]) == (ErrorCode.unknown_server_error,)
    assert harness.committed_offset() == -1


def test_a_partition_with_a_waiting_request_is_loaded_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = BrokerHarness(durability="os")
    before.create_topic("t", 1)
    groups: dict[int, str] = {}  # one for each partition
    for number in range(100):
        partition = before.node.coordinators.partition_of(f"g{number}")
        groups.setdefault(partition, f"g{number}")
    for group_id in groups.values():
        for _ in range(20):
            before.commit(group_id, "t", 0)
            before.run_loop()
    monkeypatch.setattr(loader, "EAGER_RECORDS", 2)
    monkeypatch.setattr(loader, "STEP_RECORDS", 1)
    broker = BrokerHarness(files=before.files, durability="os")
    runtime = broker.node.coordinators
    runtime.load(sorted(groups))
    loaded: list[int] = []
    errors: dict[int, ErrorCode] = {}
    last = max(groups)
    while len(loaded) < len(groups):
        if len(errors) < 2:
            fetch = OffsetFetch(groups[last], (("t", (0,)),), False, None, -1)
            runtime.submit(
                fetch, lambda n, result: errors.setdefault(n, result.error_code), len(errors)
            )
        broker.callbacks.pop(0)()
        for index, context in runtime.contexts.items():
            if context.state is CoordinatorState.ACTIVE and index not in loaded:
                loaded.append(index)
    assert errors[0] is ErrorCode.coordinator_load_in_progress
    assert loaded == [last, *sorted(set(groups) - {last})]
