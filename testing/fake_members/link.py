"""A client's connection to a node, without a socket: frames in, frames out.

For the broker it is the transport of a connection. What either side writes is heard by the other in
another turn of the loop, as it would be from a socket.
"""

import asyncio
from collections.abc import Callable
from functools import cache
from struct import Struct
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from ...broker.broker import Broker
from ...protocol.apis import APIS
from ...protocol.errors import ProtocolError
from ...protocol.messages import (
    RequestEncoder,
    ResponseDecoder,
    request_encoder,
    response_decoder,
)

# OffsetCommit has topic ids from 10 on; a script has names.
_VERSIONS_MAX: Final = {"OffsetCommit": 9}
_HOST: Final = "127.0.0.1"
_SIZE: Final = Struct(">i")
_IDS: Final = Struct(">ii")  # size, correlation id


class Link(asyncio.Transport):
    """`stepped` is called whenever one side has heard the other, `lost` once, when the broker has
    closed it. Raises ConnectionRefusedError where the node is down."""

    def __init__(
        self,
        broker: Broker,
        node_id: int,
        client_id: str,
        stepped: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        super().__init__()
        self.node_id = node_id
        self._client_id = client_id
        self._stepped = stepped
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._asked: dict[int, tuple[_Speech, asyncio.Future[Any]]] = {}
        self._count = 0
        self._unread = bytearray()  # by the client
        self._unsent = bytearray()  # to the broker, which does not read now
        self._is_read = True
        self._is_closing = False
        self._connection = broker.attach(node_id, self)

    # --- the client's side

    async def ask(self, api: str, **fields: Any) -> Any:
        """The answer, kio's message. `fields`: of the request, by kio's names; what is left out
        has its default. Raises ConnectionError when the connection goes first."""
        if self._is_closing:
            raise ConnectionResetError("the connection is closed")
        speech = _speech(api)
        self._count += 1
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._asked[self._count] = speech, answer
        self._unsent += speech.write(SimpleNamespace(**fields), self._count, self._client_id)
        self._loop.call_soon(self._send)
        return await answer

    def cut(self) -> None:
        """The client is gone, from now on."""
        self._forget()
        self.abort()

    def _send(self) -> None:
        if self._is_read and self._unsent and not self._is_closing:
            self._stepped()
            sent, self._unsent = bytes(self._unsent), bytearray()
            self._connection.data_received(sent)

    def _hear(self) -> None:
        self._stepped()
        unread = self._unread
        while len(unread) >= _IDS.size:
            size, correlation_id = _IDS.unpack_from(unread)
            end = _SIZE.size + size
            if len(unread) < end:
                return
            frame = bytes(unread[:end])
            del unread[:end]
            speech, answer = self._asked.pop(correlation_id, (None, None))
            if speech is None or answer is None or answer.done():
                continue  # who asked does not wait any more
            try:
                answer.set_result(speech.read(frame))
            except ProtocolError as error:
                self.abort()
                answer.set_exception(ConnectionAbortedError(f"an answer cannot be read: {error}"))

    def _forget(self) -> None:
        self._lost = lambda: None
        for _, answer in self._asked.values():
            answer.cancel()
        self._asked.clear()

    # --- the broker's side: asyncio.Transport

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._unread += data
            self._loop.call_soon(self._hear)

    def close(self) -> None:
        """What was written before is heard before."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._end)

    def abort(self) -> None:
        self._unread.clear()
        self.close()

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_read = False

    def resume_reading(self) -> None:
        self._is_read = True
        self._loop.call_soon(self._send)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (_HOST, 0) if name == "peername" else default

    def _end(self) -> None:
        self._stepped()
        self._connection.connection_lost(None)
        asked, self._asked = self._asked, {}
        for _, answer in asked.values():
            if not answer.done():
                answer.set_exception(ConnectionResetError("the broker closed the connection"))
        self._lost()


class _Speech(NamedTuple):
    """One API in the version that puppets speak."""

    write: RequestEncoder
    read: ResponseDecoder


@cache
def _speech(name: str) -> _Speech:
    api = next(api for api in APIS if api.name == name)
    version = min(api.max_version, _VERSIONS_MAX.get(name, api.max_version))
    return _Speech(request_encoder(api.key, version), response_decoder(api.key, version))
