"""The consumer protocol: the subscription that a member sends when it joins a group, and the
assignment that the leader returns for the member. In JoinGroup and SyncGroup, both are opaque
bytes, but brokers decode them, for example to find the subscribed topics.

Both begin with an int16 version. Newer versions only append fields, so a version above 3 is decoded
as version 3, and trailing bytes are ignored. Upstream: ConsumerProtocol.
"""

from functools import cache, partial
from typing import Any, Final, NamedTuple

from .decoder import Decoder, compile_decoder
from .encoder import BodyEncoder, compile_body_encoder
from .errors import DecodeError, EncodeError
from .primitives import INT16
from .schema import FieldSpec, MessageSpec


class TopicPartitions(NamedTuple):
    topic: str
    partitions: tuple[int, ...]


class Subscription(NamedTuple):
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartitions, ...] = ()
    generation_id: int = -1  # -1 if unknown
    rack_id: str | None = None


class Assignment(NamedTuple):
    assigned_partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None = None


# Most fields exist in all versions.
F = partial(FieldSpec, versions="0+")
_PARTITIONS: Final = (F("topic", "string"), F("partitions", "[]int32"))
_topic_partitions = partial(
    F, type="[]TopicPartition", fields=_PARTITIONS, message_class=TopicPartitions
)
_USER_DATA: Final = F("userData", "bytes", nullable="0+", default=None)

SUBSCRIPTION: Final = MessageSpec(
    "ConsumerProtocolSubscription",
    "0-3",
    (
        F("topics", "[]string"),
        _USER_DATA,
        _topic_partitions("ownedPartitions", versions="1+", default=()),
        F("generationId", "int32", versions="2+", default=-1),
        F("rackId", "string", versions="3+", nullable="3+", default=None),
    ),
    message_class=Subscription,
)
ASSIGNMENT: Final = MessageSpec(
    "ConsumerProtocolAssignment",
    "0-3",
    (_topic_partitions("assignedPartitions"), _USER_DATA),
    message_class=Assignment,
)


def decode_subscription(encoded: bytes) -> Subscription:
    """Decode a subscription. Raises DecodeError."""
    subscription: Subscription = _decode(SUBSCRIPTION, encoded)
    return subscription


def decode_subscribed_topics(encoded: bytes) -> tuple[str, ...]:
    """Decode only the topics. Raises DecodeError."""
    # All versions start with the v0 fields (upstream: ClassicGroup.computeSubscribedTopics).
    subscription: Subscription = _decoder(SUBSCRIPTION, 0, False)(encoded, INT16.size, len(encoded))
    return subscription.topics


def decode_assignment(encoded: bytes) -> Assignment:
    """Decode an assignment. Raises DecodeError."""
    assignment: Assignment = _decode(ASSIGNMENT, encoded)
    return assignment


def decode_as_dict(spec: MessageSpec, encoded: bytes) -> dict[str, Any]:
    """Decode a SUBSCRIPTION or ASSIGNMENT with the field names of Kafka's schema. Raises
    DecodeError, including for malformed UTF-8."""
    fields: dict[str, Any] = _decode(spec, encoded, as_dict=True)
    return fields


def encode_subscription(
    subscription: Subscription, version: int = SUBSCRIPTION.max_version
) -> bytes:
    """Encode the fields of the version. Raises EncodeError."""
    return INT16.pack(version) + _encoder(SUBSCRIPTION, version)(subscription)


def encode_assignment(assignment: Assignment, version: int = ASSIGNMENT.max_version) -> bytes:
    """Encode an assignment. Raises EncodeError."""
    return INT16.pack(version) + _encoder(ASSIGNMENT, version)(assignment)


def _decode(spec: MessageSpec, encoded: bytes, *, as_dict: bool = False) -> Any:
    if len(encoded) < INT16.size:
        raise DecodeError(f"{spec.name}: truncated version: {len(encoded)} of {INT16.size} bytes")
    version: int = INT16.unpack_from(encoded)[0]
    if version < 0:
        raise DecodeError(f"{spec.name}: invalid version {version}")
    decode = _decoder(spec, min(version, spec.max_version), as_dict)
    return decode(encoded, INT16.size, len(encoded))


@cache
def _decoder(spec: MessageSpec, version: int, as_dict: bool) -> Decoder:
    return compile_decoder(spec.schema(version), DecodeError, strict=as_dict, as_dict=as_dict)


@cache
def _encoder(spec: MessageSpec, version: int) -> BodyEncoder:
    return compile_body_encoder(spec.schema(version), EncodeError)
