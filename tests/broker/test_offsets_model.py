"""One offsets partition compared with a dict, through commits, deletions, expiration, compaction,
snapshots, eviction, failing disks, kills and power failures.

Acknowledged commits are kept, and rejected commits never appear. If commits have no response, a
crash keeps a prefix of them, in the order of the requests.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from kohort.broker.build import group_config
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.runtime import loader, snapshots
from kohort.broker.runtime.context import RETRY_FAILED_MS
from kohort.coordinator.commands import DeleteGroup, OffsetFetch
from kohort.log import group_commit
from kohort.log.group_commit import Durability
from kohort.log.log import LogConfig
from kohort.offsets import snapshot
from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import Crashed, FaultyFiles
from support.coordinator import offset_commit
from support.log import TERMS, Compaction
from support.runtime import NOW_MS, SWEEP_INTERVAL_MS, RuntimeHarness

GROUPS = ("g0", "g1", "g2")  # few, so that operations interfere
PARTITIONS = 3
RETENTION_MS = group_config(BrokerConfig()).offsets_retention_ms
RETRIABLE = {ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress}
OPERATIONS = ("append", "truncate", "sync", "sync_folder", "create", "open", "rename", "remove")
# Failures that reject a commit. In the last case, its bytes are not truncated.
REJECTING = (("append",), ("sync",), ("append", "truncate"))
# The limits are so small that a few dozen commits reach them.
LIMITS = {
    (snapshots, "EVERY_RECORDS"): 4,
    (snapshots, "AT_STOP_RECORDS"): 3,
    (snapshot, "STEP_OFFSETS"): 1,
    (loader, "EAGER_RECORDS"): 10,
    (loader, "STEP_RECORDS"): 3,
    (group_commit, "BATCH_BYTES_MAX"): 300,
}

groups = st.sampled_from(GROUPS)


class Committed(NamedTuple):
    offset: int
    at_ms: int


State = dict[tuple[str, int], Committed]
"""Committed offsets by group and partition."""


class Change(NamedTuple):
    """A commit, or the deletion of the group if there are no partitions."""

    name: str
    group_id: str
    partitions: tuple[int, ...]
    committed: Committed

    def apply(self, state: State) -> State:
        if self.partitions:
            return state | {(self.group_id, n): self.committed for n in self.partitions}
        return {key: value for key, value in state.items() if key[0] != self.group_id}


def matching_state(
    found: Mapping[str, Mapping[int, int]],
    states: Iterable[State],
    has_expired: Callable[[int], bool],
) -> State | None:
    """Return the first state that matches the offsets found, by group and partition. Expired
    offsets may be missing, and are then missing in the returned state too."""
    present = {(g, p): offset for g, offsets in found.items() for p, offset in offsets.items()}
    fetched = {(group_id, partition) for group_id in found for partition in range(PARTITIONS)}
    for state in states:
        missing = {key for key in fetched if key in state and key not in present}
        matches = all(key in state and state[key].offset == present[key] for key in present)
        if matches and all(has_expired(state[key].at_ms) for key in missing):
            return {key: value for key, value in state.items() if key not in missing}
    return None


def error_of(result: Any) -> ErrorCode:
    errors = set(getattr(result, "errors", ())) or {result.error_code}
    assert len(errors) == 1, errors
    return ErrorCode(errors.pop())


class OffsetsModel(RuleBasedStateMachine):
    """`acknowledged` changes must be present; `pending` changes have no response. The bytes of
    `rejected` changes were not truncated yet, and may be in the log after a power failure."""

    @initialize(
        durability=st.sampled_from(["fsync", "os"]),
        segment_bytes=st.sampled_from([400, 1_500, 6_000]),
        cache_offsets=st.sampled_from([0, 1, 5]),
        delete_retention_ms=st.sampled_from([0, 24 * 3600 * 1000]),
    )
    def set_up(
        self,
        durability: Durability,
        segment_bytes: int,
        cache_offsets: int,
        delete_retention_ms: int,
    ) -> None:
        self.patch = pytest.MonkeyPatch()
        for (module, name), value in LIMITS.items():
            self.patch.setattr(module, name, value)
        self.durability = durability
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=200)
        self.cache_offsets = cache_offsets
        terms = TERMS._replace(delete_retention_ms=delete_retention_ms, segment_bytes=segment_bytes)
        self.files = FaultyFiles()
        self.now_ms = NOW_MS
        self.serial = 0
        self.acknowledged: State = {}
        self.pending: list[Change] = []
        self.rejected: list[Change] = []
        self.compaction = Compaction(terms, durable_reads_only=durability == "fsync")
        self.is_faulty = False
        self.start()

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    def start(self) -> None:
        self.files.locked.clear()
        self.files.heal()
        self.files.crash_at = None
        self.is_faulty = False
        self.compaction.give_up()
        self.harness = RuntimeHarness(
            self.durability, self.files, log_config=self.config, cache_offsets=self.cache_offsets
        )
        self.harness.clock.ms = self.now_ms

    @contextmanager
    def until_power_failure(self) -> Iterator[None]:
        try:
            yield
            self.collect_results()
        except Crashed:
            self.collect_results()
            self.restart_after_crash(power_failed=self.durability == "fsync", seed=self.serial)

    # --- requests

    def submit(self, command: Any) -> str:
        self.serial += 1
        name = f"{type(command).__name__} {self.serial}"
        self.harness.submit(name, command)
        return name

    def collect_results(self) -> None:
        results = self.harness.results
        left = []
        for change in self.pending:
            if change.name not in results:
                left.append(change)
                continue
            assert not left, f"{change.name} has a response before {left[0].name}"
            error = error_of(results[change.name])
            if error is ErrorCode.none:
                self.acknowledged = change.apply(self.acknowledged)
            elif error is not ErrorCode.group_id_not_found:
                assert error in RETRIABLE, error
                self.rejected.append(change)
        self.pending = left
        log = self.harness.partition._log
        if log is None or log.failed is None:
            self.rejected = []

    @rule(
        group_id=groups,
        partitions=st.sets(st.integers(0, PARTITIONS - 1), min_size=1),
        size=st.integers(0, 300),
    )
    def commit(self, group_id: str, partitions: set[int], size: int) -> None:
        with self.until_power_failure():
            offset = self.serial + 1
            offsets = [("t", n, offset) for n in partitions]
            metadata = f"at {offset} {'x' * size}"
            name = self.submit(offset_commit(group_id, offsets, metadata=metadata))
            committed = Committed(offset, self.now_ms)
            self.add_pending(Change(name, group_id, tuple(partitions), committed))

    @rule(group_id=groups, count=st.integers(5, 15))
    def commit_repeatedly(self, group_id: str, count: int) -> None:
        for _ in range(count):
            self.commit(group_id, {0}, 0)
            self.run("all")

    @rule(group_id=groups)
    def delete(self, group_id: str) -> None:
        with self.until_power_failure():
            name = self.submit(DeleteGroup(group_id))
            self.add_pending(Change(name, group_id, (), Committed(-1, 0)))

    def add_pending(self, change: Change) -> None:
        result = self.harness.results.get(change.name)
        if result is None:
            self.pending.append(change)
        else:  # the partition is not loaded, so nothing was written
            assert error_of(result) in RETRIABLE | {ErrorCode.group_id_not_found}

    @rule(group_id=groups)
    def fetch(self, group_id: str) -> None:
        with self.until_power_failure():
            found = self.fetched_offsets(group_id)
            self.collect_results()
            if found is not None:
                self.compare({group_id: found}, [self.acknowledged])

    def fetched_offsets(self, group_id: str) -> dict[int, int] | None:
        """Return offsets by partition, or None if the offsets partition is not loaded."""
        name = self.submit(OffsetFetch(group_id, None, False, None, -1))
        self.harness.run_loop()
        result = self.harness.results[name]
        if result.error_code is not ErrorCode.none:
            assert result.error_code in RETRIABLE
            return None
        return {
            each.partition_index: each.committed_offset
            for topic, partitions in result.topics
            for each in partitions
            if topic == "t"
        }

    def compare(self, found: dict[str, dict[int, int]], states: list[State]) -> None:
        state = matching_state(found, states, lambda at_ms: self.now_ms - at_ms >= RETENTION_MS)
        assert state is not None, f"found {found}\nwhich is none of {states}"
        self.acknowledged = state

    # --- background work

    @rule(steps=st.sampled_from(["all", "d", "dd", "s", "ds", "dddss"]))
    def run(self, steps: str) -> None:
        """Run everything, or single callbacks ("d") and slices ("s")."""
        with self.until_power_failure():
            if steps == "all":
                self.harness.run_loop()
            for step in steps:
                if step == "d" and self.harness.due:
                    self.harness.due.pop(0)()
                if step == "s":
                    self.harness.run_slice()

    @rule(ms=st.sampled_from([1, RETRY_FAILED_MS, snapshots.EVERY_MS, SWEEP_INTERVAL_MS]))
    def advance(self, ms: int) -> None:
        self.now_ms += ms
        with self.until_power_failure():
            self.harness.timers.advance(ms)

    @rule()
    def write_a_snapshot(self) -> None:
        self.start_a_snapshot()
        self.run("all")

    def start_a_snapshot(self) -> None:
        self.commit_repeatedly("g0", LIMITS[snapshots, "EVERY_RECORDS"])
        self.advance(snapshots.EVERY_MS)

    @rule()
    def expire_offsets(self) -> None:
        for _ in range(2):
            self.now_ms += RETENTION_MS
            with self.until_power_failure():
                self.harness.timers.advance(RETENTION_MS)
                self.harness.run_loop()

    @rule(steps=st.sampled_from([1, 3, 10, 30, 1000]))
    def compact(self, steps: int) -> None:
        with self.until_power_failure():
            log = self.harness.partition._log
            if log is not None:
                self.compaction.go_on(log, steps, self.now_ms)

    @rule()
    def compact_twice(self) -> None:
        """The first run sets the delete horizon of tombstones, the second removes them."""
        self.commit_repeatedly("g0", 6)
        for _ in range(2):
            self.now_ms += 1
            with self.until_power_failure():
                self.harness.timers.advance(1)
            self.compact(1000)

    @precondition(lambda self: not self.is_faulty)
    @rule(
        operation=st.sampled_from(OPERATIONS),
        after=st.integers(0, 3),
        written=st.sampled_from([0, 30, 100, 100_000]),
        times=st.integers(1, 3),
    )
    def fail_the_disk(self, operation: str, after: int, written: int, times: int) -> None:
        self.is_faulty = True
        self.files.fail(operation, after=after, written=written, times=times)

    @precondition(lambda self: self.is_faulty)
    @rule()
    def repair_the_disk(self) -> None:
        """After the retry interval all requests succeed again."""
        self.is_faulty = False
        with self.until_power_failure():
            self.files.heal()
            self.harness.run_loop()
            self.collect_results()
            self.fetch_all()

    # --- restarts

    @rule(how=st.sampled_from(["stop", "kill", "power", "soon"]), seed=st.integers(0, 1000))
    def restart(self, how: str, seed: int) -> None:
        """Restart after a signal, SIGKILL or a power failure, now or at a later disk operation."""
        if how == "stop":
            with self.until_power_failure():
                self.harness.run_loop()
                self.collect_results()
                self.harness.runtime.close()
                self.harness.partition.log.close()
                self.start()
                self.fetch_all()
        elif how == "soon":
            self.files.crash_at = self.files.count + seed % 12
        else:
            power_failed = how == "power" and self.durability == "fsync"
            self.restart_after_crash(power_failed=power_failed, seed=seed)

    def restart_after_crash(self, *, power_failed: bool, seed: int) -> None:
        if power_failed:
            self.files.crash(random.Random(seed) if seed % 4 else None)
        states = [self.acknowledged]
        for change in [*self.rejected, *self.pending]:
            states.append(change.apply(states[-1]))
        self.pending, self.rejected = [], []
        self.start()
        self.fetch_all(states)

    def fetch_all(self, states: list[State] | None = None) -> None:
        found: dict[str, dict[int, int]] = {}
        for group_id in GROUPS:
            offsets = self.fetched_offsets(group_id)
            for _ in range(3):
                if offsets is None:
                    self.now_ms += RETRY_FAILED_MS
                    self.harness.timers.advance(RETRY_FAILED_MS)
                    offsets = self.fetched_offsets(group_id)
            assert offsets is not None, f"{group_id} cannot be loaded from a working disk"
            found[group_id] = offsets
        self.compare(found, [self.acknowledged] if states is None else states)

    # --- sequences that random single steps rarely produce

    @rule(
        plan=st.lists(
            st.tuples(groups, st.sampled_from(["", "s", "ss", "dd", "dds"])), min_size=1, max_size=5
        ),
        fails=st.booleans(),
    )
    def commit_during_a_snapshot(self, plan: list[tuple[str, str]], fails: bool) -> None:
        """Commit to groups that are already in the snapshot and to other groups."""
        self.start_a_snapshot()
        for group_id, steps in plan:
            self.commit(group_id, {0}, 0)
            self.run(steps)
        if fails:
            self.reject_commits(("append",), 0, plan[-1][0], "ssssss")
        else:
            self.run("all")
            for group_id in GROUPS:
                self.fetch(group_id)

    @precondition(lambda self: not self.is_faulty)
    @rule(
        operations=st.sampled_from(REJECTING),
        written=st.sampled_from([0, 30, 100_000]),
        group_id=groups,
        steps=st.sampled_from(["", "d", "s"]),
    )
    def reject_commits(
        self, operations: tuple[str, ...], written: int, group_id: str, steps: str
    ) -> None:
        if not self.is_faulty:
            self.is_faulty = True
            for operation in operations:
                self.files.fail(operation, written=written, times=3)
        self.commit(group_id, {0, 1}, 0)
        self.run(steps)
        self.run("all")
        self.repair_the_disk()

    @rule(group_id=groups, how=st.sampled_from(["kill", "power", "fetch"]))
    def remove_tombstones_of_a_group(self, group_id: str, how: str) -> None:
        """Compaction removes its tombstones; an older snapshot may still have the group."""
        self.delete(group_id)
        self.run("all")
        self.compact_twice()
        if how == "fetch":
            self.fetch(group_id)
        else:
            self.restart(how, 0)

    @rule(group_id=groups, seed=st.integers(0, 1000))
    def tear_a_commit(self, group_id: str, seed: int) -> None:
        """A power failure tears a batch that is longer than a sector; commits written in its place
        survive the next restart."""
        self.commit(group_id, {0, 1, 2}, 300)
        self.run("d")
        self.restart("power", seed)
        self.commit(group_id, {0}, 0)
        self.run("all")
        self.restart("kill", seed)


TestOffsetsModel = OffsetsModel.TestCase
# 150 short runs take about 6 s and find most one-line mutants of the store. The enumeration of
# crashes in tests/log finds mutants that change the order of two syncs.
TestOffsetsModel.settings = settings(
    max_examples=3 * settings().max_examples, stateful_step_count=30
)
