"""The actions of faults on an intercepted request, and error responses for any API and version.

Each action returns True if it takes over the request.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

from ...broker.fetch_sessions import NO_SESSION
from ...protocol.errors import ErrorCode
from ...protocol.messages import response_schema
from ...protocol.schema import Field, Schema
from ..interceptor import InterceptedRequest
from ..recorded_request import ERROR_FIELDS
from .network import Pace, PacedTransport

Action = Callable[[InterceptedRequest], bool]

THROTTLE_FIELD = "throttle_time"
FETCH, OFFSET_FETCH, ALTER_REPLICA_LOG_DIRS = 1, 9, 34
# Size and correlation id stay intact, so that a client can match a corrupted response to its
# request.
_INTACT_BYTES = 8
# A single flipped bit could be in the throttle time, where clients do not notice it.
_CORRUPT_BITS = 16


def answer(request: InterceptedRequest, *, error: ErrorCode) -> bool:
    """Respond with an error without handling the request. A Metadata request is handled, and the
    topics in its response get the error. For a Produce with acks=0, close the connection."""
    record = request.record
    if record.api == "Metadata":
        # The response must list the brokers, or the client cannot connect to them.
        request.on_response = lambda: request.respond(_with_error(record.response, error))
        return False
    if record.api == "Produce" and record.message.acks == 0:
        request.context.close_connection(f"a fault of this test: {error.name.upper()}")
        return True
    # After an error the client starts a new fetch session.
    request.node.fetch_sessions.close(getattr(record.message, "session_id", NO_SESSION))
    request.respond(error_response(record.api_key, record.version, record.message, error))
    return True


def delay(request: InterceptedRequest, *, ms: int) -> bool:
    """Handle the request, and all later requests on its connection, after a delay."""
    request.hold()
    request.call_later(ms, request.resume)
    return True


def delay_answer(request: InterceptedRequest, *, ms: int) -> bool:
    """Handle the request now and respond after a delay."""
    request.on_response = lambda: request.call_later(ms, request.send)
    return False


def never_answer(request: InterceptedRequest) -> bool:
    """Neither handle the request nor respond; the connection stays open."""
    request.hold()
    return True


def drop(request: InterceptedRequest) -> bool:
    """Close the connection before the request is handled."""
    request.hold()  # Later requests in the same read are not handled either.
    request.abort()
    return True


def lose_answer(request: InterceptedRequest) -> bool:
    """Handle the request, then close the connection instead of responding."""
    request.on_response = request.abort
    return False


def apply_late(request: InterceptedRequest, *, ms: int) -> bool:
    """Close the connection now and handle the request after a delay, during which its client may
    retry on another connection."""
    request.call_later(ms, request.handle)
    request.abort()
    return True


def close_mid_frame(request: InterceptedRequest) -> bool:
    """Handle the request, send half of the response, then close the connection."""

    def send_half() -> None:
        request.connection.close_after_responses(
            "a fault of this test closes it in the middle of a response"
        )
        frame = request.record.response_frame or b""
        request.send(frame[: len(frame) // 2])

    request.on_response = send_half
    return False


def trickle(request: InterceptedRequest) -> bool:
    """Send the response, and all later responses on the connection, one byte at a time."""

    def send() -> None:
        request.connection.wrap_transport(lambda each: PacedTransport(each, Pace(1)))
        request.send()

    request.on_response = send
    return False


def throttle(request: InterceptedRequest, *, ms: int) -> bool:
    """Handle the request, set the throttle time of the response, and stop reading requests from the
    connection for that long (KIP-219)."""

    def respond() -> None:
        response = request.record.response
        if hasattr(response, THROTTLE_FIELD):
            duration = {THROTTLE_FIELD: timedelta(milliseconds=ms)}
            request.respond(replace(response, **duration))
        else:  # an old version without a throttle time
            request.send()
        request.throttle(ms)

    request.on_response = respond
    return False


def corrupt(request: InterceptedRequest, *, seed: int) -> bool:
    """Flip some bits of the response after its correlation id."""
    request.on_response = lambda: request.send(
        _corrupted(request.record.response_frame or b"", seed)
    )
    return False


def _corrupted(frame: bytes, seed: int) -> bytes:
    damaged, chance = bytearray(frame), random.Random(seed)
    for _ in range(_CORRUPT_BITS if len(frame) > _INTACT_BYTES else 0):
        damaged[chance.randrange(_INTACT_BYTES, len(frame))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def _with_error(response: Any, error: ErrorCode) -> Any:
    """Return a Metadata response with this error for each of its topics."""
    topics = tuple(replace(each, error_code=error, partitions=()) for each in response.topics)
    return replace(response, topics=topics)


# --- error responses

# Error responses are built from the schemas, so that every API of the broker can return errors. The
# error is set at the highest level that has an error field (a whole JoinGroup, a group of an
# OffsetFetch, a partition of an OffsetCommit). Names and ids are copied from the request.

# Errors of an OffsetFetch that Kafka sets per partition, although the group has an error field.
_PARTITION_ERRORS: Final = frozenset(
    {
        ErrorCode.unstable_offset_commit,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.topic_authorization_failed,
        ErrorCode.unknown_topic_id,
    }
)
_FETCH_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)

# For each response array, the request arrays that contain the corresponding items.
_REQUEST_ARRAYS: Final = {
    "responses": ("topics", "topic_names", "topic_data", "resources"),
    "partition_responses": ("partition_data",),
    "partition_result": ("partitions",),
    "partitions": ("partitions", "partition_indexes"),
    "coordinators": ("coordinator_keys",),
    "results": (
        *("resources", "topics", "groups_names", "creations"),
        *("deletions", "upsertions"),
    ),
    "filter_results": ("filters",),
    "groups": ("groups", "group_ids"),
    "transaction_states": ("transactional_ids",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "replica_election_results": ("topic_partitions",),
}
# For each response field that repeats a request field, its possible names in the request.
_REPEATED_FIELDS: Final = {
    **{name: (name,) for name in ("group_id", "group_instance_id", "index", "key", "member_id")},
    **{name: (name,) for name in ("partition_id", "resource_name", "resource_type", "topic_id")},
    "name": ("name", "topic"),
    "partition": ("partition", "partition_index"),
    "partition_index": ("partition_index", "partition", "index", "partition_id"),
    "topic": ("topic", "name"),
    "topic_name": ("name",),
    "transactional_id": ("transactional_id",),
    "user": ("name",),
}
# Fields that are -1, not 0, in Kafka's error responses.
_MINUS_ONE: Final = {
    *("base_offset", "committed_leader_epoch", "committed_offset", "end_offset", "generation_id"),
    *("high_watermark", "last_stable_offset", "leader_epoch", "log_start_offset", "node_id"),
    *("offset", "port", "preferred_read_replica", "producer_epoch", "producer_id"),
}


def has_error_code(api_key: int, version: int) -> bool:
    """Whether the response has a field for an error."""
    return _has_error_code(response_schema(api_key, version))


def error_response(api_key: int, version: int, request: Any, error: ErrorCode) -> Any:
    """Return an object with the fields of the response, for `RequestContext.respond`."""
    if api_key == ALTER_REPLICA_LOG_DIRS:
        # The response lists the topics of all directories together.
        topics = (topic for each in request.dirs for topic in each.topics)
        request = SimpleNamespace(topics=tuple(topics))
    if api_key == FETCH:
        is_top_level = error in _FETCH_SESSION_ERRORS
    else:
        is_top_level = api_key != OFFSET_FETCH or error not in _PARTITION_ERRORS
    return _response(response_schema(api_key, version), request, error, is_top_level)


def _has_error_code(schema: Schema) -> bool:
    fields = schema.all_fields
    return any(field.name in ERROR_FIELDS for field in fields) or any(
        _has_error_code(field.struct) for field in fields if field.is_array and field.struct
    )


def _response(
    schema: Schema, request: Any, error: ErrorCode, is_top_level: bool
) -> SimpleNamespace:
    """Return an error response for this schema. `is_top_level`: set the error at this level if it
    has an error field, rather than in the items of its arrays."""
    fields = schema.all_fields
    arrays = [
        field
        for field in fields
        if field.is_array and field.struct and _has_error_code(field.struct)
    ]
    is_here = any(field.name in ERROR_FIELDS for field in fields) and (is_top_level or not arrays)
    values: dict[str, Any] = {}
    for field in fields:
        if field.name in ERROR_FIELDS:
            values[field.name] = error if is_here else ErrorCode.none
        elif field.struct and field in arrays and not is_here:
            values[field.name] = [
                _response(field.struct, item, error, is_top_level)
                for item in _request_items(field, request)
            ]
        else:
            values[field.name] = _value(field, request)
    return SimpleNamespace(**values)


def _request_items(field: Field, request: Any) -> Iterator[Any]:
    for name in _REQUEST_ARRAYS.get(field.name, (field.name,)):
        items = getattr(request, name, None)
        if isinstance(items, tuple):
            for item in items:
                yield item if not isinstance(item, int | str | UUID) else _under_all_names(item)


def _under_all_names(item: int | str | UUID) -> SimpleNamespace:
    """Return an object that holds the plain value `item` under every name that `_value` tries."""
    if isinstance(item, int):
        return SimpleNamespace(partition_index=item, partition=item, partition_id=item)
    if isinstance(item, str):
        names = ("key", "group_id", "name", "transactional_id")
        return SimpleNamespace(**dict.fromkeys(names, item))
    return SimpleNamespace(topic_id=item)


def _value(field: Field, request: Any) -> Any:
    """Return the value from the request, or an empty one."""
    if field.name == "producer_id" and hasattr(request, "transaction_result"):
        return request.producer_id  # the item is a transaction marker
    for name in _REPEATED_FIELDS.get(field.name, ()):
        value = getattr(request, name, None)
        if value is not None:
            return value
    if field.is_array:
        return []
    if not field.required:
        return field.default
    if field.nullable:
        return None
    if field.struct is not None:
        return _response(field.struct, None, ErrorCode.none, True)
    return _empty(field)


def _empty(field: Field) -> Any:
    kind = field.type
    if "timedelta" in kind:
        return timedelta()
    if "datetime" in kind:
        return datetime.fromtimestamp(0, UTC)
    if kind == "uuid":
        return None
    if kind == "bool":
        return False
    if kind == "string":
        return ""
    if kind in ("bytes", "records"):
        return b""
    return -1 if field.name in _MINUS_ONE else 0
