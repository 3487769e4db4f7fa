"""What happened since the broker of this test was started, as plain data.

`kafka.history` may be read at any time and from any thread: each property is a list of its own.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..broker.groups.voice import Event, EventType
from .asked import Asked, TopicPartition

# A test that runs for minutes must not fill the memory; what is older is forgotten.
REQUESTS_MAX = 100_000
EVENTS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Heard:
    """Something that a coordinator told (docs/events.md)."""

    at_ms: int
    node_id: int
    event: Event


@dataclass(frozen=True, slots=True)
class Commit:
    """An accepted commit of one partition."""

    at_ms: int
    group: str
    member_id: str | None
    """None: by somebody who is no member."""
    client_id: str | None
    generation: int | None
    topic: str
    partition: int
    before: int | None
    """What was committed before, as far as this history knows."""
    offset: int


@dataclass(frozen=True, slots=True)
class Generation:
    """A round of a group that came to its end."""

    number: int
    at_ms: int
    cause: str
    """Why it was opened: `member joined`, `session expired`, … (offsets/causes.py)."""
    reason: str
    """The same in Kafka's words, with the client's own reason in it (KIP-800)."""
    join_ms: int
    """From the opening of the round until all had joined."""
    members: int
    leader: str | None
    protocol: str | None


class History:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._requests: deque[Asked] = deque(maxlen=REQUESTS_MAX)
        self._heard: deque[Heard] = deque(maxlen=EVENTS_MAX)

    # --- the broker's side, on its loop

    def note(self, asked: Asked) -> None:
        self._requests.append(asked)

    def hear(self, node_id: int, event: Event) -> None:
        self._heard.append(Heard(self._now_ms(), node_id, event))

    # --- a test's side

    @property
    def requests(self) -> list[Asked]:
        """In the order of their arrival."""
        return list(self._requests)

    def requests_of(
        self, api: str, *, group: str | None = None, client_id: str | None = None
    ) -> list[Asked]:
        """Those of one API by Kafka's name of it: `OffsetCommit`."""
        return [each for each in self._requests if matches(each, api, group, client_id)]

    @property
    def events(self) -> list[Heard]:
        return list(self._heard)

    def commits(self, group: str | None = None) -> list[Commit]:
        """Every accepted commit, of one group or of all."""
        return list(_commits(self.events, group))

    def generations(self, group: str) -> list[Generation]:
        """The rounds of a group, the one that left it empty with them."""
        return [
            _generation(heard)
            for heard in self.events
            if heard.event.group_id == group
            and heard.event.type in (EventType.JOIN_COMPLETED, EventType.GROUP_EMPTIED)
        ]


def matches(asked: Asked, api: str, group: str | None, client_id: str | None) -> bool:
    return (
        asked.api == api
        and (group is None or group in asked.groups)
        and (client_id is None or asked.client_id == client_id)
    )


def _commits(events: Iterable[Heard], group: str | None) -> Iterator[Commit]:
    before: dict[tuple[str, TopicPartition], int] = {}
    for heard in events:
        event = heard.event
        if event.type is not EventType.COMMIT_ACCEPTED or group not in (None, event.group_id):
            continue
        for name, offset in event.detail.items():
            topic, _, index = name.rpartition("-")
            key = event.group_id, (topic, int(index))
            yield Commit(
                heard.at_ms,
                event.group_id,
                event.member_id,
                event.client_id,
                event.generation,
                topic,
                int(index),
                before.get(key),
                int(offset),
            )
            before[key] = int(offset)


def _generation(heard: Heard) -> Generation:
    event = heard.event
    detail = event.detail
    return Generation(
        number=event.generation or 0,
        at_ms=heard.at_ms,
        cause=str(event.cause or ""),
        reason=event.reason or "",
        join_ms=event.duration_ms or 0,
        members=int(detail.get("members", 0)),
        leader=detail.get("leader"),
        protocol=detail.get("protocol"),
    )
