"""The consumer protocol: what members say of themselves when joining, and what the leader gives
each of them. A broker carries both as opaque bytes; those who look inside use this.

Every version is two bytes of version and a body that only grew. Readers take a version above 3
for 3 and ignore what follows, as Java's ConsumerProtocol does.
"""

from functools import cache
from importlib import import_module
from struct import Struct
from typing import Any, Final, NamedTuple

from .errors import ProtocolError, UndecodableBlob
from .lenient import read_leniently
from .writers import body_writer

VERSION_MAX: Final = 3

_VERSION: Final = Struct(">h")


class TopicPartitions(NamedTuple):
    topic: str
    partitions: tuple[int, ...]


class Subscription(NamedTuple):
    """What a member wants. `owned_partitions` is told since v1, `generation_id` since v2 (-1: not
    told), `rack_id` since v3."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartitions, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None


class Assignment(NamedTuple):
    """What a member is given."""

    assigned_partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None = None


def read_subscription(blob: bytes) -> Subscription:
    """Raises UndecodableBlob."""
    version, message = _read("subscription", blob)
    subscription = Subscription(message.topics, message.user_data)
    if version >= 1:
        owned = _topic_partitions(message.owned_partitions)
        subscription = subscription._replace(owned_partitions=owned)
    if version >= 2:
        subscription = subscription._replace(generation_id=message.generation_id)
    if version >= 3:
        subscription = subscription._replace(rack_id=message.rack_id)
    return subscription


def read_subscribed_topics(blob: bytes) -> tuple[str, ...]:
    """Only the topics: as much as a broker looks at, whatever the rest says.

    Raises UndecodableBlob.
    """
    # Version 0 is the beginning of all, and which one it says is not looked at (upstream:
    # ClassicGroup.computeSubscribedTopics).
    topics: tuple[str, ...] = _read_body("subscription", 0, blob).topics
    return topics


def read_assignment(blob: bytes) -> Assignment:
    """Raises UndecodableBlob."""
    _, message = _read("assignment", blob)
    return Assignment(_topic_partitions(message.assigned_partitions), message.user_data)


def write_subscription(subscription: Subscription, version: int = VERSION_MAX) -> bytes:
    """Leaves out what the version cannot say. Raises EncodeError."""
    return _VERSION.pack(version) + body_writer(_schema("subscription", version))(subscription)


def write_assignment(assignment: Assignment, version: int = VERSION_MAX) -> bytes:
    """Raises EncodeError."""
    return _VERSION.pack(version) + body_writer(_schema("assignment", version))(assignment)


def _topic_partitions(owned: Any) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(each.topic, each.partitions) for each in owned)


def _read(kind: str, blob: bytes) -> tuple[int, Any]:
    if len(blob) < 2:
        raise UndecodableBlob(f"a {kind} of {len(blob)} bytes has no version")
    (version,) = _VERSION.unpack_from(blob)
    if version < 0:
        raise UndecodableBlob(f"a {kind} cannot have the version {version}")
    version = min(version, VERSION_MAX)
    return version, _read_body(kind, version, blob)


def _read_body(kind: str, version: int, blob: bytes) -> Any:
    """What follows the version."""
    try:
        return read_leniently(_schema(kind, version), bytes(blob), 2, len(blob))
    except ProtocolError as error:
        raise UndecodableBlob(str(error)) from error


@cache
def _schema(kind: str, version: int) -> Any:
    module = import_module(f"kio.schema.consumer_protocol_{kind}.v{version}.data")
    return getattr(module, f"ConsumerProtocol{kind.capitalize()}")
