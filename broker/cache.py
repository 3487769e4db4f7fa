"""How many offsets may be in memory: all, or so many of all partitions together."""

import logging
from collections.abc import Callable

from ..log.files import File
from ..offsets.table import OffsetsTable

_log = logging.getLogger("kohort.coordinator")

# Memory is looked at whenever it may have grown by this part of what is allowed; then as much more
# goes as was too much, so that not every commit is somebody's eviction.
STEP = 0.01


class Cache:
    """`offsets_max` 0: no bound. Groups that go stand in files, and come back when asked for."""

    def __init__(self, offsets_max: int) -> None:
        self._offsets_max = offsets_max
        self._step = max(1, int(offsets_max * STEP))
        self._grown = 0
        self._tables: dict[OffsetsTable, Callable[[], File]] = {}

    def new_table(self, new_spill: Callable[[], File]) -> OffsetsTable:
        """`new_spill` makes the file for groups that stand nowhere else. It may raise OSError."""
        if not self._offsets_max:
            return OffsetsTable()
        table = OffsetsTable(self._has_grown)
        self._tables[table] = new_spill
        return table

    def _has_grown(self, offsets: int) -> None:
        self._grown += offsets
        if self._grown >= self._step:
            self._grown = 0
            self._make_room()

    def _make_room(self) -> None:
        self._tables = {t: spill for t, spill in self._tables.items() if not t.is_closed}
        excess = sum(table.in_memory for table in self._tables) + self._step - self._offsets_max
        while excess > 0:
            table = max(self._tables, key=lambda each: each.in_memory)
            before = table.in_memory
            try:
                table.evict(min(excess, max(1, before // 2)), self._tables[table])
            except OSError as error:
                _log.warning("More offsets than allowed stay in memory: %s", error)
                return
            if table.in_memory == before:
                return  # one group that is larger than all that is allowed
            excess -= before - table.in_memory
