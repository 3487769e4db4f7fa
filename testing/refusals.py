"""The answer of a broker that refuses a request, for any API and version: made from kio's schemas,
so that an API which we learn to serve can be refused in a test from that day on.

An error stands as high as the answer has room for it (a whole JoinGroup, a group of an OffsetFetch,
a partition of an OffsetCommit), and what is refused repeats the names of what was asked for.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

from ..protocol.errors import ErrorCode
from ..protocol.messages import response_schema
from ..protocol.schema import Field, Schema

FETCH: Final = 1
OFFSET_FETCH: Final = 9

# Errors of an OffsetFetch that Kafka puts at single partitions, though there is room above.
_OF_PARTITIONS: Final = frozenset(
    {
        ErrorCode.unstable_offset_commit,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.topic_authorization_failed,
        ErrorCode.unknown_topic_id,
    }
)
_OF_FETCH_SESSIONS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)

# What a response calls its parts -> what their request calls them.
_ASKED: Final = {
    "responses": ("topics", "topic_names", "topic_data", "resources"),
    "partition_responses": ("partition_data",),
    "partition_result": ("partitions",),
    "partitions": ("partitions", "partition_indexes"),
    "coordinators": ("coordinator_keys",),
    "groups": ("groups",),
    "results": ("resources", "topics", "groups_names", "creations"),
    "filter_results": ("filters",),
    "topics": ("topics",),
    "members": ("members",),
    "transaction_states": ("transactional_ids",),
    "replica_election_results": ("topic_partitions",),
}
# What an answer repeats of its request, and under which names it finds it there.
_REPEATED: Final = {
    "group_id": ("group_id",),
    "group_instance_id": ("group_instance_id",),
    "index": ("index",),
    "key": ("key",),
    "member_id": ("member_id",),
    "name": ("name", "topic"),
    "partition": ("partition", "partition_index"),
    "partition_id": ("partition_id",),
    "partition_index": ("partition_index", "partition", "index", "partition_id"),
    "resource_name": ("resource_name",),
    "resource_type": ("resource_type",),
    "topic": ("topic", "name"),
    "topic_id": ("topic_id",),
    "transactional_id": ("transactional_id",),
}
# Numbers whose "nothing" is not 0 (upstream: each error's constructor).
_MINUS_ONE: Final = frozenset(
    {
        "base_offset",
        "committed_leader_epoch",
        "committed_offset",
        "end_offset",
        "generation_id",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "node_id",
        "offset",
        "port",
        "preferred_read_replica",
        "producer_epoch",
        "producer_id",
    }
)


def can_refuse(key: int, version: int) -> bool:
    """Whether the answer has room for an error."""
    return _has_room(response_schema(key, version))


def refusal(key: int, version: int, request: Any, error: ErrorCode) -> Any:
    """What a handler would reply: an object with the fields of the response."""
    if key == FETCH:
        above = error in _OF_FETCH_SESSIONS
    else:
        above = key != OFFSET_FETCH or error not in _OF_PARTITIONS
    return _refused(response_schema(key, version), request, error, above=above)


def _has_room(schema: Schema) -> bool:
    fields = schema.all_fields
    return any(field.name == "error_code" for field in fields) or any(
        _has_room(field.struct) for field in fields if field.is_array and field.struct is not None
    )


def _refused(schema: Schema, asked: Any, error: ErrorCode, *, above: bool) -> SimpleNamespace:
    fields = schema.all_fields
    inner = [
        field
        for field in fields
        if field.is_array and field.struct is not None and _has_room(field.struct)
    ]
    is_here = any(field.name == "error_code" for field in fields) and (above or not inner)
    values: dict[str, Any] = {}
    for field in fields:
        if field.name == "error_code":
            values[field.name] = error if is_here else ErrorCode.none
        elif field.struct is not None and field in inner and not is_here:
            values[field.name] = [
                _refused(field.struct, each, error, above=above) for each in _parts(field, asked)
            ]
        else:
            values[field.name] = _value(field, asked)
    return SimpleNamespace(**values)


def _parts(field: Field, asked: Any) -> Iterator[Any]:
    for name in _ASKED.get(field.name, (field.name,)):
        found = getattr(asked, name, None)
        if isinstance(found, tuple):
            for each in found:
                yield each if not isinstance(each, int | str | UUID) else _named(each)
            return


def _named(each: int | str | UUID) -> SimpleNamespace:
    """A bare number or name in a request, as an object that has it under all of its names."""
    if isinstance(each, int):
        return SimpleNamespace(partition_index=each, partition=each, partition_id=each)
    if isinstance(each, str):
        names = ("key", "group_id", "name", "transactional_id")
        return SimpleNamespace(**dict.fromkeys(names, each))
    return SimpleNamespace(topic_id=each)


def _value(field: Field, asked: Any) -> Any:
    """What the request says of it, or nothing."""
    for name in _REPEATED.get(field.name, ()):
        found = getattr(asked, name, None)
        if found is not None:
            return found
    if field.is_array:
        return []
    if not field.required:
        return field.default
    if field.nullable:
        return None
    if field.struct is not None:
        return _refused(field.struct, None, ErrorCode.none, above=True)
    return _nothing(field)


def _nothing(field: Field) -> Any:
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
