"""The largest requests of an API version. There is one for each array of its schema, in which that
array has as many items as a request may have."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from support.kio_messages import shape
from support.wire import message_of, message_type

# Values of fields with which a request is accepted. Times are in milliseconds.
VALUES: dict[str, Any] = {
    "acks": 1,
    "committed_metadata": "",
    "current_leader_epoch": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "member_epoch": -1,
    "num_partitions": 1,
    "protocol_type": "consumer",
    "rebalance_timeout": 60_000,
    "replica_id": -1,
    "replication_factor": 1,
    "resource_type": 2,
    "response_partition_limit": 2000,
    "session_epoch": -1,
    "session_timeout": 60_000,
    "timeout": 60_000,
}
TOPIC_FIELDS = {"topic", "name", "topic_name", "topic_names", "resource_name", "topics"}
# Numbered from zero within their array.
INDEX_FIELDS = {
    "partition", "partition_index", "partition_indexes", "index", "partitions", "broker_ids",
    "replicas",
}  # fmt: skip


class Largest(NamedTuple):
    """`array`: the path of the long array, as in `topics.partitions`."""

    array: str
    items: int
    request: Any


class LargestRequests:
    """`items`: the number of items of all arrays of a request. Topics outside of the long array are
    `topic`."""

    def __init__(self, items: int, topic: str, topic_id: UUID) -> None:
        self._items = items
        self._topic = topic
        self._topic_id = topic_id

    def of(self, api: str, version: int) -> Iterator[Largest]:
        request_type = message_type(api, version, "Request")
        for path, inner in _arrays(request_type, ()):
            count = self._items // (1 + inner)
            values = self._fields(request_type, path, count)
            # Each request has its own group, because members of earlier ones have not left.
            values |= {"group_id": f"{version} {path}"}
            yield Largest(".".join(path), count, message_of(request_type, values))

    def _fields(
        self, entity: Any, path: tuple[str, ...], count: int, number: int | None = None
    ) -> dict[str, Any]:
        """The fields of a structure: the `number`th item of the long array or a part of it, or one
        from which `path` leads to the array."""
        values = {}
        has_name = "name" in entity.__dataclass_fields__
        for field in dataclasses.fields(entity):
            item, is_array, _ = shape(field)
            name = field.name
            is_struct = dataclasses.is_dataclass(item)
            if not is_array and not is_struct:
                value = self._value(name, item, number)
                # Topics have a name or an id.
                if value is not None and not (has_name and item is UUID):
                    values[name] = value
                continue
            if number is None and path[:1] != (name,):
                continue
            is_long = path == (name,)
            parts = [
                self._fields(item, path[1:], count, each if is_long else number)
                if is_struct
                else self._value(name, item, each if is_long else number)
                for each in range(count if is_long else 1)
            ]
            values[name] = parts if is_array else parts[0]
        return values

    def _value(self, name: str, kind: Any, number: int | None) -> Any:
        """The value of a field or of an item; None: its default."""
        if name in VALUES:
            return VALUES[name]
        if kind is UUID:
            return self._topic_id if number is None else UUID(int=number + 1)
        if issubclass(kind, str):
            if number is not None:
                return f"n{number}"
            return self._topic if name in TOPIC_FIELDS else ""
        if issubclass(kind, bytes):
            return b""
        if issubclass(kind, int) and not issubclass(kind, bool):
            return (number or 0) if name in INDEX_FIELDS else None
        return None


def _arrays(entity: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """The paths of all arrays, and how many arrays are inside of each."""
    for field in dataclasses.fields(entity):
        item, is_array, _ = shape(field)
        inside = list(_arrays(item, ())) if dataclasses.is_dataclass(item) else []
        if is_array:
            yield (*above, field.name), len(inside)
        for path, inner in inside:
            yield (*above, field.name, *path), inner
