"""The puppets of one broker. On its loop, but for `add` and `close`."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Final, Literal

from ...assignors.finding import find
from ...broker.groups.voice import Event, EventType
from ..clock import turns
from .asking import Identity
from .consumer import Consumer
from .member import Member
from .role import Role
from .worker import Worker

if TYPE_CHECKING:
    from ..kafka import Kafka

# What a member would notice with its next heartbeat: the whole group, …
_FOR_ALL: Final = {EventType.REBALANCE_STARTED, EventType.GROUP_LOADED, EventType.GROUP_DELETED}
# … or the one whom it is about.
_FOR_ONE: Final = {
    EventType.LEAVE_RECEIVED,
    EventType.MEMBER_EXPIRED,
    EventType.MEMBER_NEVER_SYNCED,
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
        self._find = cache(find)

    def add(
        self,
        group: str,
        topics: Iterable[str] = (),
        *,
        assignor: str | Iterable[str] = "range",
        client_id: str | None = None,
        instance_id: str | None = None,
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
        protocol_type: Literal["consumer", "connect"] = "consumer",
        connectors: Mapping[str, int] | None = None,
    ) -> Member:
        """It joins at once, in its own time: wait for what it owns, or for the group.

        `assignor`: one, or several in the order of preference, by the names that
        kohort.assignors.finding knows. Timeouts are those of Java's consumer (session.timeout.ms,
        max.poll.interval.ms); a heartbeat goes out three times in a session, and each is a stop of
        a clock that is advanced: where that goes by days, let sessions be long. `connectors`, for
        protocol_type `connect`: the number of tasks of each. Raises AssignorNotFound, and
        ValueError for what does not go together."""
        client_id = client_id or f"puppet-{next(self._numbers)}"
        self.client_ids.add(client_id)
        role: Role
        if protocol_type == "consumer":
            if connectors is not None:
                raise ValueError('connectors are for protocol_type="connect"')
            names = [assignor] if isinstance(assignor, str) else list(assignor)
            role = Consumer([self._find(name) for name in names], _listed(topics))
        elif protocol_type == "connect":
            if connectors is None or list(topics):
                raise ValueError("a Connect worker has connectors={name: tasks}, and no topics")
            role = Worker(connectors, f"http://{client_id}:8083/")
        else:
            raise ValueError(f"a puppet is a consumer or a connect worker, no {protocol_type}")
        identity = Identity(group, client_id, instance_id, session_timeout_ms, rebalance_timeout_ms)
        kafka = self._kafka
        member = Member(lambda: kafka.broker, identity, role, kafka.changes.tell)
        # Not waited for: a hundred that are made in a row shall come to the same few rounds.
        kafka.soon(lambda: self._live(member))
        return member

    def close(self) -> None:
        """All of them are gone; nobody leaves a group for that."""

        def close() -> None:
            for each in self._members:
                each.vanish()

        self._kafka.ask(lambda _broker: close())

    # --- on the broker's loop

    def hear(self, event: Event) -> None:
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
        steps = -1
        while steps != self._steps:
            steps = self._steps
            # A request is answered by the next turn but one, and its answer heard in another.
            await turns(4)

    @property
    def _steps(self) -> int:
        return sum(each.steps for each in self._members)

    def _live(self, member: Member) -> None:
        self._members.append(member)
        member.live()


def _listed(topics: Iterable[str]) -> list[str]:
    if isinstance(topics, str):
        raise TypeError(f'topics is a list of names: ["{topics}"]')
    return list(topics)
