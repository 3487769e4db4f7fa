"""What stories are told with: waiting on conditions with a deadline, and many consumers at once."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from .adapter import Message, Place, Record
from .driven import Driven

# Long enough for the slowest library on a machine that is busy with something else; a story that
# goes well never waits for it.
DEADLINE_S = 30.0


def until(done: Callable[[], bool], what: str, detail: Callable[[], object] | None = None) -> None:
    """Looks every 10 ms whether it is done; fails at the deadline with `what` and `detail()`."""
    end = time.monotonic() + DEADLINE_S
    while not done():
        if time.monotonic() > end:
            raise AssertionError(
                f"after {DEADLINE_S:.0f} s still not: {what}" + (f"; {detail()}" if detail else "")
            )
        time.sleep(0.01)


class Audience:
    """Some consumers, and all that they were given since `forget`."""

    def __init__(self, *consumers: Driven) -> None:
        self.consumers = list(consumers)
        self._seen = {id(consumer): 0 for consumer in consumers}
        self._gone: list[Record] = []

    def add(self, consumer: Driven) -> None:
        self.consumers.append(consumer)
        self._seen[id(consumer)] = 0

    def of(self, consumer: Driven) -> list[Record]:
        return consumer.records[self._seen[id(consumer)] :]

    @property
    def records(self) -> list[Record]:
        return self._gone + [record for c in self.consumers for record in self.of(c)]

    def values(self) -> list[bytes]:
        return [record.value or b"" for record in self.records]

    def forget(self) -> None:
        self._gone.clear()
        self._seen = {id(consumer): len(consumer.records) for consumer in self.consumers}

    def leave(self, consumer: Driven) -> None:
        consumer.close()
        self._gone += self.of(consumer)
        self.consumers.remove(consumer)

    def until(self, done: Callable[[], bool], what: str) -> None:
        def done_or_failed() -> bool:
            for consumer in self.consumers:
                if consumer.failure is not None:
                    raise consumer.failure
            return done()

        until(done_or_failed, what, self._told)

    def _told(self) -> str:
        owned = [sorted(consumer.assignment()) for consumer in self.consumers]
        return f"assignments {owned}, {len(self.records)} records"

    def until_count(self, count: int) -> None:
        self.until(lambda: len(self.records) >= count, f"{count} records")

    def until_values(self, wanted: Iterable[bytes]) -> None:
        """Until each of these values came at least once."""
        missing = set(wanted)
        self.until(lambda: missing <= set(self.values()), f"all of {len(missing)} values came")

    def until_shared(self, places: Iterable[Place], sizes: Sequence[int]) -> None:
        """Until the consumers own just these places, each place once, in shares of these sizes."""
        wanted, shares = Counter(places), sorted(sizes)

        def shared() -> bool:
            owned = [consumer.assignment() for consumer in self.consumers]
            each = Counter(place for places in owned for place in places)
            return sorted(map(len, owned)) == shares and each == wanted

        self.until(shared, f"{len(wanted)} partitions shared as {shares}")


def refusal_of(member: Driven) -> int | None:
    """The code of the broker's refusal that ended the member's polling."""
    code = getattr(member.failure, "code", None) or getattr(member.failure, "errno", None)
    return None if code is None else int(code)


def numbered(count: int, text: str = "record", partitions: int | None = None) -> list[Message]:
    """Messages with values `text 0`, `text 1`, …; spread over partitions by turns when given."""
    return [
        Message(
            f"{text} {number}".encode(), partition=None if not partitions else number % partitions
        )
        for number in range(count)
    ]


def places(topic: str, partitions: int) -> list[Place]:
    return [Place(topic, partition) for partition in range(partitions)]
