"""What was done to a group, and so why each of its generations came about.

Nothing here looks at a reason that the broker gives: a cause is written down by who brings it about
(a crash by who kills, a join by the client that sends it), and falls to the first generation in
which its effect is there: the member is gone, the newcomer is in, the request was heard.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kohort.offsets.causes import Cause

Place = tuple[str, str]
"""Host and client id: where a process runs, and as what."""


class Gone(NamedTuple):
    """A member that has ended, or will be put out: `causes`, any of which is true of it."""

    member_id: str
    place: Place
    causes: frozenset[Cause]
    if_back: frozenset[Cause]  # … where another process of its place is in the same generation


class Generation(NamedTuple):
    causes: frozenset[Cause]
    is_empty: bool


class Ledger:
    """Of one group."""

    def __init__(self) -> None:
        self.generations: dict[tuple[int, int], Generation] = {}
        """By life of the group (0 until it was forgotten for the first time) and number."""
        self.replaced: set[tuple[int, int]] = set()
        """Life and generation of each record that says a static member took its old one's place."""
        self.ends: list[Cause] = []
        """Why the group was forgotten, each time that it was."""
        self._gone: list[Gone] = []
        self._came: list[Place] = []
        self._asked: set[Cause] = set()
        # What opens a round, and may leave no trace: counts where there is no other cause.
        self._in_vain: Cause | None = None
        self._members: frozenset[str] = frozenset()
        self._protocol: str | None = None

    @property
    def owes(self) -> str | None:
        """What was done and has had no effect yet."""
        owed = [*self._gone, *self._came, *self._asked]
        return repr(owed) if owed else None

    def gone(
        self,
        member_id: str,
        place: Place,
        causes: Iterable[Cause],
        if_back: Iterable[Cause] | None = None,
    ) -> None:
        """The first that is said of a member counts."""
        if member_id and all(each.member_id != member_id for each in self._gone):
            causes = frozenset(causes)
            back = causes if if_back is None else frozenset(if_back)
            self._gone.append(Gone(member_id, place, causes, back))

    def stays(self, member_id: str) -> None:
        """It was thought to be put out, and was not."""
        self._gone = [each for each in self._gone if each.member_id != member_id]

    def came(self, place: Place) -> None:
        """A process asks to be a member."""
        if place not in self._came:
            self._came.append(place)

    def gave_up(self, place: Place) -> None:
        """It ended before it was a member."""
        if place in self._came:
            self._came.remove(place)
            self._in_vain = Cause.MEMBER_JOINED

    def asked(self, *causes: Cause) -> None:
        """A member that is in it has asked for a rebalance: any of these is true of it."""
        self._asked.update(causes)

    def unasked(self, *causes: Cause) -> None:
        """It was given what it had already."""
        self._asked.difference_update(causes)

    def took_place(self, generation: int, old_id: str, new_id: str, place: Place) -> None:
        """A static member's successor was let in. If that brings a rebalance about, it is known
        once it is over."""
        self.replaced.add((len(self.ends), generation))
        self._members = self._members - {old_id} | {new_id}
        self._gone = [each for each in self._gone if each.member_id != old_id]
        self._came = [each for each in self._came if each != place]
        self._in_vain = Cause.STATIC_REPLACED

    def ended(self, cause: Cause) -> None:
        """The group was forgotten."""
        self.ends.append(cause)
        self._members = frozenset()

    def completed(
        self, generation: int, protocol: str | None, members: Iterable[tuple[str, Place]]
    ) -> None:
        """The round closed, with these in it."""
        places = dict(members)
        new = {place for member_id, place in places.items() if member_id not in self._members}
        causes, back = set[Cause](), set[Place]()
        for each in [each for each in self._gone if each.member_id not in places]:
            self._gone.remove(each)
            if each.member_id in self._members:
                causes |= each.if_back if each.place in new else each.causes
                back.add(each.place)
            else:  # it opened the round, and did not see its end
                causes.add(Cause.MEMBER_JOINED)
                self._came = [place for place in self._came if place != each.place]
        if (new & set(self._came)) - back:
            causes.add(Cause.MEMBER_JOINED)
        self._came = [place for place in self._came if place not in new]
        causes |= self._asked
        if protocol and self._protocol and protocol != self._protocol:
            causes.add(Cause.PROTOCOL_CHANGED)
        self._protocol = protocol
        if self._in_vain is not None and not causes:
            causes.add(self._in_vain)
        self._asked.clear()
        self._in_vain = None
        if not places:
            causes = {Cause.GROUP_EMPTIED}
        self.generations[len(self.ends), generation] = Generation(frozenset(causes), not places)
        self._members = frozenset(places)
