"""Why a message could not be written: the field, by its path, and what is wrong with its value.

Only looked for once a writer has failed, so writers need not check what struct refuses anyway.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any

from .fields import ENTITY, FIXED, SchemaField, schema_fields, title

_MISSING = object()


def explain(entity: Any, message: Any, error: Exception) -> str:
    """One sentence for the log."""
    for path, trouble in _troubles(entity, message, ""):
        return f"{title(entity)} cannot be written: {path} {trouble}"
    return f"{title(entity)} cannot be written: {error}"


def _troubles(entity: Any, message: Any, path: str) -> Iterator[tuple[str, str]]:
    for field in schema_fields(entity):
        here = f"{path}.{field.name}" if path else field.name
        value: Any = getattr(message, field.name, _MISSING)
        if value is _MISSING:
            if field.required:
                yield here, f"is missing ({type(message).__name__} has no such attribute)"
        elif value is None:
            if not field.nullable and field.type != "uuid":
                yield here, "is None, which its schema does not allow"
        elif not field.array:
            yield from _value_troubles(field, value, here)
        elif not hasattr(value, "__len__") or isinstance(value, str | bytes):
            yield here, f"is {type(value).__name__}, not a sequence"
        else:
            for index, item in enumerate(value):
                yield from _value_troubles(field, item, f"{here}[{index}]")


def _value_troubles(field: SchemaField, value: Any, path: str) -> Iterator[tuple[str, str]]:
    trouble: str | None = None
    if field.type == ENTITY:
        yield from _troubles(field.entity, value, path)
    elif field.type == "string":
        trouble = _text_trouble(value)
    elif field.type in ("bytes", "records"):
        if not isinstance(value, bytes | bytearray | memoryview):
            trouble = f"is {type(value).__name__}, not bytes"
    elif FIXED[field.type] in "bhiqBHIQd":
        trouble = _number_trouble(field.type, value)
    if trouble is not None:
        yield path, trouble


def _text_trouble(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"is {type(value).__name__}, not str"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "has a character that UTF-8 cannot encode"
    return f"has {size} bytes, a string at most 32767" if size > 0x7FFF else None


def _number_trouble(kafka_type: str, value: Any) -> str | None:
    if kafka_type.startswith(("timedelta", "datetime")):
        wanted = "total_seconds" if kafka_type.startswith("timedelta") else "timestamp"
        return None if hasattr(value, wanted) else f"is {value!r}, not a {kafka_type[:-4]}"
    try:
        Struct(f">{FIXED[kafka_type]}").pack(value)
    except StructError:
        return f"is {value!r}, not of the type {kafka_type}"
    return None
