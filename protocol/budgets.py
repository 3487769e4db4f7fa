"""What one client may cost the others: limits on the size of requests and responses, and on the
work in one turn of the event loop.

Kafka has a thread per processor and per request handler; here all requests share one event loop, so
what is long is done in slices or in a worker thread, and what is large is rejected early.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MIB: Final = 1024 * 1024

# --- one request

ITEMS_MAX: Final = 50_000
"""Items of all arrays of one request: five times the number of partitions that Kafka's controller
accepts in one. The client sees a closed connection, and the log a line; Kafka has no such limit."""

RESPONSE_BYTES_MAX: Final = 100 * MIB
"""Bytes of one response. Small requests can ask for the same large value again and again;
librdkafka accepts 100 MB (receive.message.max.bytes). The client sees a closed connection, and the
log a line."""

RESPONSE_ITEMS_MAX: Final = 500_000
"""Items of all arrays of one response: all configurations of 10,000 topics. While they are encoded,
they take up to 250 MB. The client sees the same."""

AUTO_CREATED_MAX: Final = 100
"""Topics that one Metadata request creates (auto.create.topics.enable). The client sees
LEADER_NOT_AVAILABLE for further ones, and retries; Kafka has no such limit."""

EXPANSION_MAX: Final = 32
"""How many times max.message.bytes the decompressed records of a batch may have, if the broker has
to look at them: for keys of compacted topics, or timestamps. Text compresses to a tenth. The client
sees INVALID_RECORD; Kafka has no such limit."""

DECOMPRESSIONS_MAX: Final = 2
"""Batches whose decompressed records, more than half a MiB, are in memory at a time: up to 128 MiB
each. Others wait; their clients see a later response. Kafka has one per request thread."""

REGEX_MATCHES_MAX: Final = 2
"""Consumer groups whose regular expressions are matched at the same time, in the threads that also
sync files. Others wait (Kafka: group.coordinator.background.threads)."""

RECORD_ERRORS_MAX: Final = 1_000
"""Records of a batch that are rejected one by one (KIP-467). The client sees the errors of the
first thousand; Kafka lists all."""

# --- one turn of the event loop

INLINE_ITEMS_MAX: Final = 5_000
"""Items of a request or response that are decoded or encoded on the event loop, which takes up to
10 ms; more are decoded and encoded in a worker thread."""

FIRST_STEPS_MAX: Final = 50
"""Steps of a request that are done at once (`in_slices`): a step takes 10 to 100 µs. Further ones
are done by the scheduler, in slices of two milliseconds."""


# --- memory of all connections

LONG_REQUESTS_MAX: Final = 4
"""Requests of more than INLINE_ITEMS_MAX items that are decoded, handled and encoded at a time:
each takes up to 40 MB meanwhile. Others wait undecoded, in the budget for requests. Kafka handles
as many at a time as it has threads (num.io.threads, 8)."""

PARKED_PARTITIONS_MAX: Final = 100_000
"""Partitions of all Fetch requests that wait for records: about a kilobyte each. The client of a
further one sees a response without records, at once; Kafka has no such limit."""

RESPONSES_BYTES_MAX: Final = 128 * MIB
"""Bytes of the responses that clients have not read yet, over all connections: two of the largest
Fetch responses (fetch.max.bytes). Kafka sends records from its files."""


class MemoryBudget(Generic[K]):
    """Bytes that each of several users holds, in the order in which they last took some."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._held: dict[K, int] = {}
        self.total = 0

    def hold(self, user: K, size: int) -> None:
        """Set the number of bytes that `user` holds; 0: none."""
        self.total += size - self._held.pop(user, 0)
        if size:
            self._held[user] = size

    def excess(self) -> K | None:
        """Return the user that has to give up its bytes, if more are held than allowed: the one
        that has not taken any for the longest time, as it waits for its client."""
        return next(iter(self._held)) if self.total > self.bytes_max else None


class ConcurrencyLimit:
    """Limits how many operations are in progress at a time; others wait, in order."""

    def __init__(self, operations_max: int) -> None:
        self._free = operations_max
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_starting = False

    def begin(self, start: Callable[[], None]) -> None:
        """Call `start` now or later; the operation calls `end` once."""
        self._waiting.append(start)
        self._start()

    def begin_now(self, *, may_exceed: bool = False) -> bool:
        """Begin an operation, and return True, if the limit allows it or may be exceeded."""
        if self._free <= 0 and not may_exceed:
            return False
        self._free -= 1
        return True

    def end(self) -> None:
        self._free += 1
        self._start()

    def _start(self) -> None:
        # Operations that end while they start, as those of lost connections do, would recurse.
        if self._is_starting:
            return
        self._is_starting = True
        try:
            while self._waiting and self._free > 0:
                self._free -= 1
                self._waiting.popleft()()
        finally:
            self._is_starting = False


class Budgets(Generic[K]):
    """What all connections of a broker may hold in memory. A connection that exceeds a budget, or
    that makes another one exceed it, is closed: see MemoryBudget.excess."""

    def __init__(self, request_bytes_max: int) -> None:
        self.requests = MemoryBudget[K](request_bytes_max)
        """Received bytes that wait for the rest of their frame, or to be decoded
        (queued.max.request.bytes)."""
        self.responses = MemoryBudget[K](RESPONSES_BYTES_MAX)
        self.long_requests = ConcurrencyLimit(LONG_REQUESTS_MAX)
