"""One request on its way: what a handler reads, and how it answers."""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from struct import Struct
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from ..protocol.errors import EncodeError
from ..protocol.writers import PiecesWriter
from .routes import Route

_correlation_id: Final = Struct(">i").pack

ResponseFrame: TypeAlias = bytes | list[bytes]
"""A frame, or the pieces of a large one, which are not worth to be joined."""


class Channel(Protocol):
    """The connection that a call came in on."""

    client_software: str | None

    @property
    def client_host(self) -> str: ...

    @property
    def is_gone(self) -> bool: ...

    def answered(self, call: "RequestContext") -> None:
        """`call` has its answer; it goes out once all calls before it have theirs."""

    def hold(self, call: "RequestContext") -> None:
        """`call` is parked: what its client sent after it waits."""

    def end(self, reason: str) -> None:
        """Close once the answers before are out; what the client sent after is not looked at."""


class EncodedResponse(NamedTuple):
    """A frame without its correlation id: one stands between its size and the rest."""

    size: bytes
    rest: bytes
    rest_and_size: bytes  # what lies between two ids when one such frame follows another


class RequestContext:
    """A request with its place in the order of its connection's answers; or several that came one
    behind the other and are the same but for their numbers (shapes.py).

    `request` is kio's message of the request's version, of several that of the first of their
    shape; `answer` is the whole frame once it is known, of several all their frames (empty bytes:
    this request gets no answer).
    """

    __slots__ = (
        "_write",
        "answer",
        "client_id",
        "correlation_ids",
        "origin",
        "request",
        "version",
        "when_gone",
    )

    def __init__(
        self,
        origin: Channel,
        route: Route,
        correlation_ids: Sequence[int],
        client_id: str | None,
        request: Any,
    ) -> None:
        self.origin = origin
        _, self.version, _, _, self._write, _, _ = route
        self.correlation_ids = correlation_ids
        self.client_id = client_id
        self.request = request
        self.answer: ResponseFrame | None = None
        self.when_gone: Callable[[], None] | None = None

    @property
    def correlation_id(self) -> int:
        """The number that its client gave it; of several requests that of the first."""
        return self.correlation_ids[0]

    @property
    def frame(self) -> bytes:
        """The answer in one piece, to be looked at; empty where there is none."""
        answer = self.answer or b""
        return b"".join(answer) if isinstance(answer, list) else answer

    @property
    def client_host(self) -> str:
        """The client's address as Kafka prints it: a slash before the number."""
        return self.origin.client_host

    @property
    def client_software(self) -> str | None:
        """What the client said it is (ApiVersions since v3, KIP-511): "name/version"."""
        return self.origin.client_software

    @client_software.setter
    def client_software(self, software: str) -> None:
        self.origin.client_software = software

    @property
    def is_gone(self) -> bool:
        return self.origin.is_gone

    def reply(self, message: Any) -> None:
        """Answer with `message`: any object with the fields of the response (kio's names)."""
        self.reply_each(repeat(message))

    def reply_each(self, messages: Iterable[Any]) -> None:
        """Answer each of several requests with its own message."""
        try:
            self.answer = b"".join(map(self._write, messages, self.correlation_ids))
        except EncodeError as error:
            # Whoever else is answered in this breath must not suffer from it.
            self.no_reply_but_the_end(str(error))
            return
        self.origin.answered(self)

    def reply_in_pieces(self, message: Any, write: PiecesWriter) -> None:
        """Answer one request with a large `message`."""
        try:
            self.answer = write(message, self.correlation_id)
        except EncodeError as error:
            self.no_reply_but_the_end(str(error))
            return
        self.origin.answered(self)

    def written(self, message: Any) -> EncodedResponse:
        """The frame that answers with `message`, for `repeat` of this version's calls."""
        frame = self._write(message, 0)
        return EncodedResponse(frame[:4], frame[8:], frame[8:] + frame[:4])

    def repeat(self, written: EncodedResponse) -> None:
        """Answer with what was `written` before."""
        size, rest, rest_and_size = written
        ids = self.correlation_ids
        if len(ids) == 1:
            self.answer = size + _correlation_id(ids[0]) + rest
        else:
            self.answer = size + rest_and_size.join(map(_correlation_id, ids)) + rest
        self.origin.answered(self)

    def no_reply(self) -> None:
        """This request is done and gets no answer (Produce with acks 0)."""
        self.answer = b""
        self.origin.answered(self)

    def no_reply_but_the_end(self, reason: str) -> None:
        """The request failed and its client wants no answer: it learns so by the connection's
        end, as from Kafka (KafkaApis.sendNoOpResponseExemptThrottle, closeConnection)."""
        self.origin.end(reason)
        self.no_reply()

    def hold(self) -> None:
        """What the client sends after this request waits until it is answered."""
        self.origin.hold(self)

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Run `callback` when the connection is lost before the answer is out."""
        self.when_gone = callback
