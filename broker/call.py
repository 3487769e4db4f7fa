"""One request on its way: what a handler reads, and how it answers."""

from collections.abc import Callable
from struct import Struct
from typing import Any, Protocol

from ..protocol.errors import EncodeError
from .routes import Route

_correlation_id = Struct(">i").pack


class Origin(Protocol):
    """The connection that a call came in on."""

    client_software: str | None

    @property
    def client_host(self) -> str: ...

    @property
    def is_gone(self) -> bool: ...

    def answered(self, call: "Call") -> None:
        """`call` has its answer; it goes out once all calls before it have theirs."""

    def hold(self, call: "Call") -> None:
        """`call` is parked: what its client sent after it waits."""

    def end(self, reason: str) -> None:
        """Close once the answers before are out; what the client sent after is not looked at."""


class Call:
    """A request with its place in the order of its connection's answers.

    `request` is kio's message of the request's version; `answer` is the whole frame once it is
    known (empty bytes: this request gets no answer).
    """

    __slots__ = (
        "_write",
        "answer",
        "client_id",
        "correlation_id",
        "origin",
        "request",
        "version",
        "when_gone",
    )

    def __init__(
        self, origin: Origin, route: Route, correlation_id: int, client_id: str | None, request: Any
    ) -> None:
        self.origin = origin
        _, self.version, _, _, self._write, _, _ = route
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request = request
        self.answer: bytes | None = None
        self.when_gone: Callable[[], None] | None = None

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
        try:
            self.answer = self._write(message, self.correlation_id)
        except EncodeError as error:
            # Whoever else is answered in this breath must not suffer from it.
            self.no_reply_but_the_end(str(error))
            return
        self.origin.answered(self)

    def written(self, message: Any) -> bytes:
        """The frame that answers with `message`, for `repeat` of this version's calls."""
        return self._write(message, 0)

    def repeat(self, frame: bytes) -> None:
        """Answer with a frame `written` before: only the correlation id is another."""
        self.answer = frame[:4] + _correlation_id(self.correlation_id) + frame[8:]
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
