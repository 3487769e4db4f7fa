"""A second, slow reader of request bodies, for what kio refuses and Kafka takes.

Kafka ignores tagged fields that it does not know (KIP-482), replaces what is not UTF-8, and takes
any negative length for null. Asked only after kio has failed; what fails here too is refused.
"""

import datetime
from struct import Struct
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from .apis import STRING_BYTES_MAX
from .errors import UndecodableBody
from .fields import (
    ENTITY,
    FIXED,
    SchemaField,
    is_flexible,
    schema_fields,
    title,
)
from .primitives import java_text, read_unsigned_varint

_STRUCTS: Final = {kafka_type: Struct(">" + letter) for kafka_type, letter in FIXED.items()}
_EPOCH: Final = datetime.datetime.fromtimestamp(0, tz=datetime.UTC)


def read_leniently(entity: Any, buffer: bytes, start: int, end: int) -> Any:
    """The message of this type at the beginning of buffer[start:end]. Raises UndecodableBody."""
    reader = _Reader(buffer, start, end)
    try:
        return reader.entity(entity)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise UndecodableBody(
            f"{title(entity)} at byte {reader.position - start}: {error}"
        ) from error


class _Reader:
    def __init__(self, buffer: bytes, position: int, end: int) -> None:
        self._buffer = buffer
        self.position = position
        self._end = end

    def entity(self, entity: Any) -> Any:
        flexible = is_flexible(entity)
        fields = schema_fields(entity)
        values = {
            field.name: self._field(field, flexible=flexible)
            for field in fields
            if field.tag is None
        }
        if flexible:
            tagged = {field.tag: field for field in fields if field.tag is not None}
            values.update(self._tagged(tagged))
        return entity(**values)

    def _take(self, size: int) -> bytes:
        start, self.position = self.position, self.position + size
        if size < 0 or self.position > self._end:
            raise ValueError(f"{size} bytes are wanted, {self._end - start} are left")
        return self._buffer[start : self.position]

    def _number(self, kafka_type: str) -> Any:
        form = _STRUCTS[kafka_type]
        return form.unpack(self._take(form.size))[0]

    def _varint(self) -> int:
        value, self.position = read_unsigned_varint(self._buffer, self.position)
        self._take(0)
        return value

    def _tagged(self, known: dict[int, SchemaField]) -> dict[str, Any]:
        values = {}
        for _ in range(self._varint()):
            tag = self._varint()
            size = self._varint()
            field = known.get(tag)
            if field is None:
                self._take(size)
            else:
                values[field.name] = self._field(field, flexible=True)
        return values

    def _length(self, kafka_type: str, *, flexible: bool) -> int:
        return self._varint() - 1 if flexible else int(self._number(kafka_type))

    def _field(self, field: SchemaField, *, flexible: bool) -> Any:
        if not field.array:
            return self._item(field, nullable=field.nullable, flexible=flexible)
        count = self._length("int32", flexible=flexible)
        if count < 0:
            return self._null(field, nullable=field.nullable)
        if count > self._end - self.position:
            raise ValueError(f"{field.name} claims {count} items, more than bytes are left")
        return tuple(self._item(field, nullable=False, flexible=flexible) for _ in range(count))

    def _null(self, field: SchemaField, *, nullable: bool) -> None:
        if not nullable:
            raise ValueError(f"{field.name} is null, which its schema does not allow")

    def _item(self, field: SchemaField, *, nullable: bool, flexible: bool) -> Any:
        if field.type in FIXED:
            return _refined(field.type, self._number(field.type))
        if field.type == ENTITY:
            if nullable and self._number("int8") < 0:
                return None
            return self.entity(field.entity)
        length = self._length("int16" if field.type == "string" else "int32", flexible=flexible)
        if length < 0:
            return self._null(field, nullable=nullable)
        held = self._take(length)
        if field.type != "string":
            return held
        text = java_text(held)
        if length > STRING_BYTES_MAX // 3 and len(text.encode()) > STRING_BYTES_MAX:
            # One byte that is not UTF-8 becomes three.
            raise ValueError(f"{field.name} is longer than a string may be")
        return text


def _refined(kafka_type: str, value: Any) -> Any:
    """kio's own Python types for what Kafka's schemas call a number."""
    if kafka_type == "uuid":
        return UUID(bytes=value) if any(value) else None
    if kafka_type.startswith("timedelta"):
        try:
            return datetime.timedelta(milliseconds=value)
        except OverflowError:
            # Some 2.7 million years and more: for ever, or long gone.
            return datetime.timedelta.max if value > 0 else datetime.timedelta.min
    if kafka_type == "datetime_i64":
        return None if value == -1 else _EPOCH + datetime.timedelta(milliseconds=value)
    if kafka_type == "error_code":
        return ErrorCode(value)
    return value
