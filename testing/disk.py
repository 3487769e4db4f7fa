"""The disk of a test's broker, in memory: it fills up, fails, tears, and forgets what was not
synced.

What the broker answers then, and what it makes of its files afterwards, is what it does in
production: the same code stands on this disk as on a real one (docs/disks.md).
"""

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..broker.broker import MEMORY_FOLDER
from ..log.write_ahead import PREFIX
from ..topics.names import OFFSETS_TOPIC
from .asked import nearest
from .faulty_files import FaultyFiles, FileFault

if TYPE_CHECKING:
    from .kafka import Kafka

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
# What needs room.
_FILLING = ("append", "create", "make_folder", "replace")


class DiskFault:
    """One that was set, as the methods of `kafka.disk` return it."""

    def __init__(
        self, kafka: "Kafka", what: str, faults: Sequence[FileFault], times: int | None
    ) -> None:
        self._kafka = kafka
        self.what = what
        self.faults = faults
        self.times = times
        self._since = kafka.disk.files.count

    @property
    def met(self) -> int:
        """How many calls have failed by it."""
        return sum(fault.met for fault in self.faults)

    @property
    def is_unused(self) -> bool:
        """Whether fewer have than were to: `times`, or at least one."""
        return self.met < (self.times or 1)

    def cancel(self) -> None:
        """Do nothing from now on, and do not fail the test for that."""
        self._kafka.ask(lambda _broker: self._kafka.disk.forget(self))

    def tell(self) -> str:
        """What it was to do, and what the disk did meanwhile."""
        times = "" if self.times in (None, 1) else f" of {self.times} times"
        since = self._kafka.disk.done(self._since)
        counted = Counter(f"{operation} {where}" for operation, where in since)
        did = ", ".join(f"{count} × {what}" for what, count in counted.most_common(5))
        return (
            f"the disk: {self.what}, met {self.met}{times}\n"
            f"    what the disk was asked for since it was set: {did or 'nothing'}"
        )


class Disk:
    """`kafka.disk`. What is set here must be met, as every fault (`kafka.faults`).

    `topic` and `partition`: only the files of these, `__consumer_offsets` those of the groups."""

    def __init__(self, kafka: "Kafka", files: FaultyFiles) -> None:
        self._kafka = kafka
        self.files = files
        """For who bends bytes: paths and their contents. Belongs to the broker's loop."""
        self._set: list[DiskFault] = []

    @property
    def operations(self) -> list[tuple[str, str]]:
        """The calls that have changed the disk, in order: (`append`, `orders-0/000….log`); the last
        100,000 of them."""
        return self._kafka.ask(lambda _broker: self.done())

    def fill(self, *, topic: str | None = None, partition: int | None = None) -> DiskFault:
        """No room for anything more, until `heal`."""
        faults = [
            FileFault(operation, 0, errno.ENOSPC, 0, None, _place(topic, partition))
            for operation in _FILLING
        ]
        return self._add(f"full{_where(topic, partition)}", faults, None)

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
        """Let `after` calls of an operation pass and fail the next `times` (None: all until
        `heal`). `error`: its name in errno. A failing append leaves `written` bytes on the disk.

        The operations: append, create, make_folder, open, remove, remove_folder, rename, replace,
        sync, sync_folder, truncate."""
        if operation not in OPERATIONS:
            raise ValueError(f"a disk knows no {operation}{nearest(operation, OPERATIONS)}")
        names = errno.errorcode.values()
        if error not in names:
            raise ValueError(f"errno has no {error}{nearest(error.upper(), names)}")
        if times is not None and times < 1:
            raise ValueError("times counts from 1")
        if operation == "sync" and self._kafka.broker.durability == "none":
            raise ValueError("with durability none nothing is synced: Kafka(durability='fsync')")
        number = getattr(errno, error)
        fault = FileFault(operation, after, number, written, times, _place(topic, partition))
        what = f"{operation}{_where(topic, partition)} fails with {error}: {os.strerror(number)}"
        return self._add(what, [fault], times)

    def tear(
        self,
        *,
        written: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> DiskFault:
        """Let the next write be torn: `written` bytes of it reach the disk (None: half of it), and
        after that the disk takes nothing, the repair of it neither, until `heal` or the broker's
        end (`kafka.crash`)."""
        fault = FileFault(
            "append", 0, errno.EIO, written, 1, _place(topic, partition), is_last=True
        )
        return self._add(f"a write torn{_where(topic, partition)}", [fault], 1)

    def heal(self) -> None:
        """All is well again. What was set and not met fails the test all the same."""
        self._kafka.ask(lambda _broker: self.files.heal())

    def power_cut(self, *, seed: int | None = None) -> None:
        """`kafka.crash(power=True)`: what was not synced is gone; with a seed, any part of it."""
        self._kafka.crash(power=True, seed=seed)

    def lose(self, topic: str, partition: int | None = None) -> None:
        """The folders of these partitions are gone, as if somebody had removed them. A broker
        finds out at its next start. Raises LookupError where there are none."""

        def lose() -> list[Path]:
            at = _place(topic, partition)
            gone = [each for each in self.files.folders if at(each)]
            with self.files.without_faults():
                for folder in gone:
                    self.files.remove_folder(folder)
                    self.files.sync_folder(folder.parent)
            return gone

        if not self._kafka.ask(lambda _broker: lose()):
            raise LookupError(f"there is nothing{_where(topic, partition)} on the disk")

    # --- on the broker's loop

    def done(self, since: int = 0) -> list[tuple[str, str]]:
        """`operations`, without the first so many that there ever were."""
        calls = list(self.files.calls)
        forgotten = self.files.count - len(calls)
        return [
            (operation, str(path.relative_to(MEMORY_FOLDER)))
            for operation, path in calls[max(0, since - forgotten) :]
            if path.is_relative_to(MEMORY_FOLDER)
        ]

    def take_unused(self) -> list[str]:
        """Tells of each fault that was not met as often as it was to, and forgets all."""
        checked, self._set = self._set, []
        return [each.tell() for each in checked if each.is_unused]

    def forget(self, fault: DiskFault) -> None:
        self.files.faults = [each for each in self.files.faults if each not in fault.faults]
        self._set = [each for each in self._set if each is not fault]

    def _add(self, what: str, faults: Sequence[FileFault], times: int | None) -> DiskFault:
        def add() -> DiskFault:
            fault = DiskFault(self._kafka, what, faults, times)
            self.files.faults += faults
            self._set.append(fault)
            return fault

        return self._kafka.ask(lambda _broker: add())


def _place(topic: str | None, partition: int | None) -> Callable[[Path], bool]:
    """Whether a path is the folder of such a partition, or in one; what is written ahead of groups'
    partitions is each one's."""

    def is_of(name: str) -> bool:
        if name.startswith(PREFIX):
            return topic == OFFSETS_TOPIC
        found, _, index = name.rpartition("-")
        return found == topic and index.isdigit() and partition in (None, int(index))

    return lambda path: topic is None or is_of(path.name) or is_of(path.parent.name)


def _where(topic: str | None, partition: int | None) -> str:
    if topic is None:
        return ""
    return f" of {topic}" if partition is None else f" of {topic}-{partition}"
