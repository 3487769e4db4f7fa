"""What kio's schema dataclasses say about their fields, for those that turn them into code.

Only what is in the dataclass is asked (type, default, kio's metadata), nothing of kio's inside.
"""

import types
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Final, get_args, get_origin

from kio.schema.types import TopicName

# Kafka's name of a type of fixed size -> its letter in `struct`.
FIXED: Final = {
    "bool": "?",
    "datetime_i64": "q",
    "error_code": "h",
    "float64": "d",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "uuid": "16s",
}

ENTITY: Final = "entity"


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field of one version of a message. For an array, `type` and `entity` are its items'."""

    name: str
    type: str
    """Kafka's name of the type, with kio's refinements: `int32`, `timedelta_i32`, `entity` …"""
    entity: Any
    """The dataclass of a nested structure, else None."""
    array: bool
    nullable: bool
    tag: int | None
    default: Any
    """What a message that lacks the field means; MISSING if it must have it."""
    topic_name: bool
    """The value is one of few that come again and again."""

    @property
    def required(self) -> bool:
        return self.default is MISSING


@cache
def schema_fields(entity: Any) -> tuple[SchemaField, ...]:
    """The fields of a kio dataclass in wire order, tagged ones last, by tag."""
    found = [_schema_field(field) for field in fields(entity)]
    plain = [field for field in found if field.tag is None]
    tagged = sorted((f for f in found if f.tag is not None), key=lambda f: f.tag or 0)
    if tagged and not is_flexible(entity):
        raise TypeError(f"{entity.__name__} has tagged fields, but is not flexible")
    return (*plain, *tagged)


def is_flexible(entity: Any) -> bool:
    flexible: bool = entity.__flexible__
    return flexible


def title(entity: Any) -> str:
    """For messages to people: `OffsetCommitResponse v8`."""
    return f"{entity.__name__} v{entity.__version__}"


def _schema_field(field: Any) -> SchemaField:
    declared, nullable = _without_none(field.type)
    array = get_origin(declared) is tuple
    if array:
        # An array's own null is written `tuple[…] | None`; items are never null in Kafka.
        declared = get_args(declared)[0]
    entity = declared if is_dataclass(declared) else None
    tag = field.metadata.get("tag")
    if tag is not None and field.default is MISSING:
        raise TypeError(f"tagged field {field.name} has no default")
    return SchemaField(
        name=field.name,
        type=ENTITY if entity is not None else field.metadata["kafka_type"],
        entity=entity,
        array=array,
        nullable=nullable,
        tag=tag,
        default=field.default,
        topic_name=declared is TopicName,
    )


def _without_none(declared: Any) -> tuple[Any, bool]:
    if get_origin(declared) is not types.UnionType:
        return declared, False
    (inner,) = (each for each in get_args(declared) if each is not types.NoneType)
    return inner, True
