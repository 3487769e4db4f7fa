"""Messages of any kio schema: the smallest, the largest, and a Hypothesis strategy.

Derived from the types of kio's dataclasses, independently of `protocol.messages`.
"""

import dataclasses
import datetime
import functools
import uuid
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kohort.conformance.wire import shape
from kohort.protocol.apis import APIS, Api

EVERY_VERSION = [
    (api, version) for api in APIS for version in range(api.min_version, api.max_version + 1)
]

_EPOCH = datetime.datetime.fromtimestamp(0, tz=datetime.UTC)
_INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}


def version_id(value: Any) -> str:
    return value.name if isinstance(value, Api) else f"v{value}"


def loose(message: Any) -> Any:
    """Return the same values in plain objects, with arrays as lists."""
    if dataclasses.is_dataclass(message):
        names = [field.name for field in dataclasses.fields(message)]
        return SimpleNamespace(**{name: loose(getattr(message, name)) for name in names})
    return [loose(item) for item in message] if isinstance(message, tuple) else message


def largest(entity: Any) -> Any:
    """No nulls, extreme numbers, long strings, and all tagged fields."""
    values = {}
    for field in dataclasses.fields(entity):
        declared, array, _ = shape(field)
        if dataclasses.is_dataclass(declared):
            items: tuple[Any, ...] = (largest(declared),) * 3
        else:
            items = (_LARGE[field.metadata["kafka_type"]],) * 200
        values[field.name] = items if array else items[0]
    return entity(**values)


_LARGE: dict[str, Any] = {
    **{name: 2**bits - 1 for name, bits in _INTEGERS.items()},
    **{name: 2**bits - 1 for name, bits in _UNSIGNED.items()},
    **dict.fromkeys(["timedelta_i32", "timedelta_i64"], datetime.timedelta(milliseconds=2**31 - 1)),
    **dict.fromkeys(["bytes", "records"], bytes(range(256)) * 80),
    "bool": True,
    "datetime_i64": _EPOCH + datetime.timedelta(days=20_000),
    "error_code": ErrorCode.unknown_server_error,
    "float64": -1.5,
    "string": "größer " * 30,
    "uuid": uuid.UUID(int=2**128 - 1),
}


@functools.cache  # building a strategy takes longer than drawing from it
def messages(entity: Any) -> st.SearchStrategy[Any]:
    """Any message of this kio class."""
    return st.builds(entity, **{f.name: _values(f) for f in dataclasses.fields(entity)})


def _values(field: Any) -> st.SearchStrategy[Any]:
    declared, array, nullable = shape(field)
    if dataclasses.is_dataclass(declared):
        strategy = messages(declared)
    else:
        strategy = _primitives(field.metadata["kafka_type"])
    if array:
        strategy = st.lists(strategy, max_size=3).map(tuple)
    if "tag" in field.metadata:
        strategy = st.just(field.default) | strategy
    return st.none() | strategy if nullable else strategy


def _primitives(kafka_type: str) -> st.SearchStrategy[Any]:
    if kafka_type in _INTEGERS:
        limit = 2 ** _INTEGERS[kafka_type]
        return st.integers(-limit, limit - 1)
    if kafka_type in _UNSIGNED:
        return st.integers(0, 2 ** _UNSIGNED[kafka_type] - 1)
    if kafka_type in ("timedelta_i32", "timedelta_i64"):
        milliseconds = st.just(0) | st.integers(-(2**31), 2**31 - 1)
        return milliseconds.map(lambda ms: datetime.timedelta(milliseconds=ms))
    return {
        "bool": st.booleans(),
        "bytes": st.binary(max_size=300),
        "datetime_i64": st.integers(0, 2**32).map(lambda s: _EPOCH + datetime.timedelta(seconds=s)),
        "error_code": st.sampled_from(ErrorCode),
        "float64": st.floats(allow_nan=False),
        "records": st.binary(max_size=300),
        "string": st.text(max_size=150),
        "uuid": st.uuids().filter(lambda each: each.int != 0) | st.none(),
    }[kafka_type]
