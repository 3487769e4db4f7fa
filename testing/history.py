"""What happened since the broker of this test was started, as plain data.

`kafka.history` may be read at any time and from any thread: each property is a list of its own.
Times are the broker's (`at_ms`), which a test can move; `wall_s` is what a stopwatch would show
that was started with the broker.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile

from ..coordinator.outcome import GroupEvent
from .asked import Asked, api_named
from .happened import (
    ClockMove,
    Commit,
    Exit,
    Generation,
    Heard,
    Mark,
    RefusedCommit,
    StateChange,
    commits_in,
    exits_in,
    generations_in,
    refused_commits_in,
    state_changes_in,
)

# A test that runs for minutes must not fill the memory; what is older is forgotten.
REQUESTS_MAX = 100_000
# Records that were produced and fetched, of the requests that are kept: some fifty full answers of
# Kafka's fetch.max.bytes would be this much, and of the oldest nothing is kept beyond.
BYTES_MAX = 256 * 1024 * 1024
EVENTS_MAX = 100_000
CLOCK_MOVES_MAX = 10_000


class History:
    """What happened since the broker was started; each property is a list of its own, and may be
    read from any thread. It outlives crashes and restarts of the broker, but for `reset`."""

    def __init__(
        self, now_ms: Callable[[], int], wall: Callable[[], float] = time.monotonic
    ) -> None:
        self._now_ms = now_ms
        self._wall = wall
        self._began = wall()
        self._hands = 0
        self._requests: deque[Asked] = deque()
        self._bytes = 0
        self._heard: deque[Heard] = deque(maxlen=EVENTS_MAX)
        self._moves: deque[ClockMove] = deque(maxlen=CLOCK_MOVES_MAX)
        self._marks: list[Mark] = []

    # --- the broker's side, on its loop

    def note(self, asked: Asked) -> None:
        asked.wall_s = self.wall_s
        self._requests.append(asked)
        self._keep(asked, asked.records_bytes)

    def note_answer(self, asked: Asked) -> None:
        asked.answered_wall_s = self.wall_s
        self._keep(asked, len(asked.answer or b""))

    def _keep(self, asked: Asked, more_bytes: int) -> None:
        """Forget the oldest requests that do not fit any more beside this one."""
        if not self._requests or asked.number < self._requests[0].number:
            return  # It is forgotten already.
        asked.kept_bytes += more_bytes
        self._bytes += more_bytes
        while len(self._requests) > REQUESTS_MAX or (
            self._bytes > BYTES_MAX and len(self._requests) > 1
        ):
            self._bytes -= self._requests.popleft().kept_bytes

    def hear(self, node_id: int, event: GroupEvent, handled: Asked | None = None) -> None:
        is_of_test = self._hands > 0
        self._heard.append(Heard(self._now_ms(), node_id, event, self.wall_s, is_of_test, handled))

    @contextmanager
    def by_test(self) -> Iterator[None]:
        """What is heard meanwhile is the test's doing."""
        self._hands += 1
        try:
            yield
        finally:
            self._hands -= 1

    def moved(self, what: str, since_ms: int, since_wall_s: float) -> None:
        """The clock was `frozen`, `resumed` or `advanced`; it began when it stood there."""
        by_ms = self._now_ms() - since_ms if what == "advanced" else 0
        self._moves.append(ClockMove(what, since_ms, by_ms, since_wall_s))

    def mark(self, what: str) -> None:
        after = self._requests[-1].number if self._requests else 0
        self._marks.append(Mark(self._now_ms(), what, after, self.wall_s))

    # --- a test's side

    @property
    def wall_s(self) -> float:
        """Seconds of wall time since the broker was made."""
        return self._wall() - self._began

    @property
    def requests(self) -> list[Asked]:
        """In the order of their arrival."""
        return list(self._requests)

    def requests_after(self, number: int) -> list[Asked]:
        """Those that came after the one of this number."""
        # In the list: the broker appends meanwhile.
        newest_first = takewhile(lambda each: each.number > number, reversed(self.requests))
        return list(newest_first)[::-1]

    def requests_of(
        self, api: str, *, group: str | None = None, client_id: str | None = None
    ) -> list[Asked]:
        """Those of one API by Kafka's name of it: `OffsetCommit`."""
        name = api_named(api)
        return [each for each in self.requests if matches(each, name, group, client_id)]

    @property
    def events(self) -> list[Heard]:
        """Everything that the coordinators told, in its order."""
        return list(self._heard)

    @property
    def clock_moves(self) -> list[ClockMove]:
        """What the test did to the broker's clock."""
        return list(self._moves)

    @property
    def groups(self) -> list[str]:
        """Every group that something happened to, in the order of their names."""
        return sorted({each.event.group_id for each in self.events})

    @property
    def marks(self) -> list[Mark]:
        """What became of the broker meanwhile: its end, its return, that of a node. All before it
        stays, and what the broker was told but did not keep does so, too."""
        return list(self._marks)

    def commits(self, group: str | None = None) -> list[Commit]:
        """Every accepted commit, of one group or of all: who, in which generation, from, to."""
        return [each for each in commits_in(self.events) if group in (None, each.group)]

    def refused_commits(self, group: str | None = None) -> list[RefusedCommit]:
        """Every commit that was answered with an error, by the coordinator or by a fault."""
        return [each for each in refused_commits_in(self.requests) if group in (None, each.group)]

    def generations(self, group: str) -> list[Generation]:
        """The rounds of a group, the one that left it empty with them: why, how long, who got
        which partitions."""
        return generations_in(self.events, self.requests, group)

    def exits(self, group: str | None = None) -> list[Exit]:
        """Every member that is out, and why."""
        return [each for each in exits_in(self.events) if group in (None, each.group)]

    def state_changes(self, group: str | None = None) -> list[StateChange]:
        """Every step of a group from one state to the next."""
        return [each for each in state_changes_in(self.events) if group in (None, each.group)]


def matches(asked: Asked, api: str, group: str | None, client_id: str | None) -> bool:
    return (
        asked.api == api
        and (group is None or group in asked.groups)
        and (client_id is None or asked.client_id == client_id)
    )
