"""The broker's in-memory disk: a test can fill it, make it fail, tear writes, and cut the power.

The broker reacts as in production, because it runs the same code as on a real disk (docs/disks.md).
"""

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from ...broker.broker import MEMORY_FOLDER
from ...log.write_ahead import PREFIX
from ...suggestions import SuggestsAttributes, did_you_mean
from ...topics.names import OFFSETS_TOPIC
from ..lifecycle import BrokerHost
from ..loop_thread import TIMEOUT_SECONDS, count_times, timed_out
from .files import FaultyFiles, FileFault

OPERATIONS = (
    "append",
    "create",
    "make_folder",
    "open",
    "remove",
    "remove_folder",
    "rename",
    "replace",
    "sync",
    "sync_folder",
    "truncate",
)
# The write-ahead log, to which all groups are written.
_GROUPS = Path(PREFIX)
_NEED_SPACE = ("append", "create", "make_folder", "replace")


class DiskFault:
    """A disk fault, as returned by the methods of `kafka.disk`."""

    def __init__(
        self,
        host: BrokerHost,
        disk: "Disk",
        description: str,
        faults: Sequence[FileFault],
        times: int | None,
    ) -> None:
        self.description = description
        self.times = times
        self.faults = faults
        self._host = host
        self._disk = disk
        self._since = disk.files.count

    @property
    def fired(self) -> int:
        """The number of calls to which the fault was applied."""
        return sum(fault.fired for fault in self.faults)

    @property
    def is_unused(self) -> bool:
        """Whether the fault has fired fewer than `times` times or, if `times` is None, has not
        fired at all."""
        return self.fired < (self.times or 1)

    def cancel(self) -> None:
        """Remove the fault without failing the test."""
        self._host.call(self.remove)

    def wait(self, times: int = 1, timeout: float = TIMEOUT_SECONDS) -> "DiskFault":
        """Wait until the fault has fired this many times. Raises BarrierTimeout."""
        if not self._host.wait_until(lambda: self.fired >= times, timeout):
            what = f"a disk fault to fire {count_times(times)}"
            raise timed_out(timeout, what, self.report())
        return self

    def report(self) -> str:
        """Describe the fault, and the disk operations since it was set."""
        times = "" if self.times in (None, 1) else f" of {self.times} times"
        calls = self._disk.calls_since(self._since)
        counts = Counter(f"{operation} {path}" for operation, path in calls)
        counted = ", ".join(f"{count} × {call}" for call, count in counts.most_common(5))
        return (
            f"disk: {self.description}, fired {self.fired}{times}\n"
            f"    disk operations since it was set: {counted or 'none'}"
        )

    # --- on the broker's loop

    @property
    def is_healed(self) -> bool:
        return not any(each in self._disk.files.faults for each in self.faults)

    def remove(self) -> None:
        self._disk.remove(self)


