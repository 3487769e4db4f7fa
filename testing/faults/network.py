"""Network conditions and clock skew, which apply until they are removed.

A condition is both the action of a fault and a separate hook. Conditions are called before all
other faults, which also apply to the same requests.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Any

from ...broker.cluster import Node
from ...broker.event_loop.timers import Clock
from ...broker.network.connection import Connection
from ..interceptor import InterceptedRequest

# A limited connection sends in steps of this duration, which no client notices.
STEP_SECONDS = 0.01


class Condition:
    """Called with each request that the condition applies to. Returns True if it takes over the
    request. Runs on the broker's loop."""

    is_recorded = False
    """Whether the requests are marked as affected by a fault. False for conditions that affect
    nearly all requests."""

    def __call__(self, request: InterceptedRequest) -> bool:
        raise NotImplementedError

    def begin(self, connections: list[Connection]) -> None:
        """Called once, with the open connections to which the condition applies."""

    def end(self) -> None:
        """Restore the normal state."""


class Latency(Condition):
    """Delays the handling of each request by `ms` ± `jitter_ms`."""

    def __init__(self, ms: int, jitter_ms: int, seed: int) -> None:
        self._ms = ms
        self._jitter_ms = jitter_ms
        self._chance = random.Random(seed)

    def __call__(self, request: InterceptedRequest) -> bool:
        request.hold()
        ms = self._ms + self._chance.randint(-self._jitter_ms, self._jitter_ms)
        request.call_later(ms, request.resume)
        return True


class Bandwidth(Condition):
    """Limits the responses of each connection to a number of bytes per second."""

    def __init__(self, bytes_per_second: int) -> None:
        chunk = max(1, round(bytes_per_second * STEP_SECONDS))
        self._pace = Pace(chunk, chunk / bytes_per_second)
        self._limited: set[int] = set()

    def __call__(self, request: InterceptedRequest) -> bool:
        if request.record.connection not in self._limited:
            self._limited.add(request.record.connection)
            request.connection.wrap_transport(lambda each: PacedTransport(each, self._pace))
        return False

    def end(self) -> None:
        self._pace.chunk_bytes = None  # the next step sends the rest


class NetworkPartition(Condition):
    """Withholds all requests, and the responses to earlier requests. They arrive when the partition
    ends, like TCP retransmissions."""

    is_recorded = True

    def __init__(self) -> None:
        self._pace = Pace(0)
        self._transports: list[PacedTransport] = []
        self._held: list[InterceptedRequest] = []

    def begin(self, connections: list[Connection]) -> None:
        def wrap(transport: asyncio.Transport) -> PacedTransport:
            self._transports.append(PacedTransport(transport, self._pace))
            return self._transports[-1]

        for each in connections:
            each.wrap_transport(wrap)

    def __call__(self, request: InterceptedRequest) -> bool:
        request.hold()
        self._held.append(request)
        return True

    def end(self) -> None:
        self._pace.chunk_bytes = None
        for transport in self._transports:
            transport.send()
        held, self._held = self._held, []
        for request in held:
            request.resume()


class Skew(Condition):
    """Skews the clock of the node that receives a request."""

    def __init__(self, ms: int) -> None:
        self._ms = ms
        self._nodes: list[Node] = []

    def __call__(self, request: InterceptedRequest) -> bool:
        node = request.node
        if all(each is not node for each in self._nodes):
            self._nodes.append(node)
            node.clock = _skewed(node.clock, self._ms)
        return False

    def end(self) -> None:
        for node in self._nodes:
            node.clock = _skewed(node.clock, -self._ms)


def _skewed(clock: Clock, ms: int) -> Clock:
    """Return the clock, moved forward. The skews of a node add up, and may end in any order."""
    if isinstance(clock, _SkewedClock):
        ms, clock = clock.ahead_ms + ms, clock.clock
    return _SkewedClock(clock, ms) if ms else clock


@dataclass(frozen=True, slots=True)
class _SkewedClock:
    clock: Clock
    ahead_ms: int

    def now_ms(self) -> int:
        return self.clock.now_ms() + self.ahead_ms

    def wall_ms(self) -> int:
        return self.clock.wall_ms() + self.ahead_ms


# --- transports


@dataclass(slots=True)
class Pace:
    """How fast a PacedTransport sends: one chunk per interval, and less than a chunk in
    proportionally less time. With a chunk of None, it sends everything immediately; with 0, it
    sends nothing."""

    chunk_bytes: int | None
    interval_s: float = 0


class PacedTransport(asyncio.Transport):
    """Writes to another transport in chunks."""

    def __init__(self, transport: asyncio.Transport, pace: Pace) -> None:
        super().__init__()
        self._transport = transport
        self._pace = pace
        self._unsent = bytearray()
        self._will_send = False
        self._is_closing = False

    def write(self, data: Any) -> None:
        self._unsent += data
        if not self._will_send:
            self.send()

    def get_write_buffer_size(self) -> int:
        return len(self._unsent) + self._transport.get_write_buffer_size()

    def send(self) -> None:
        """Send the next chunk now and the others at intervals."""
        self._will_send = False
        chunk = self._pace.chunk_bytes
        data = bytes(self._unsent[:chunk])
        if data:
            self._transport.write(data)
            del self._unsent[:chunk]
            if chunk is not None:
                # Even without unsent data: the next response has to wait as well.
                self._will_send = True
                delay_s = self._pace.interval_s * len(data) / chunk
                asyncio.get_running_loop().call_later(delay_s, self.send)
        if not self._unsent and self._is_closing:
            self._transport.close()

    def close(self) -> None:
        self._is_closing = True
        if not self._unsent:
            self._transport.close()

    def abort(self) -> None:
        self._unsent.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)
