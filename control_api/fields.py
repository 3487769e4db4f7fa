"""What an endpoint may be given: the parameters of its function, as JSON Schema.

The schema that the document shows is the one that is checked, so neither can say what the other
does not. A type with bounds is written `Annotated[int, Within(1, 100)]`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

Schema = dict[str, Any]

# Kafka's names of topics and clients have at most 249 letters; group ids may be longer.
NAME_LETTERS_MAX: Final = 1000
# One request waits at most so long; who wants to wait longer asks again.
TIMEOUT_SECONDS_MAX: Final = 600
# What a broker in memory makes within a second.
PARTITIONS_MAX: Final = 10_000
# Values in one request, and things in one answer: some megabytes of JSON.
ITEMS_MAX: Final = 10_000
# Ten years: a retention that is longer is not waited for.
AHEAD_DAYS_MAX: Final = 10 * 366
AHEAD_SECONDS_MAX: Final = AHEAD_DAYS_MAX * 24 * 3600
# Of what is wrong, so much is told.
SHOWN_LETTERS_MAX: Final = 100
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True)
class Within:
    """Bounds, both included: of a number, of the letters of a text, of the items of a list."""

    low: int
    high: int
    note: str = ""


Name = Annotated[str, Within(1, NAME_LETTERS_MAX)]
Partition = Annotated[int, Within(0, INT32_MAX)]
Node = Annotated[int, Within(0, INT32_MAX)]
Seed = Annotated[int, Within(0, INT32_MAX)]
Partitions = Annotated[int, Within(1, PARTITIONS_MAX)]
Offset = Annotated[int, Within(0, INT64_MAX)]
Count = Annotated[int, Within(1, INT32_MAX)]
Limit = Annotated[int, Within(1, ITEMS_MAX)]
Timeout = Annotated[float, Within(0, TIMEOUT_SECONDS_MAX, "seconds of wall time")]
Days = Annotated[float, Within(0, AHEAD_DAYS_MAX)]
Hours = Annotated[float, Within(0, AHEAD_DAYS_MAX * 24)]
Minutes = Annotated[float, Within(0, AHEAD_SECONDS_MAX // 60)]
Seconds = Annotated[float, Within(0, AHEAD_SECONDS_MAX)]
Milliseconds = Annotated[int, Within(0, AHEAD_SECONDS_MAX * 1000)]
Texts = Annotated[list[str | None], Within(0, ITEMS_MAX)]

_TYPES: Final = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}
_WORDS: Final = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_BOUNDS: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum"),
}


@dataclass(frozen=True)
class Field:
    """One thing that an endpoint is given."""

    name: str
    schema: Schema
    is_required: bool


def fields_of(function: Callable[..., Any]) -> list[Field]:
    """One for each parameter of the function but the first, which is what it works on."""
    hints = get_type_hints(function, include_extras=True)
    fields = []
    for name, parameter in list(signature(function).parameters.items())[1:]:
        schema = _schema(hints[name])
        if parameter.default not in (Parameter.empty, None):
            schema["default"] = parameter.default
        fields.append(Field(name, schema, parameter.default is Parameter.empty))
    return fields


def checked(fields: list[Field], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, if it is what the fields say; raises ValueError with a sentence."""
    known = {field.name: field for field in fields}
    for name in given.keys() - known.keys():
        raise ValueError(f"there is no field {name} here; there is: {', '.join(known) or 'none'}")
    for field in fields:
        if field.is_required and field.name not in given:
            raise ValueError(f"{field.name} is missing")
    for name, value in given.items():
        _check(name, known[name].schema, value)
    return dict(given)


def from_text(field: Field, text: str) -> Any:
    """A value of a query string, or of a path; raises ValueError with a sentence."""
    kind = _kinds(field.schema)[0]
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except ValueError:
        raise ValueError(f"{field.name} is {_WORDS[kind]}, not {_short(text)}") from None
    return text


def _schema(kind: Any) -> Schema:
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        schema, within = _schema(inside[0]), inside[1]
        low, high = _BOUNDS[schema["type"]]
        note = {"description": within.note} if within.note else {}
        return {**schema, low: within.low, high: within.high, **note}
    if origin in (Union, UnionType):
        nullable, *others = sorted(map(_schema, inside), key=lambda each: each["type"] != "null")
        assert nullable["type"] == "null", "a field is of one kind, or null"
        assert len(others) == 1, "a field is of one kind, or null"
        return {**others[0], "type": [others[0]["type"], "null"]}
    if origin is Literal:
        return {"type": "string", "enum": list(inside)}
    if origin is list:
        return {"type": "array", "items": _schema(inside[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(inside[1])}
    return {"type": _TYPES[kind]}


def _kinds(schema: Schema) -> list[str]:
    return schema["type"] if isinstance(schema["type"], list) else [schema["type"]]


def _check(name: str, schema: Schema, value: Any) -> None:
    kinds = _kinds(schema)
    if not any(_is(kind, value) for kind in kinds):
        wanted = " or ".join(_WORDS[kind] for kind in kinds)
        raise ValueError(f"{name} is {wanted}, not {_short(value)}")
    if "enum" in schema and value is not None and value not in schema["enum"]:
        raise ValueError(f"{name} is one of {', '.join(schema['enum'])}, not {_short(value)}")
    for kind in kinds:
        low, high = _BOUNDS.get(kind, ("", ""))
        size = len(value) if isinstance(value, str | list) else value
        if value is not None and low in schema and size < schema[low]:
            raise ValueError(f"{name} is at least {_bound(kind, schema[low])}, not {_short(size)}")
        if value is not None and high in schema and size > schema[high]:
            raise ValueError(f"{name} is at most {_bound(kind, schema[high])}, not {_short(size)}")
    if isinstance(value, str) and not value.isascii() and not _is_text(value):
        raise ValueError(f"{name} has a letter that UTF-8 has not: {_short(value)}")
    if isinstance(value, list):
        for place, each in enumerate(value):
            _check(f"{name}[{place}]", schema["items"], each)
    if isinstance(value, dict):
        for key, each in value.items():
            _check(f"a name in {name}", {"type": "string"}, key)
            _check(f"{name}.{key}", schema["additionalProperties"], each)


def _is(kind: str, value: Any) -> bool:
    if kind in ("integer", "number") and isinstance(value, bool):
        return False
    if kind == "number":
        return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    python = {"array": list, "object": dict, **{word: type_ for type_, word in _TYPES.items()}}
    return isinstance(value, python[kind])


def _is_text(value: str) -> bool:
    """Whether it can be sent: JSON may name halves of letters (`\\ud800`)."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


_OF: Final = {"string": "letters long", "array": "items long", "integer": "", "number": ""}


def _bound(kind: str, bound: int) -> str:
    return f"{bound} {_OF[kind]}".rstrip()


def _short(value: Any) -> str:
    """As much of it as belongs into a sentence."""
    said = repr(value)
    return said if len(said) <= SHOWN_LETTERS_MAX else f"{said[:SHOWN_LETTERS_MAX]}…"
