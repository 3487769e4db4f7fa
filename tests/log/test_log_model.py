"""A log compared with a list: appends, syncs, truncations, failures, restarts, power losses."""

import random
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kohort.log.batch import split
from kohort.log.errors import LogFailed
from kohort.log.log import Log, LogConfig
from kohort.testing.faults.files import FaultyFiles
from support.log import NOW_MS, batch, headers, max_timestamp, stored

FOLDER = Path("/data/orders-0")


class LogModel(RuleBasedStateMachine):
    """`made`: the batches that the log must contain; the first `safe` of these are durable."""

    @initialize(segment_bytes=st.integers(100, 2000), interval=st.sampled_from([1, 150, 4096]))
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval)
        self.files = FaultyFiles()
        self.made: list[bytes] = []
        self.safe = 0
        self.serial = 0
        self.open()

    def open(self) -> None:
        self.log = Log.open(FOLDER, self.files, self.config)

    def next_batch(self, count: int) -> bytes:
        self.serial += 1
        at_ms = NOW_MS + self.log.end_offset
        return batch(self.log.end_offset, count, text=f"batch {self.serial}", at_ms=at_ms)

    @rule(count=st.integers(1, 12))
    def append(self, count: int) -> None:
        made = self.next_batch(count)
        self.log.append(made)
        self.made.append(made)

    @rule(count=st.integers(1, 12), written=st.integers(0, 300), truncate_fails=st.booleans())
    def append_fails(self, count: int, written: int, truncate_fails: bool) -> None:
        self.files.fail("append", written=written)
        if truncate_fails:
            self.files.fail("truncate")
        with pytest.raises(OSError, match="Input/output error"):
            self.log.append(self.next_batch(count))
        self.files.heal()
        if self.log.failed:
            self.after_failure()

    @rule()
    def sync(self) -> None:
        self.log.sync()
        assert self.log.synced_offset == self.log.end_offset
        self.safe = len(self.made)

    @rule(operation=st.sampled_from(["sync", "sync_folder"]))
    def sync_fails(self, operation: str) -> None:
        self.files.fail(operation)
        try:
            self.log.sync()
        except OSError:
            self.after_failure()
        else:
            self.safe = len(self.made)
        self.files.heal()

    def after_failure(self) -> None:
        with pytest.raises(LogFailed):
            self.log.append(self.next_batch(1))
        synced_offset = self.log.synced_offset
        self.log.reopen()
        assert self.log.end_offset == synced_offset
        self.accept(stored(self.log))

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.log.end_offset))
        kept = sum(header.last_offset < offset for header in headers(self.log))
        self.log.truncate_to(offset)
        del self.made[kept:]
        self.safe = min(self.safe, kept)

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.open()
        self.safe = len(self.made)

    @rule(seed=st.none() | st.integers(0, 2**32))
    def power_loss(self, seed: int | None) -> None:
        self.files.crash(None if seed is None else random.Random(seed))
        self.open()
        self.accept(stored(self.log))

    def accept(self, kept: list[bytes]) -> None:
        assert kept == self.made[: len(kept)]
        assert len(kept) >= self.safe
        self.made = kept
        self.safe = len(kept)

    @precondition(lambda self: self.made)
    @rule(data=st.data(), max_bytes=st.integers(0, 3000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(0, self.log.end_offset - 1))
        found = self.log.read(offset, max_bytes)
        first = next(n for n, h in enumerate(headers(self.log)) if h.last_offset >= offset)
        count = sum(1 for _ in split(found))
        assert found == b"".join(self.made[first : first + count])
        assert count == 1 or 0 < len(found) <= max_bytes

    @invariant()
    def equals_the_list(self) -> None:
        assert stored(self.log) == self.made
        offset = sum(header.count for header in headers(self.log))
        assert self.log.end_offset == offset
        if self.made:
            assert max_timestamp(self.log) == (offset - 1, NOW_MS + offset - 1)


LogModel.TestCase.settings = settings(stateful_step_count=25)
TestLogModel = LogModel.TestCase
