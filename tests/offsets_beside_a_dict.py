"""The offsets of one partition beside a plain dict, through commits, deletions and expiry, while
the log is compacted, snapshots are written, groups are evicted, the disk fails, the process is
killed and power goes: a Hypothesis machine of single steps (test_offsets_model.py runs it).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis.strategies as st
import pytest
from committed_dict import PARTITIONS, Asked, Committed, State, matching
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from kohort.broker import loader, snapshots
from kohort.broker.build import group_config
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.runtime import RETRY_FAILED_MS
from kohort.coordinator.commands import DeleteGroup, OffsetFetch
from kohort.log import group_commit
from kohort.log.group_commit import Durability
from kohort.log.log import LogConfig
from kohort.offsets import snapshot
from kohort.protocol.errors import ErrorCode
from kohort.testing.faulty_files import Crashed, FaultyFiles
from support.coordinator import offset_commit
from support.log import TERMS, Compaction
from support.runtime import RuntimeHarness

GROUPS = ("g0", "g1", "g2")  # so few that they meet all the time
RETENTION_MS = group_config(BrokerConfig()).offsets_retention_ms
SWEEP_MS = 600_000  # as in runtime_world
LOST_FOR_NOW = {ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress}
OPERATIONS = ("append", "truncate", "sync", "sync_folder", "create", "open", "rename", "remove")
# So small that a few dozen commits bring all of it about.
SMALL = {
    (snapshots, "EVERY_RECORDS"): 4,
    (snapshots, "AT_STOP_RECORDS"): 3,
    (snapshot, "STEP_OFFSETS"): 1,
    (loader, "EAGER_RECORDS"): 10,
    (loader, "STEP_RECORDS"): 3,
    (group_commit, "BATCH_BYTES_MAX"): 300,
}

groups = st.sampled_from(GROUPS)


class OffsetsBesideADict(RuleBasedStateMachine):
    """`sure` is what must be there; `asked` has no answer yet. `doubtful` was refused, and the disk
    has not taken the cut of it yet: power that goes now may leave its bytes."""

    @initialize(
        durability=st.sampled_from(["fsync", "os"]),
        segment_bytes=st.sampled_from([400, 1_500, 6_000]),
        cache_offsets=st.sampled_from([0, 1, 5]),
        delete_retention_ms=st.sampled_from([0, 24 * 3600 * 1000]),
    )
    def begin(
        self,
        durability: Durability,
        segment_bytes: int,
        cache_offsets: int,
        delete_retention_ms: int,
    ) -> None:
        self.patch = pytest.MonkeyPatch()
        for (module, name), value in SMALL.items():
            self.patch.setattr(module, name, value)
        self.durability = durability
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=200)
        self.cache_offsets = cache_offsets
        terms = TERMS._replace(delete_retention_ms=delete_retention_ms, segment_bytes=segment_bytes)
        self.files = FaultyFiles()
        self.now_ms = 1_700_000_000_000
        self.serial = 0
        self.sure: State = {}
        self.asked: list[Asked] = []
        self.doubtful: list[Asked] = []
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
            self.durability,
            self.files,
            log_config=self.config,
            cache_offsets=self.cache_offsets,
        )
        self.harness.clock.ms = self.now_ms

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Until power goes; then the broker starts anew."""
        try:
            yield
            self.take_answers()
        except Crashed:
            self.take_answers()
            self.after_death(power_went=self.durability == "fsync", seed=self.serial)

    # --- what is asked

    def ask(self, command: Any) -> str:
        self.serial += 1
        name = f"{type(command).__name__} {self.serial}"
        self.harness.submit(name, command)
        return name

    def take_answers(self) -> None:
        answers = self.harness.results
        left = []
        for asked in self.asked:
            if asked.name not in answers:
                left.append(asked)
                continue
            assert not left, f"{asked.name} was answered before {left[0].name}"
            error = error_of(answers[asked.name])
            if error is ErrorCode.none:
                self.sure = asked.after(self.sure)
            elif error is not ErrorCode.group_id_not_found:
                assert error in LOST_FOR_NOW, error
                self.doubtful.append(asked)
        self.asked = left
        log = self.harness.partition._log
        if log is None or log.failed is None:
            self.doubtful = []

    @rule(
        group_id=groups,
        partitions=st.sets(st.integers(0, PARTITIONS - 1), min_size=1),
        size=st.integers(0, 300),
    )
    def commit(self, group_id: str, partitions: set[int], size: int) -> None:
        with self.alive():
            offset = self.serial + 1
            text = f"at {offset} {'x' * size}"
            offsets = [("t", each, offset) for each in partitions]
            name = self.ask(offset_commit(group_id, offsets, metadata=text))
            committed = Committed(offset, self.now_ms)
            self.note(Asked(name, group_id, tuple(partitions), committed))

    @rule(group_id=groups, count=st.integers(5, 15))
    def commit_often(self, group_id: str, count: int) -> None:
        for _ in range(count):
            self.commit(group_id, {0}, 0)
            self.go_on("all")

    @rule(group_id=groups)
    def delete(self, group_id: str) -> None:
        with self.alive():
            name = self.ask(DeleteGroup(group_id))
            self.note(Asked(name, group_id, (), Committed(-1, 0)))

    def note(self, asked: Asked) -> None:
        answer = self.harness.results.get(asked.name)
        if answer is None:
            self.asked.append(asked)
        else:  # refused by a partition that is not there now: never written
            assert error_of(answer) in LOST_FOR_NOW | {ErrorCode.group_id_not_found}

    @rule(group_id=groups)
    def fetch(self, group_id: str) -> None:
        with self.alive():
            found = self.fetched(group_id)
            self.take_answers()
            if found is not None:
                self.compare({group_id: found}, [self.sure])

    def fetched(self, group_id: str) -> dict[int, int] | None:
        """partition -> offset; None if the partition is not there now."""
        name = self.ask(OffsetFetch(group_id, None, False, None, -1))
        self.harness.run_loop()
        answer = self.harness.results[name]
        if answer.error is not ErrorCode.none:
            assert answer.error in LOST_FOR_NOW
            return None
        return {
            each.partition: each.offset
            for topic, partitions in answer.topics
            for each in partitions
            if topic == "t"
        }

    def compare(self, found: dict[str, dict[int, int]], states: list[State]) -> None:
        as_found = matching(found, states, lambda at_ms: self.now_ms - at_ms >= RETENTION_MS)
        assert as_found is not None, f"found {found}\nnot as any of {states}"
        self.sure = as_found

    # --- what goes on meanwhile

    @rule(steps=st.sampled_from(["all", "d", "dd", "s", "ds", "dddss"]))
    def go_on(self, steps: str) -> None:
        """With all there is to do, or only some of it: what is due, slices of longer work."""
        with self.alive():
            if steps == "all":
                self.harness.run_loop()
            for step in steps:
                if step == "d" and self.harness.due:
                    self.harness.due.pop(0)()
                if step == "s":
                    self.harness.run_slice()

    @rule(ms=st.sampled_from([1, RETRY_FAILED_MS, snapshots.EVERY_MS, SWEEP_MS]))
    def time_goes_by(self, ms: int) -> None:
        self.now_ms += ms
        with self.alive():
            self.harness.timers.advance(ms)

    @rule()
    def a_snapshot_is_written(self) -> None:
        self.a_snapshot_is_begun()
        self.go_on("all")

    def a_snapshot_is_begun(self) -> None:
        self.commit_often("g0", SMALL[snapshots, "EVERY_RECORDS"])
        self.time_goes_by(snapshots.EVERY_MS)

    @rule()
    def offsets_expire(self) -> None:
        for _ in range(2):
            self.now_ms += RETENTION_MS
            with self.alive():
                self.harness.timers.advance(RETENTION_MS)
                self.harness.run_loop()

    @rule(steps=st.sampled_from([1, 3, 10, 30, 1000]))
    def compact(self, steps: int) -> None:
        with self.alive():
            log = self.harness.partition._log
            if log is not None:
                self.compaction.go_on(log, steps, self.now_ms)

    @rule()
    def compact_twice(self) -> None:
        """What is closed by then: the first run gives tombstones their horizon, the second takes
        them away."""
        self.commit_often("g0", 6)
        for _ in range(2):
            self.now_ms += 1
            with self.alive():
                self.harness.timers.advance(1)
            self.compact(1000)

    @precondition(lambda self: not self.is_faulty)
    @rule(
        operation=st.sampled_from(OPERATIONS),
        after=st.integers(0, 3),
        written=st.sampled_from([0, 30, 100, 100_000]),
        times=st.integers(1, 3),
    )
    def disk_will_fail(self, operation: str, after: int, written: int, times: int) -> None:
        self.is_faulty = True
        self.files.fail(operation, after=after, written=written, times=times)

    @precondition(lambda self: self.is_faulty)
    @rule()
    def disk_is_mended(self) -> None:
        """Then everybody is served again, at the second request that comes after a second."""
        self.is_faulty = False
        with self.alive():
            self.files.heal()
            self.harness.run_loop()
            self.take_answers()
            self.read_all()

    # --- what ends a broker

    @rule(how=st.sampled_from(["stop", "kill", "power", "soon"]), seed=st.integers(0, 1000))
    def end(self, how: str, seed: int) -> None:
        """By a signal, by SIGKILL, by the loss of power; or in the middle of whatever changes the
        disk next."""
        if how == "stop":
            with self.alive():
                self.harness.run_loop()
                self.take_answers()
                self.harness.runtime.close()
                self.harness.partition.log.close()
                self.start()
                self.read_all()
        elif how == "soon":
            self.files.crash_at = self.files.count + seed % 12
        else:
            self.after_death(power_went=how == "power" and self.durability == "fsync", seed=seed)

    def after_death(self, *, power_went: bool, seed: int) -> None:
        if power_went:
            self.files.crash(random.Random(seed) if seed % 4 else None)
        states = [self.sure]
        for asked in [*self.doubtful, *self.asked]:
            states.append(asked.after(states[-1]))
        self.asked, self.doubtful = [], []
        self.start()
        self.read_all(states)

    def read_all(self, states: list[State] | None = None) -> None:
        found: dict[str, dict[int, int]] = {}
        for group_id in GROUPS:
            offsets = self.fetched(group_id)
            for _ in range(3):
                if offsets is None:
                    self.now_ms += RETRY_FAILED_MS
                    self.harness.timers.advance(RETRY_FAILED_MS)
                    offsets = self.fetched(group_id)
            assert offsets is not None, f"{group_id} cannot be read from a sound disk"
            found[group_id] = offsets
        self.compare(found, [self.sure] if states is None else states)


def error_of(answer: Any) -> ErrorCode:
    errors = set(getattr(answer, "errors", ())) or {answer.error}
    assert len(errors) == 1, errors
    return ErrorCode(errors.pop())