class Disk(SuggestsAttributes):
    """`kafka.disk`: disk faults. As with all faults (`kafka.faults`), the test fails if a disk
    fault fires fewer than `times` times. `topic` and `partition` restrict a fault to the files of
    that topic or partition. Group data is in `__consumer_offsets`."""

    _type = DiskFault

    def __init__(self, host: BrokerHost) -> None:
        self._host = host
        self._set: list[DiskFault] = []

    @property
    def files(self) -> FaultyFiles:
        """The files, for tests that modify bytes. Use them on the broker's loop (`kafka.call`)."""
        return self._host.files

    @property
    def operations(self) -> list[tuple[str, str]]:
        """The last 100,000 calls of operations that change the disk, in order, including calls that
        failed, such as (`append`, `orders-0/000….log`)."""
        return self._host.call(self.calls_since)

    @property
    def all(self) -> list[DiskFault]:
        """All disk faults that were set and not cancelled, even if healed."""
        return list(self._set)

    def fill(self, *, topic: str | None = None, partition: int | None = None) -> DiskFault:
        """Let all operations that need space fail with ENOSPC until `heal`."""
        faults = [
            FileFault(operation, 0, errno.ENOSPC, 0, None, _path_filter(topic, partition))
            for operation in _NEED_SPACE
        ]
        return self._add(f"full{_of(topic, partition)}", faults, None)

    def fail(
        self,
        operation: str,
        *,
        error: str = "EIO",
        times: int | None = 1,
        after: int = 0,
        written: int = 0,
        topic: str | None = None,
        partition: int | None = None,
    ) -> DiskFault:
        """Let `after` calls of an operation succeed, and fail the next `times` calls (None: all
        until `heal`). `error` is an errno name, such as `ENOSPC`. A failing append leaves `written`
        bytes on the disk. The operations are append, create, make_folder, open, remove,
        remove_folder, rename, replace, sync, sync_folder and truncate."""
        if operation not in OPERATIONS:
            raise ValueError(
                f"Unknown operation {operation!r}{did_you_mean(operation, OPERATIONS)}"
            )
        names = errno.errorcode.values()
        if error not in names:
            raise ValueError(f"errno has no {error!r}{did_you_mean(error.upper(), names)}")
        if times is not None and times < 1:
            raise ValueError(f"times must be at least 1, not {times}")
        if operation == "sync":
            self._check_synced()
        number = getattr(errno, error)
        fault = FileFault(operation, after, number, written, times, _path_filter(topic, partition))
        reason = f"{error}: {os.strerror(number)}"
        return self._add(f"{operation}{_of(topic, partition)} fails with {reason}", [fault], times)

    def tear(
        self, *, written: int | None = None, topic: str | None = None, partition: int | None = None
    ) -> DiskFault:
        """Tear the next write: only `written` of its bytes (None: half of them) reach the disk.
        Then all operations fail, including the truncation of the partial write, until `heal` or a
        crash of the broker (`kafka.crash`)."""
        matches = _path_filter(topic, partition)
        fault = FileFault("append", 0, errno.EIO, written, 1, matches, breaks_disk=True)
        return self._add(f"torn write{_of(topic, partition)}", [fault], 1)

    def slow_sync(
        self,
        *,
        seconds: float = 0,
        ms: int = 0,
        times: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> DiskFault:
        """Delay the next `times` syncs of files (None: all until `heal`) by this much wall-clock
        time."""
        self._check_synced()
        delay_s = seconds + ms / 1000
        if delay_s <= 0:
            raise ValueError("slow_sync needs a positive duration: seconds=… or ms=…")
        matches = _path_filter(topic, partition)
        fault = FileFault("sync", times=times, matches=matches, delay_s=delay_s)
        text = f"sync{_of(topic, partition)} takes {round(delay_s * 1000)} ms longer"
        return self._add(text, [fault], times)

    def _check_synced(self) -> None:
        if self._host.broker.durability == "none":
            raise ValueError(
                "With durability none, no record is synced: use Kafka(durability='fsync') and, to "
                "sync the records of a topic as well, its config flush.messages=1"
            )

    def heal(self) -> None:
        """Remove all faults. Faults that have not fired still fail the test."""
        self._host.call(lambda: self.files.heal())

    def power_cut(self, *, seed: int | None = None) -> None:
        """Call `kafka.crash(power=True)`, which loses unsynced data (with a seed, some of it)."""
        self._host.crash(power=True, seed=seed)

    def lose(self, topic: str, partition: int | None = None) -> None:
        """Remove the folders of these partitions from the disk while the broker runs. The broker
        finds them missing at its next start. Raises LookupError if no such folder exists."""

        def lose() -> list[Path]:
            matches = _path_filter(topic, partition)
            folders = [each for each in self.files.folders if matches(each)]
            with self.files.without_faults():
                for folder in folders:
                    self.files.remove_folder(folder)
                    self.files.sync_folder(folder.parent)
            return folders

        if not self._host.call(lose):
            raise LookupError(f"The disk has no folder{_of(topic, partition)}")

    # --- on the broker's loop

    @property
    def fails_groups(self) -> bool:
        """Whether group writes fail until the test heals the disk."""
        return self.files.is_broken or any(
            each.times is None and each.fired and not each.delay_s and each.matches(_GROUPS)
            for each in self.files.faults
        )

    def remove(self, fault: DiskFault) -> None:
        self.files.faults = [each for each in self.files.faults if each not in fault.faults]
        if any(each.breaks_disk and each.fired for each in fault.faults):
            self.files.is_broken = False
        self._set = [each for each in self._set if each is not fault]

    def calls_since(self, count: int = 0) -> list[tuple[str, str]]:
        """Return `operations` without the first `count`."""
        calls = list(self.files.calls)
        dropped = self.files.count - len(calls)
        return [
            (operation, str(path.relative_to(MEMORY_FOLDER)))
            for operation, path in calls[max(0, count - dropped) :]
            if path.is_relative_to(MEMORY_FOLDER)
        ]

    def _add(self, description: str, faults: Sequence[FileFault], times: int | None) -> DiskFault:
        def add() -> DiskFault:
            fault = self._type(self._host, self, description, faults, times)
            self.files.faults += faults
            self._set.append(fault)
            return fault

        return self._host.call(add)


def _path_filter(topic: str | None, partition: int | None) -> Callable[[Path], bool]:
    """Return a predicate for paths: the folders of these partitions, and the files in them. The
    write-ahead log belongs to all partitions of __consumer_offsets."""
    if topic is None and partition is not None:
        raise ValueError("partition needs a topic")

    def is_of(name: str) -> bool:
        if name.startswith(PREFIX):
            return topic == OFFSETS_TOPIC
        found, _, index = name.rpartition("-")
        return found == topic and index.isdigit() and partition in (None, int(index))

    return lambda path: topic is None or is_of(path.name) or is_of(path.parent.name)


def _of(topic: str | None, partition: int | None) -> str:
    if topic is None:
        return ""
    return f" of {topic}" if partition is None else f" of {topic}-{partition}"
