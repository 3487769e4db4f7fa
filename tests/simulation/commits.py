"""What may be committed, by the word of those who asked for it: the model behind I3.

For each partition of each group the changes that were asked for, in the order of their decisions,
from the last one on that is certain. A change is certain once it was acknowledged, or once somebody
has read it: a crash must not take back what was seen.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kohort.coordinator.commands import (
    CommitResult,
    DeleteGroup,
    DeleteGroupResult,
    DeleteOffsetsResult,
    FetchResult,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from kohort.protocol.errors import ErrorCode
from simulation.violation import Violation

Key = tuple[str, str, int]  # group, topic, partition
_NONE = ErrorCode.none
# The disk failed: nothing was acknowledged, and nothing may show; but a crash before the bytes are
# cut off leaves them on the disk.
_LOST = (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)

# What is asked for by no request.
_SWEEP = "a sweep"
_TOPIC_DELETED = "the deletion of a topic"


@dataclass(slots=True, eq=False)
class Change:
    offset: int | None  # None: deleted
    asked_by: Any
    decided_ms: int = 0
    expire_ms: int | None = None  # by the retention time of its own
    is_lost: bool = False
    may_return: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it may still be done, though a log that was just read does not have it."""
        if self.asked_by is _TOPIC_DELETED:
            return not (self.is_lost and self.may_return)
        return self.asked_by is not _SWEEP and not self.may_return

    @property
    def is_readable(self) -> bool:
        return self.may_return or not self.is_lost


class Commits:
    def __init__(self) -> None:
        self._changes: dict[Key, list[Change]] = {}

    # --- what is asked, and what came of it

    def asked(self, request: Any) -> Any:
        """Note a request that is about to be decided; what it may read, for `answered`."""
        command = request.command
        if type(command) is OffsetCommit:
            own_ms, now = command.retention_time_ms, request.sent_ms
            expire_ms = None if own_ms is None else now + own_ms
            for entry, (offset,) in zip(command.entries, command.offsets, strict=True):
                change = Change(offset, request, now, expire_ms)
                self._add((command.group_id, entry.topic, entry.partition), change)
        elif type(command) is OffsetDelete:
            for topic, partitions in command.topics:
                for partition in partitions:
                    self._add((command.group_id, topic, partition), Change(None, request))
        elif type(command) is DeleteGroup:
            for key in [key for key in self._changes if key[0] == command.group_id]:
                self._add(key, Change(None, request))
        elif type(command) is OffsetFetch:
            return {
                key: [change for change in changes if change.is_readable]
                for key, changes in self._changes.items()
                if key[0] == command.group_id
            }
        return None

    def _add(self, key: Key, change: Change) -> None:
        self._changes.setdefault(key, [Change(None, None)]).append(change)

    def answered(self, request: Any, result: Any, readable: Any) -> None:
        if type(result) is FetchResult:
            if result.error is _NONE:
                self._read(request.command.group_id, result, readable)
        elif type(result) is CommitResult:
            self._settle(request, result.errors[0])
        elif type(result) is DeleteOffsetsResult:
            self._settle(request, result.error or result.errors[0])
        elif type(result) is DeleteGroupResult:
            self._settle(request, result.error)

    def _settle(self, request: Any, error: ErrorCode) -> None:
        for key, changes in self._changes.items():
            place = next((n for n, c in enumerate(changes) if c.asked_by is request), None)
            if place is None:
                continue
            if error is _NONE:
                del changes[:place]
            elif place == 0:
                raise Violation(f"I3: {key}: {changes[0].offset} was read, and then {error.name}")
            elif error in _LOST and request.ticket:
                changes[place].is_lost = True
            else:
                del changes[place]

    # --- what the broker decides by itself

    def newest(self, key: Key) -> Change:
        """What is committed, as far as it is decided."""
        return next(c for c in reversed(self._changes[key]) if not c.is_lost)

    def swept(self, keys: Iterable[Key]) -> None:
        """These have expired; a crash may still undo that."""
        for key in keys:
            self._add(key, Change(None, _SWEEP))

    def swept_for_good(self, groups: set[str]) -> None:
        """All that was decided about these groups is on the disk."""
        for key, changes in self._changes.items():
            if key[0] in groups:
                _settle_last(changes, _SWEEP)

    def topic_deleted(self, topic: str) -> Callable[[], None]:
        """What was committed for it goes, sooner or later, whatever happens meanwhile; unless what
        is returned is called."""
        asked = {key: Change(None, _TOPIC_DELETED) for key in self._changes if key[1] == topic}
        for key, change in asked.items():
            self._add(key, change)

        def it_stays() -> None:
            # Its record may be on the disk all the same, and be read after a crash.
            for change in asked.values():
                change.is_lost = True

        return it_stays

    def topic_forgotten(self, topic: str, groups: set[str]) -> None:
        for key, changes in self._changes.items():
            if key[0] in groups and key[1] == topic:
                _settle_last(changes, _TOPIC_DELETED)

    # --- what is seen

    def _read(self, group_id: str, result: FetchResult, readable: dict[Key, list[Change]]) -> None:
        seen = {
            (group_id, topic, partition.partition): partition.offset
            for topic, partitions in result.topics
            for partition in partitions
            if partition.offset >= 0
        }
        for key in {**seen, **readable}:
            change = self._match(key, seen.get(key), readable.get(key, []))
            changes = self._changes[key]
            if change in changes:
                del changes[: changes.index(change)]

    def restarted(self) -> None:
        """What nobody heard of again may be there or not."""
        for changes in self._changes.values():
            for change in changes[1:]:
                change.may_return = True

    def loaded(self, groups: set[str], found: dict[Key, int]) -> None:
        """A life of the broker shows what it has read from the log. `groups`: those it is about."""
        for key in set(found) - set(self._changes):
            raise Violation(f"I3: {key}: {found[key]} was never asked for")
        for key, changes in self._changes.items():
            if key[0] in groups:
                readable = [c for c in changes if c.is_readable]
                change = self._match(key, found.get(key), readable)
                change.is_lost = change.may_return = False
                # What the last life left open and is not there will never be.
                after = changes[changes.index(change) + 1 :]
                self._changes[key] = [change, *(c for c in after if c.is_open)]

    def _match(self, key: Key, offset: int | None, readable: list[Change]) -> Change:
        # The oldest: all offsets differ, but of two deletions only the first is sure to be done.
        for change in readable:
            if change.offset == offset:
                return change
        raise Violation(f"I3: {key} is {offset}, and may be {[c.offset for c in readable]}")

    @property
    def groups(self) -> set[str]:
        return {group_id for group_id, _, _ in self._changes}


def _settle_last(changes: list[Change], asked_by: str) -> None:
    """The last change of this origin is certain, and so all before it are past."""
    done = [n for n, c in enumerate(changes) if c.asked_by is asked_by and not c.is_lost]
    del changes[: done[-1] if done else 0]
