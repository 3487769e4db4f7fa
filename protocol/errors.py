"""Errors of requests and of the protocol. Each ProtocolError closes the connection, as in Kafka.

Malformed requests get no response, because the client might not understand it. Only ApiVersions in
a version that is not served gets a response (KIP-511, framing.py). The error codes inside responses
are kio's `ErrorCode`.

What Kafka 4.3 does, observed with raw frames:

    frame size negative or above socket.request.max.bytes    closes immediately, reads no body
    frame size 0 to 9, too short for a header                closes
    unknown API key, or one not served by this listener      closes
    version that is not served, including Produce v0         closes
    ApiVersions in an unknown version, including -1          responds in v0, error 35, listing only
                                                             ApiVersions itself
      ... with a malformed header (v2 above version 2)       closes
      ... with a malformed body                              responds
    malformed body, null in a non-nullable field             closes
    bytes after the end of the body                          ignored, responds
    null client_id (any negative length)                     responds
    malformed UTF-8                                          becomes U+FFFD, responds
    unknown tagged fields, in header or body                 ignored, responds
    valid requests before a malformed one                    responds to them, then closes
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _without_hypothesis() -> Iterator[None]:
    """Hide hypothesis from kio, which otherwise imports it and registers strategies for its types.
    With hypothesis installed, that takes as long as importing all of kohort."""
    names = "hypothesis", "hypothesis.strategies"
    loaded = {name: sys.modules[name] for name in names if name in sys.modules}
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]  # None: cannot be imported
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        sys.modules.update(loaded)


with _without_hypothesis():  # the first import of kio
    from kio.schema.errors import ErrorCode as ErrorCode


class ApiError(Exception):
    """A request, or one of its topics or partitions, is rejected with `error`. `message` is for
    responses with a message field. Upstream: ApiException."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(f"{error.name}: {message}")
        self.error = error
        self.message = message


class ProtocolError(Exception):
    """The peer sent malformed data. The message is for the log."""


class UnsupportedVersion(ProtocolError):
    """The API is served, but not in this version."""


class DecodeError(ProtocolError):
    """Bytes do not match the message schema. The message names the field and its position."""


class EncodeError(Exception):
    """A message from kohort cannot be encoded, because it is too large or the broker has a bug."""


class ResponseTooLarge(EncodeError):
    """A response exceeds RESPONSE_BYTES_MAX bytes or RESPONSE_ITEMS_MAX items."""


class ManyItems(Exception):
    """A message has too many items to be decoded or encoded on the event loop."""
