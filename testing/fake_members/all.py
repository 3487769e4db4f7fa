"""The puppets of one broker. On its loop, but for `named`, `add` and `close`."""

from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Final

from ...assignors.resolve import resolve
from ...coordinator.outcome import EventType, GroupEvent
from ..clock import turns
from .asking import Identity
from .member import Member
from .role import Role

if TYPE_CHECKING:
    from ..kafka import Kafka

# What a member would notice with its next heartbeat: the whole group, …
_FOR_ALL: Final = {EventType.REBALANCE_STARTED, EventType.GROUP_LOADED, EventType.GROUP_DELETED}
# … or the one whom it is about.
_FOR_ONE: Final = {
    EventType.LEAVE_RECEIVED,
    EventType.MEMBER_EXPIRED,
    EventType.MEMBER_SYNC_TIMED_OUT,
    EventType.MEMBER_REPLACED,
}


class Puppets:
    def __init__(self, kafka: "Kafka") -> None:
        self._kafka = kafka
        self._members: list[Member] = []
        self.client_ids: set[str] = set()
        """Of all that there ever were: what they do is in a script, and no mistake."""
        self._numbers = count(1)
        # It looks through all that is installed, which takes milliseconds.
        self.find = cache(resolve)

    def named(self, client_id: str | None) -> str:
        """The client id of a new one."""
        client_id = client_id or f"puppet-{next(self._numbers)}"
        self.client_ids.add(client_id)
        return client_id

    def add(self, identity: Identity, role: Role) -> Member:
        """One that does not `live` yet."""
        kafka = self._kafka
        return Member(lambda: kafka.broker, identity, role, kafka.changes.tell)

    def close(self) -> None:
        """All of them are gone; nobody leaves a group for that."""

        def close() -> None:
            for each in self._members:
                each.vanish()

        self._kafka.ask(lambda _broker: close())

    # --- on the broker's loop

    def live(self, member: Member) -> None:
        self._members.append(member)
        member.live()

    def hear(self, event: GroupEvent) -> None:
        is_for_all = event.type in _FOR_ALL
        if is_for_all or event.type in _FOR_ONE:
            for each in self._members:
                is_concerned = is_for_all or each.member_id == event.member_id
                if is_concerned and each.identity.group_id == event.group_id:
                    each.nudge()

    def deadlines(self) -> Iterator[int]:
        """When each of them has something to do next."""
        return (each.due_ms for each in self._members if each.due_ms is not None)

    async def settled(self) -> None:
        """Until nothing of them is under way but what waits for others, or for a time."""
        while not await self.are_quiet():
            pass

    async def are_quiet(self) -> bool:
        """Whether nothing of them goes on for some turns."""
        steps = self._steps
        # A request is answered by the next turn but one, and its answer heard in another.
        await turns(4)
        return steps == self._steps

    @property
    def _steps(self) -> int:
        return sum(each.steps for each in self._members)
