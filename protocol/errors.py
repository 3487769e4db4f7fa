"""What a client can do wrong on the wire. Each error ends that connection, as in Kafka.

`ErrorCode` is kio's: the codes that travel inside responses. The exceptions here never do: a
request that cannot be read has no response that its client could be sure to understand. The one
exception is ApiVersions in a version that we do not serve (KIP-511), see `headers`.

What Kafka 4.3 does, asked with raw frames:

    frame size negative or above socket.request.max.bytes    closes at once, reads no body
    frame size 0 … 9, too short for a header                 closes
    unknown API key, known key that this listener hides      closes
    version below or above the served ones, Produce 0 too    closes
    ApiVersions in an unknown version, -1 included           answers v0 form, error 35, the only
                                                             entry is ApiVersions itself
      … whose header does not parse (v2 for all above 2)     closes
      … whose body makes no sense                            answers all the same
    body that cannot be decoded, null in a non-null field    closes
    bytes after the end of the body                          ignored, answers
    client_id null (any negative length)                     answers
    text that is not UTF-8                                   answers, bad bytes become U+FFFD
    tagged fields nobody knows, in header or body            ignored, answers
    good requests before a bad one on the same connection    answered first, then closes
"""

from kio.schema.errors import ErrorCode

__all__ = (
    "EncodeError",
    "ErrorCode",
    "FrameTooLarge",
    "InvalidFrameSize",
    "InvalidHeader",
    "ProtocolError",
    "UndecodableBlob",
    "UndecodableBody",
    "UnknownApi",
    "UnsupportedVersion",
)


class ProtocolError(Exception):
    """The peer sent what cannot be understood; the message says what, for the log."""


class InvalidFrameSize(ProtocolError):
    """A frame's size is negative, or too small to hold a request header."""


class FrameTooLarge(ProtocolError):
    """A frame's size is above `socket.request.max.bytes`."""


class InvalidHeader(ProtocolError):
    """A request header does not fit into its frame."""


class UnknownApi(ProtocolError):
    """The API key is none that is served."""


class UnsupportedVersion(ProtocolError):
    """The API is served, but not in this version."""


class UndecodableBody(ProtocolError):
    """A request body does not follow its schema."""


class UndecodableBlob(ProtocolError):
    """A subscription or assignment of the consumer protocol does not follow its schema."""


class EncodeError(Exception):
    """A message of ours cannot be written: a fault of the broker, never of the peer."""
