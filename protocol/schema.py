"""Schemas: the fields of one version of a message, from which decoders and encoders are generated.

Schemas of requests and responses come from kio's dataclasses (messages.py). All other schemas are
declared once for all versions, in the notation of Kafka's message JSON: versions are "0+", "1" or
"2-4", and types are "int32", "string", "[]string", "Member" or "[]Member".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

FIXED: Final[Mapping[str, str]] = {
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
"""Fixed-size types and their `struct` formats."""

STRUCT: Final = "struct"
"""Type of a nested structure."""

NO_DEFAULT: Final = object()
"""Marks a required field."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message. For arrays, `type` and `struct` describe the items."""

    name: str
    """The name in the schema, and the key in decoded dicts."""
    attribute: str
    """The name of the field's attribute in messages."""
    type: str
    struct: "Schema | None" = None
    is_array: bool = False
    nullable: bool = False
    tag: int | None = None
    default: Any = NO_DEFAULT
    is_topic_name: bool = False

    @property
    def required(self) -> bool:
        return self.default is NO_DEFAULT


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """One version of a message or of a nested structure."""

    title: str
    """For error messages: `OffsetCommitRequest v8`."""
    is_flexible: bool
    fields: tuple[Field, ...]
    tagged_fields: tuple[Field, ...] = ()
    """Tagged fields, ordered by tag."""
    message_class: type | None = None
    """The class of decoded messages: a NamedTuple, or a class that is instantiated without
    arguments and then filled."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults by attribute for fields that this version lacks (NamedTuples only)."""

    @property
    def all_fields(self) -> tuple[Field, ...]:
        return self.fields + self.tagged_fields


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field of a declared message, as in Kafka's JSON. If `type` is a structure, `fields`
    contains its fields, and is repeated wherever the structure is used. `attribute` is the Python
    name if it differs from `name` in snake case."""

    name: str
    type: str
    versions: str
    nullable: str = "none"
    tagged: str = "none"
    tag: int | None = None
    default: Any = NO_DEFAULT
    fields: tuple["FieldSpec", ...] = ()
    message_class: Any = None
    attribute: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class MessageSpec:
    """A declared message with all its versions."""

    name: str
    versions: str
    fields: tuple[FieldSpec, ...]
    flexible: str = "none"
    message_class: type | None = None

    @property
    def max_version(self) -> int:
        return _range(self.versions)[1]

    def schema(self, version: int) -> Schema:
        return _schema(
            f"{self.name} v{version}",
            version,
            self.fields,
            self.message_class,
            is_flexible=_includes(self.flexible, version),
        )


def _schema(
    title: str,
    version: int,
    specs: tuple[FieldSpec, ...],
    message_class: type | None,
    *,
    is_flexible: bool,
) -> Schema:
    fields: list[Field] = []
    defaults: dict[str, Any] = {}
    for spec in specs:
        attribute = spec.attribute or _snake_case(spec.name)
        if not _includes(spec.versions, version):
            defaults[attribute] = spec.default
            continue
        item_type = spec.type.removeprefix("[]")
        struct = None
        if item_type[0].isupper():
            struct = _schema(
                title, version, spec.fields, spec.message_class, is_flexible=is_flexible
            )
        fields.append(
            Field(
                spec.name,
                attribute,
                STRUCT if struct is not None else item_type,
                struct,
                is_array=spec.type.startswith("[]"),
                nullable=_includes(spec.nullable, version),
                tag=spec.tag if _includes(spec.tagged, version) else None,
                default=spec.default,
            )
        )
    return Schema(title, is_flexible, *split_tagged(fields), message_class, defaults)


def split_tagged(fields: list[Field]) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """Return the untagged fields, and the tagged fields ordered by tag."""
    tagged = sorted((each for each in fields if each.tag is not None), key=lambda f: f.tag or 0)
    return tuple(each for each in fields if each.tag is None), tuple(tagged)


def _includes(versions: str, version: int) -> bool:
    if versions == "none":
        return False
    lowest, highest = _range(versions)
    return lowest <= version <= highest


@cache
def _range(versions: str) -> tuple[int, int]:
    if versions.endswith("+"):
        return int(versions[:-1]), 32_767
    lowest, _, highest = versions.partition("-")
    return int(lowest), int(highest or lowest)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
