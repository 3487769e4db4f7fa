"""Limits that keep one client from degrading the others. They apply to the size of requests and
responses, and to the work in one iteration of the event loop.

Kafka has a thread per processor and per request handler. In kohort, all requests share one event
loop, so long work runs in slices or in a worker thread, and oversized requests are rejected early.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MIB: Final = 1024 * 1024

# --- one request

ITEMS_MAX: Final = 50_000
"""Items in all arrays of one request: five times the number of partitions that Kafka's controller
accepts in one request. Above this limit, the connection is closed and a warning is logged. Kafka
has no such limit."""

RESPONSE_BYTES_MAX: Final = 100 * MIB
"""Bytes of one response. A small request can name the same large value many times. librdkafka
accepts 100 MB (receive.message.max.bytes). Above this limit, the connection is closed and a warning
is logged."""

RESPONSE_ITEMS_MAX: Final = 500_000
"""Items in all arrays of one response, enough for all configurations of 10,000 topics. Encoding
them takes up to 250 MB of memory. Above this limit, the connection is closed."""

AUTO_CREATED_MAX: Final = 100
"""Topics that one Metadata request may create (auto.create.topics.enable). The client gets
UNKNOWN_TOPIC_OR_PARTITION for further topics and retries. Kafka has no such limit."""

ACLS_PER_REQUEST_MAX: Final = 10_000
"""ACLs that one request may create or delete (upstream: MAX_RECORDS_PER_USER_OP). Above this limit,
nothing is changed, and the client gets POLICY_VIOLATION or INVALID_REQUEST."""

EXPANSION_MAX: Final = 32
"""Maximum decompressed size of a batch, as a multiple of max.message.bytes. It applies if the
broker must decompress the batch to read timestamps or the keys of a compacted topic. Text typically
compresses to a tenth of its size. Above this limit, the client gets INVALID_RECORD. Kafka has no
such limit."""

DECOMPRESSED_BYTES_MAX: Final = 128 * MIB
"""Maximum decompressed bytes of any batch: 128 times the default max.message.bytes."""

DECOMPRESSIONS_MAX: Final = 2
"""Maximum number of batches over 512 KiB that are decompressed at the same time. Each may expand to
128 MiB. Further batches wait, which delays their responses. Kafka decompresses one batch per
request thread."""

REGEX_MATCHES_MAX: Final = 2
"""Consumer groups whose regular expressions are matched at the same time, in the threads that also
sync files. Further groups wait (Kafka: group.coordinator.background.threads)."""

HOST_LOOKUPS_MAX: Final = 2
"""Host names that are looked up at the same time, in the threads that also sync files (for IP
address quotas and max.connections.per.ip.overrides). Without a name server, each lookup takes
seconds, and further lookups wait. Kafka looks up one name at a time."""

HOSTS_MAX: Final = 1_000
"""Host names whose addresses are cached. Other names are looked up again."""

REGEX_BYTES_MAX: Final = 4096
"""Bytes of a client's regular expression, and of all expressions of a client metrics subscription
together. Parsing and compiling this many bytes takes up to 0.1 s on the event loop; 32 KB would
take a second. Kafka has no such limit."""

RECORD_HEADERS_MAX: Final = 100_000
"""Headers of one validated record. Validating this many headers takes 50 ms; producers add only a
few. Above this limit, the client gets INVALID_RECORD. Kafka has no such limit."""

RECORD_ERRORS_MAX: Final = 1_000
"""Record errors in the response for one batch (KIP-467). Kafka has no such limit."""

# --- one iteration of the event loop

INLINE_ITEMS_MAX: Final = 5_000
"""Maximum number of items in a message that is decoded or encoded on the event loop, which takes up
to 10 ms. Larger messages are processed in a worker thread."""

FIRST_STEPS_MAX: Final = 50
"""Number of steps of a request that run immediately (`in_slices`), unless they take longer than a
slice of 2 ms. Most steps take 10 to 100 µs; creating a topic takes half a millisecond. The
scheduler runs the remaining steps in slices."""


# --- memory of all connections

LONG_REQUESTS_MAX: Final = 4
"""Requests of more than INLINE_ITEMS_MAX items that are processed at the same time. Each takes up
to 40 MB of memory. Further requests of this size wait undecoded and count towards the request
budget. Kafka handles at most num.io.threads requests at a time (default: 8)."""

PARKED_PARTITIONS_MAX: Final = 100_000
"""Partitions in all Fetch requests that wait for records, about a kilobyte each. Above this limit,
a Fetch gets an empty response immediately. Kafka has no such limit."""

SESSION_PARTITIONS_MAX: Final = 250_000
"""Partitions in all fetch sessions (KIP-227), about half a kilobyte each. Above this limit,
partitions are fetched without a session. Kafka has no such limit, but recommends at most 200,000
partitions per cluster."""

RESPONSES_BYTES_MAX: Final = 128 * MIB
"""Bytes of responses that clients have not read yet, over all connections, enough for two Fetch
responses of the maximum size (fetch.max.bytes). Records in files do not count, because they are
read only as fast as the client receives them. Kafka sends all records from its files."""


class MemoryBudget(Generic[K]):
    """The bytes that each user (a connection) holds, least recently updated first."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._held: dict[K, int] = {}
        self.total = 0

    def hold(self, user: K, size: int) -> None:
        """Set the number of bytes that `user` holds. 0 removes the user."""
        self.total += size - self._held.pop(user, 0)
        if size:
            self._held[user] = size

    @property
    def is_scarce(self) -> bool:
        """Whether more than half of the budget is held."""
        return self.total > self.bytes_max // 2

    def excess(self) -> K | None:
        """Return the user that must release its bytes, or None if the budget is not exceeded. The
        least recently updated user is chosen, because its client is presumably idle or slow."""
        return next(iter(self._held)) if self.total > self.bytes_max else None


class ConcurrencyLimit:
    """Limits the number of concurrent operations. Other operations wait and start in FIFO order."""

    def __init__(self, operations_max: int) -> None:
        self._free = operations_max
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_starting = False

    def begin(self, start: Callable[[], None]) -> None:
        """Call `start` now or later. The operation must call `end` once."""
        self._waiting.append(start)
        self._start()

    def begin_now(self, *, may_exceed: bool = False) -> bool:
        """Begin an operation if the limit or `may_exceed` allows it. Return whether it began."""
        if self._free <= 0 and not may_exceed:
            return False
        self._free -= 1
        return True

    def end(self) -> None:
        self._free += 1
        self._start()

    def _start(self) -> None:
        # An operation whose connection is lost may end while it starts. Its call to `end` must not
        # start further operations recursively.
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
    """Memory limits over all connections of a broker. When a budget is exceeded, the connection
    that has been idle the longest is closed (MemoryBudget.excess)."""

    def __init__(self, request_bytes_max: int) -> None:
        self.requests = MemoryBudget[K](request_bytes_max)
        """Received bytes of incomplete or undecoded frames (queued.max.request.bytes)."""
        self.responses = MemoryBudget[K](RESPONSES_BYTES_MAX)
        self.long_requests = ConcurrencyLimit(LONG_REQUESTS_MAX)
