"""A connection with a fake transport; the test responds to its requests."""

import asyncio
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kohort.broker.event_loop.watchdog import Watchdog
from kohort.broker.network.connection import Connection
from kohort.broker.network.outbox import Outbox, Turns
from kohort.broker.network.request import RequestContext, Route, Routes
from kohort.broker.network.request_cache import RequestCache
from kohort.broker.security.session import ClientSession
from kohort.protocol.apis import BY_KEY
from kohort.protocol.budgets import Budgets
from support.virtual_broker import LISTENER


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False
        self.is_reading = True
        self.on_write: Callable[[], None] = lambda: None

    @property
    def sent(self) -> bytes:
        return b"".join(self.written)

    def get_extra_info(self, name: str) -> Any:
        return ("10.0.0.5", 4711) if name == "peername" else None

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self.on_write()

    def writelines(self, pieces: list[bytes]) -> None:
        self.written.extend(pieces)
        self.on_write()

    def get_write_buffer_size(self) -> int:
        return len(self.sent)

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


def frame(correlation_id: int) -> bytes:
    """A Heartbeat v0 without a body, which is not decoded."""
    header = struct.pack(">hhih", 12, 0, correlation_id, -1)
    return struct.pack(">i", len(header)) + header


BAD = struct.pack(">i", 1) + b"x"


def new_connection(
    transport: Transport, node: Any, call_soon: Callable[..., Any], **parts: Any
) -> Connection:
    defaults = {
        "client": ClientSession(LISTENER),
        "routes": Routes(),
        "inbox": memoryview(bytearray(1)),
        "outbox": Outbox(call_soon),
        "turns": Turns(call_soon, float("inf")),
        "frame_bytes_max": 1_000_000,
        "budgets": Budgets(100_000),
        "watchdog": Watchdog(),
        "opened": lambda _: None,
        "closed": lambda _: None,
    }
    connection = Connection(node=node, **{**defaults, **parts})
    connection.connection_made(transport)
    return connection


class Peer:
    """A connection whose handler collects the request contexts."""

    def __init__(
        self,
        handle: Callable[[RequestContext, Any], None] | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.contexts: list[RequestContext] = []
        route = Route(
            BY_KEY[12],
            0,
            lambda _buffer, _body, _end: None,
            handle or (lambda context, _node: self.contexts.append(context)),
            lambda message, correlation_id: self.write(message, correlation_id),
        )
        self.write: Callable[[Any, int], bytes] = lambda _, correlation_id: bytes([correlation_id])
        routes = Routes()
        routes._routes[12, 0] = route
        self.transport = Transport()
        self.lost: list[Connection] = []
        self.watchdog = Watchdog()
        self.connection = new_connection(
            *(self.transport, SimpleNamespace(), asyncio.get_running_loop().call_soon),
            routes=routes,
            inbox=memoryview(bytearray(len(frame(1)))),
            frame_bytes_max=1_000,
            budgets=Budgets(1_000),
            quotas=SimpleNamespace(is_active=False),
            watchdog=self.watchdog,
            closed=self.lost.append,
            cache=RequestCache(),
            **({} if turns is None else {"turns": turns}),
        )

    def send(self, *correlation_ids: int) -> None:
        self.connection.data_received(b"".join(map(frame, correlation_ids)))

    def fill_inbox(self, data: bytes = frame(1)) -> None:
        """Receive data that fills the receive buffer, by default a request."""
        inbox = self.connection.get_buffer(-1)
        inbox[:] = data
        self.connection.buffer_updated(len(inbox))

    @property
    def ids(self) -> list[int]:
        return [context.correlation_id for context in self.contexts]
