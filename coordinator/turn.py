"""One call of the coordinator: what it may look at, and what it has decided so far."""

from collections.abc import Callable
from typing import Final, TypeAlias

from ..offsets.records import GroupMetadataRecord, OffsetsRecord
from ..offsets.table import OffsetsTable
from .config import GroupConfig
from .deadline_keys import DeadlineKey, GroupDeadlines
from .foreign import Foreign
from .group import Group
from .results import Result
from .states import State
from .storing import metadata_of, newborn
from .voice import EventType, Voice

# Plain tuples, as one of each is made for every request.
Reply: TypeAlias = tuple[int, Result]
"""A ticket, and what its command came to."""

Outcome: TypeAlias = tuple[tuple[OffsetsRecord, ...], tuple[Reply, ...]]
"""What was decided: records to append and apply first, then replies to give."""

NOTHING: Final[Outcome] = ((), ())

# Where a microsecond counts: a NamedTuple's own __new__ is a Python function, this one is not.
make: Final = tuple.__new__


def outcome_of(ticket: int, result: Result, records: tuple[OffsetsRecord, ...] = ()) -> Outcome:
    """The outcome that answers just this ticket."""
    return records, ((ticket, result),)


class Shard:
    """All that one offsets partition's coordinator knows."""

    __slots__ = ("config", "deadlines", "foreign", "groups", "new_member_id", "table", "voice")

    def __init__(
        self,
        config: GroupConfig,
        new_member_id: Callable[[], str],
        table: OffsetsTable,
        voice: Voice,
    ) -> None:
        self.config = config
        self.new_member_id = new_member_id
        self.table = table
        self.voice = voice
        self.deadlines = GroupDeadlines()
        self.foreign = Foreign()
        # A group that is nothing but its offsets is not in here: 100,000 of those are common, and
        # the table knows of them. See find().
        self.groups: dict[str, Group] = {}

    def find(self, group_id: str, now: int) -> Group | None:
        """The group, if it exists. One that so far only had offsets gets its object now."""
        group = self.groups.get(group_id)
        if group is None and self.table.has(group_id):
            group = self.new_group(group_id, now)
        return group

    def new_group(self, group_id: str, now: int) -> Group:
        group = self.groups[group_id] = Group(group_id, now, self.voice)
        return group


class Turn:
    """Gathers records and replies while one command, or one deadline, is decided."""

    __slots__ = ("_records", "_replies", "config", "deadlines", "now", "shard", "voice")

    def __init__(self, shard: Shard, now: int) -> None:
        self.shard = shard
        self.config = shard.config
        self.deadlines = shard.deadlines
        self.voice = shard.voice
        self.now = now
        self._records: list[OffsetsRecord] = []
        self._replies: list[Reply] = []

    def answer(self, ticket: int, result: Result) -> None:
        self._replies.append((ticket, result))

    def propose(self, group: Group, assignments: dict[str, bytes] | None = None) -> None:
        """Write the group as it is, with `assignments` instead of those it has."""
        group.proposed = metadata_of(group, assignments)
        self._records.append(GroupMetadataRecord(group.group_id, group.proposed))

    def propose_newborn(self, group: Group) -> None:
        """Write that the group exists, and leave the round that it may have begun alone."""
        group.proposed = newborn(group)
        self._records.append(GroupMetadataRecord(group.group_id, group.proposed))

    def move(self, group: Group, state: State) -> None:
        before = group.state
        group.transition(state, self.now)
        self.voice.tell(EventType.STATE_CHANGE, group, state_from=before, state_to=state)

    def arm(self, timer: DeadlineKey, delay_ms: int) -> None:
        self.deadlines.set(timer, self.now + delay_ms)

    def outcome(self) -> Outcome:
        if not self._records and not self._replies:
            return NOTHING
        return tuple(self._records), tuple(self._replies)
