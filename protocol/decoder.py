"""Generates a decoder for each message schema. Decoders turn bytes into messages.

Input is untrusted. Array counts are checked against the remaining bytes before memory is allocated,
strings are limited to 32,767 bytes, and a message that extends beyond `end` is rejected. Decoders
are as lenient as Kafka's generated classes: they accept unknown tagged fields (KIP-482), any
negative length as null, bytes after the end of a message, and malformed UTF-8, which is replaced.
"""

import dataclasses
import datetime
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from struct import Struct, calcsize
from struct import error as StructError  # noqa: N812
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from .apis import STRING_BYTES_MAX
from .codegen import FunctionSource, ItemLimit
from .primitives import JAVA_ERRORS, read_unsigned_varint, skip_tagged_fields, uuid_text
from .schema import FIXED, Field, Schema

Decoder: TypeAlias = Callable[[bytes, int, int], Any]
"""(buffer, start, end) -> the message."""
FieldLocator: TypeAlias = Callable[[bytes, int, int], list[tuple[int, str]]]
"""(buffer, start, end) -> position and `struct` letter of each matching field."""

_ERRORS: Final = (IndexError, KeyError, OverflowError, StructError, ValueError)
_RAISE_NULL: Final = "raise ValueError('is null, which its schema does not allow')"


def compile_decoder(
    schema: Schema,
    error: type[Exception],
    *,
    strict: bool = False,
    as_dict: bool = False,
    limit: ItemLimit | None = None,
) -> Decoder:
    """Return a decoder that raises `error` with the field and its position. If `strict`, malformed
    UTF-8 is an error. If `as_dict`, messages are dicts with the schema's names, which can be
    converted to JSON. `limit` applies to the number of items in all arrays."""
    if strict:
        return _DecoderSource(schema, as_dict=as_dict).compile(error)

    # Strict decoding comes first, because errors="replace" costs 10 ns per string.
    @cache
    def replacing() -> Decoder:
        return _DecoderSource(schema, JAVA_ERRORS, as_dict=as_dict, limit=limit).compile(error)

    source = _DecoderSource(schema, as_dict=as_dict, limit=limit)
    return source.compile(error, lambda *arguments: replacing()(*arguments))


def compile_finder(schema: Schema, error: type[Exception], name: str) -> FieldLocator:
    """Return a function that finds the numeric fields called `name`, in order of position."""
    return _DecoderSource(schema, JAVA_ERRORS, find=name).compile(error)


class _Fixed(NamedTuple):
    """A fixed-size field, or a length prefix."""

    letter: str  # `struct` letter
    target: str  # assignment target
    path: str
    name: str = ""


@dataclasses.dataclass
class _DecoderSource:
    """Generates the source of one decoder. Each instance is used once. Adjacent fields of fixed
    size, plus a length that follows them, form a run, which is unpacked with one struct. In the
    generated code, `p` is the position in the buffer. The check that `p` is not beyond the end
    comes last."""

    schema: Schema
    errors: str = "strict"  # as in bytes.decode
    as_dict: bool = False
    find: str | None = None  # return the positions of the fields with this name
    limit: ItemLimit | None = None
    code: FunctionSource = dataclasses.field(default_factory=lambda: FunctionSource(_SCOPE))
    run: list[_Fixed] = dataclasses.field(default_factory=list)
    after_run: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # (path, line)

    def compile(self, error: type[Exception], replacing: Decoder | None = None) -> Decoder:
        """Return the decoder. `replacing` is used for messages with malformed UTF-8."""
        code = self.code
        if self.find is not None:
            code.line("found = []")
        message = self._struct(self.schema)
        code.note = ""
        code.line("if p > end: raise IndexError")
        code.line(f"return {message if self.find is None else 'found'}")
        source = ["def decode(buffer, p, end):", "    start = p", *self._items_left(), "    try:"]
        code.scope["failed"] = _failure(self.schema.title, error, [""] * len(source) + code.notes)
        source += [f"        {line}" for line in code.lines]
        if replacing is not None:
            code.scope["replacing"] = replacing
            source += [
                "    except UnicodeDecodeError:",
                "        return replacing(buffer, start, end)",
            ]
        source += [
            "    except ERRORS as error:",
            "        raise failed(error, p - start, end - start) from None\n",
        ]
        return code.compile(self.schema.title, "\n".join(source), "decode")

    def compile_tagged(self, field: Field) -> Callable[[bytes, int, int], tuple[Any, int]]:
        """Return a function that decodes one tagged field and returns its value and end."""
        self._field(field, "value", is_flexible=True)
        self._flush()
        lines = (f"    {line}" for line in [*self.code.lines, "return value, p"])
        source = "\n".join(("def decode(buffer, p, end):", *self._items_left(), *lines))
        return self.code.compile(f"{self.schema.title} {field.name}", source, "decode")

    def _items_left(self) -> list[str]:
        return [] if self.limit is None else [f"    left = {self.limit.items_max}"]

    # Structures

    def _struct(self, schema: Schema) -> str:
        """Return an expression for the decoded structure."""
        code, message_class = self.code, schema.message_class
        if self.as_dict:
            values = {each.name: code.name("v") for each in schema.fields}
            tagged = self._fields(schema, values)
            items = [f"{name!r}: {value}" for name, value in values.items()]
            if tagged is not None:
                items.append(f"**{tagged}")
            return f"{{{', '.join(items)}}}"
        assert message_class is not None, f"{schema.title} has no message class"
        if issubclass(message_class, tuple):
            values = {each.name: code.name("v") for each in schema.all_fields}
            self._fields(schema, values)
            return self._tuple(schema, message_class, values)
        # Create an empty instance and set its slots. This is faster than creating a tuple, and
        # three times as fast as creating a dataclass.
        message = code.name("m")
        code.line(f"{message} = {code.constant('class', message_class)}()")
        self._fields(schema, {f.name: f"{message}.{f.attribute}" for f in schema.all_fields})
        return message

    def _tuple(self, schema: Schema, message_class: Any, values: Mapping[str, str]) -> str:
        by_attribute = {each.attribute: values[each.name] for each in schema.all_fields}
        defaults = {**message_class._field_defaults, **schema.defaults}
        arguments = [
            by_attribute.get(name) or self.code.constant("default", defaults[name])
            for name in message_class._fields
        ]
        # Twice as fast as the generated NamedTuple constructor.
        return f"new({self.code.constant('class', message_class)}, ({', '.join(arguments)},))"

    def _fields(self, schema: Schema, targets: Mapping[str, str]) -> str | None:
        """Emit all fields. If `as_dict`, return the variable that holds the tagged fields."""
        for field in schema.fields:
            self._field(field, targets[field.name], is_flexible=schema.is_flexible)
        tagged = self._tagged_fields(schema, targets) if schema.is_flexible else None
        self._flush()
        return tagged

    def _tagged_fields(self, schema: Schema, targets: Mapping[str, str]) -> str | None:
        code, count = self.code, self.code.name("t")
        self.run.append(_Fixed("B", count, self.code.note))
        self._flush(back=1)
        if not schema.tagged_fields:
            code.line(f"if {count}: p = skip_tagged_fields(buffer, p, end)")
            code.line("else: p += 1")
            return None
        readers = {
            field.tag: (
                field.name,
                _DecoderSource(
                    schema, self.errors, as_dict=self.as_dict, limit=self.limit
                ).compile_tagged(field),
            )
            for field in schema.tagged_fields
        }
        tags, values = code.constant("readers", readers), code.name("tagged")
        read = f"{values}, p = read_tagged_fields(buffer, p, end, {tags})"
        if self.as_dict:
            code.line(read)
            return values
        with code.block(f"if {count}:"):
            code.line(read)
            for field in schema.tagged_fields:
                default = code.constant("default", field.default)
                code.line(f"{targets[field.name]} = {values}.get({field.name!r}, {default})")
        with code.block("else:"):
            code.line("p += 1")
            for field in schema.tagged_fields:
                code.line(f"{targets[field.name]} = {code.constant('default', field.default)}")
        return None

    def _field(self, field: Field, target: str, *, is_flexible: bool) -> None:
        path = self.code.note
        self.code.note = f"{path}.{field.name}" if path else field.name
        if field.is_array:
            self._array(field, target, is_flexible=is_flexible)
        else:
            self._item(field, target, nullable=field.nullable, is_flexible=is_flexible)
        self.code.note = path

    def _item(self, field: Field, target: str, *, nullable: bool, is_flexible: bool) -> None:
        if field.type in FIXED:
            self._fixed(field, target)
        elif field.struct is not None and nullable:
            self._nullable_struct(field, field.struct, target)
        elif field.struct is not None:
            self._assign(target, self._struct(field.struct))
        elif field.type == "string":
            self._string(target, nullable=nullable, is_flexible=is_flexible)
        elif field.type in ("bytes", "records"):
            self._bytes(target, nullable=nullable, is_flexible=is_flexible)
        else:
            raise TypeError(f"{field.name} has the unknown type {field.type}")

    def _assign(self, target: str, value: str) -> None:
        self.code.line(f"{target} = {value}")

    # Runs of fixed size

    def _fixed(self, field: Field, target: str) -> None:
        convert = _CONVERSIONS.get(field.type)
        if convert is not None:
            if field.type == "uuid" and self.as_dict:
                convert = "uuid_text({})"
            if field.type == "error_code":
                self.code.scope["ERROR_CODES"] = _error_codes()
            raw = self.code.name("v")
            self.after_run.append((self.code.note, f"{target} = {convert.format(raw)}"))
            target = raw
        self.run.append(_Fixed(FIXED[field.type], target, self.code.note, field.name))

    def _flush(self, back: int = 0) -> None:
        """Emit the run, and advance `p` to `back` bytes before its end."""
        if not self.run:
            return
        code, run, self.run = self.code, self.run, []
        letters = "".join(each.letter for each in run)
        path, code.note = code.note, run[0].path
        for place, each in enumerate(run):
            if each.name and each.name == self.find:
                offset = calcsize(f">{letters[:place]}")
                code.line(f"found.append((p + {offset}, {each.letter!r}))")
        if len(run) <= 2 and set(letters) <= {"B", "?"}:  # takes a third as long as unpack_from
            for place, each in enumerate(run):
                position = f"p + {place}" if place else "p"
                is_true = " != 0" if each.letter == "?" else ""
                code.line(f"{each.target} = buffer[{position}]{is_true}")
        else:
            targets = ", ".join(each.target for each in run)
            unpack = code.constant("unpack", _struct(letters).unpack_from)
            code.line(f"{targets}, = {unpack}(buffer, p)")
        size = calcsize(f">{letters}") - back
        if size:
            code.line(f"p += {size}")
        lines, self.after_run = self.after_run, []
        for code.note, line in lines:
            code.line(line)
        code.note = path

    def _length(self, letter: str, *, is_flexible: bool) -> str:
        """End the run with a length prefix. `p` is then after the prefix, or at the prefix if it is
        a compact length, which may take more than one byte."""
        length = self.code.name("n")
        self.run.append(_Fixed("B" if is_flexible else letter, length, self.code.note))
        self._flush(back=int(is_flexible))
        return length

    # Values of variable size

    def _string(self, target: str, *, nullable: bool, is_flexible: bool) -> None:
        code, length = self.code, self._length("h", is_flexible=is_flexible)
        if is_flexible:
            # `p` still points at the compact length.
            with code.block(f"if {length} > 127:"):
                code.line(f"{target}, p = long_string(buffer, p, {self.errors!r})")
                if not nullable:
                    code.line(f"if {target} is None: {_RAISE_NULL}")
            with code.block(f"elif {length}:"):
                code.line(f"e = p + {length}")
                code.line(f"{target} = buffer[p + 1 : e].{self._decode_text()}")
                code.line("p = e")
        else:
            with code.block(f"if {length} >= 0:"):
                code.line(f"e = p + {length}")
                code.line(f"{target} = buffer[p:e].{self._decode_text()}")
                if self.errors == JAVA_ERRORS:
                    code.line(
                        f"if {length} > {_MAY_GROW}: check_string_size(len({target}.encode()))"
                    )
                code.line("p = e")
        self._else_null(target, nullable=nullable, is_flexible=is_flexible)

    def _decode_text(self) -> str:
        return "decode()" if self.errors == "strict" else f"decode('utf-8', {self.errors!r})"

    def _bytes(self, target: str, *, nullable: bool, is_flexible: bool) -> None:
        code, length = self.code, self._length("i", is_flexible=is_flexible)
        if is_flexible:
            with code.block(f"if {length} > 127:"):
                code.line(f"{length}, p = read_unsigned_varint(buffer, p)")
                code.line("p -= 1")
            with code.block(f"if {length}:"):
                code.line(f"e = p + {length}")
                code.line(f"{target} = buffer[p + 1 : e]")
                code.line("p = e")
        else:
            with code.block(f"if {length} >= 0:"):
                code.line(f"e = p + {length}")
                code.line(f"{target} = buffer[p:e]")
                code.line("p = e")
        self._else_null(target, nullable=nullable, is_flexible=is_flexible)

    def _else_null(self, target: str, *, nullable: bool, is_flexible: bool) -> None:
        with self.code.block("else:"):
            self.code.line(f"{target} = None" if nullable else _RAISE_NULL)
            if is_flexible and nullable:
                self.code.line("p += 1")

    def _nullable_struct(self, field: Field, struct: Schema, target: str) -> None:
        """Emit a structure after its marker byte (KIP-893). The marker of null is negative, or 0 in
        a tagged field."""
        marker = self.code.name("n")
        self.run.append(_Fixed("b", marker, self.code.note))
        self._flush()
        null = "> 0" if field.tag is not None else ">= 0"
        with self.code.block(f"if {marker} {null}:"):
            self._assign(target, self._struct(struct))
        self.code.line(f"else: {target} = None")

    # Arrays

    def _array(self, field: Field, target: str, *, is_flexible: bool) -> None:
        code, count = self.code, self._length("i", is_flexible=is_flexible)
        if is_flexible:
            code.line(f"if {count} > 127: {count}, p = read_unsigned_varint(buffer, p)")
            code.line("else: p += 1")
            code.line(f"{count} -= 1")
        with code.block(f"if {count} > 0:"):
            self._items(field, target, count, is_flexible=is_flexible)
        empty = "[]" if self.as_dict else "()"
        if field.nullable:
            code.line(f"else: {target} = None if {count} else {empty}")
        else:
            code.line(f"elif {count}: {_RAISE_NULL}")
            code.line(f"else: {target} = {empty}")

    def _items(self, field: Field, target: str, count: str, *, is_flexible: bool) -> None:
        code, size = self.code, _item_bytes_min(field, is_flexible=is_flexible)
        total = count if size == 1 else f"{count} * {size}"
        code.line(f"if {total} > end - p: raise too_many_items({count})")
        if self.limit is not None:
            code.line(f"left -= {count}")
            code.line(f"if left < 0: raise {code.constant('limit', self.limit.error)}()")
        if field.type in FIXED and field.type not in _CONVERSIONS:
            items = f"unpack_many({FIXED[field.type]!r}, {count}, buffer, p)"
            self._assign(target, f"list({items})" if self.as_dict else items)
            code.line(f"p += {total}")
            return
        items, item = code.name("items"), code.name("v")
        code.line(f"{items} = []")
        if field.struct is not None and self._has_fixed_size_items(field.struct):
            self._fixed_size_items(field.struct, items, count, size)
        with code.block(f"while {count}:"):  # faster than range() for typical counts
            code.line(f"{count} -= 1")
            if field.struct is not None:
                item = self._struct(field.struct)
            else:
                self._item(field, item, nullable=False, is_flexible=is_flexible)
                self._flush()
            code.line(f"{items}.append({item})")
        self._assign(target, items if self.as_dict else f"tuple({items})")

    def _has_fixed_size_items(self, struct: Schema) -> bool:
        """Whether items usually have the same size: their only variable-size parts are strings that
        are usually null or empty, and tagged fields that are usually absent."""
        return (
            self.find is None
            and not self.as_dict
            and not issubclass(struct.message_class or tuple, tuple)
            and all(
                not field.is_array
                and (field.type in FIXED or (field.type == "string" and field.nullable))
                for field in struct.fields
            )
        )

    def _fixed_size_items(self, struct: Schema, items: str, count: str, size: int) -> None:
        """Fast path: unpack all items with one struct if each has the minimum size (25% faster for
        large commits and fetches). Otherwise, the item loop decodes all items again."""
        code, message = self.code, self.code.name("m")
        longer: list[str] = []  # conditions
        for field in struct.fields:
            target = f"{message}.{field.attribute}"
            if field.type in FIXED:
                self._fixed(field, target)
                continue
            length = code.name("n")
            empty = length if struct.is_flexible else f"{length} == 0"
            longer.append(f"{length} > {int(struct.is_flexible)}")
            self.run.append(_Fixed("B" if struct.is_flexible else "h", length, code.note))
            self.after_run.append((code.note, f"{target} = '' if {empty} else None"))
        if struct.is_flexible:
            longer.append(code.name("t"))
            self.run.append(_Fixed("B", longer[-1], code.note))
            for field in struct.tagged_fields:
                default = code.constant("default", field.default)
                self.after_run.append((code.note, f"{message}.{field.attribute} = {default}"))
        run, self.run = self.run, []
        lines, self.after_run = self.after_run, []
        unpack = code.constant("unpack", _struct("".join(each.letter for each in run)).iter_unpack)
        targets = ", ".join(each.target for each in run)
        create = f"{message} = {code.constant('class', struct.message_class)}()"
        with code.block(f"if {count} > 1:"):
            code.line(create)
            with code.block(f"for {targets}, in {unpack}(buffer[p : p + {count} * {size}]):"):
                if longer:
                    with code.block(f"if {' or '.join(longer)}:"):
                        code.line(f"{items}.clear()")
                        code.line("break")
                for _, line in lines:
                    code.line(line)
                code.line(f"{items}.append({message})")
                code.line(create)
            with code.block("else:"):
                code.line(f"p += {count} * {size}")
                code.line(f"{count} = 0")


# Minimum sizes, for checking array counts


def _field_bytes_min(field: Field, *, is_flexible: bool) -> int:
    if field.is_array:
        return 1 if is_flexible else 4
    if field.struct is not None and field.nullable:
        return 1
    return _item_bytes_min(field, is_flexible=is_flexible)


def _item_bytes_min(field: Field, *, is_flexible: bool) -> int:
    if field.type in FIXED:
        return calcsize(">" + FIXED[field.type])
    if field.struct is not None:
        flexible = field.struct.is_flexible
        sizes = (_field_bytes_min(each, is_flexible=flexible) for each in field.struct.fields)
        return sum(sizes) + flexible
    if is_flexible:
        return 1
    return 2 if field.type == "string" else 4


# Functions called by generated code


@cache
def _struct(letters: str) -> Struct:
    return Struct(f">{letters}")


def _unpack_many(letter: str, count: int, buffer: bytes, position: int) -> tuple[Any, ...]:
    form = f"{count}{letter}"
    return (_struct(form) if count <= 64 else Struct(f">{form}")).unpack_from(buffer, position)


def _read_tagged_fields(
    buffer: bytes,
    position: int,
    end: int,
    known: Mapping[int, tuple[str, Callable[[bytes, int, int], tuple[Any, int]]]],
) -> tuple[dict[str, Any], int]:
    values = {}
    count, position = read_unsigned_varint(buffer, position)
    for _ in range(count):
        tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        if tag in known:
            name, read = known[tag]
            values[name], position = read(buffer, position, end)
        else:
            position += size
        if position > end:
            raise IndexError
    return values, position


# A malformed byte becomes U+FFFD (three bytes), so the text may grow.
_MAY_GROW: Final = STRING_BYTES_MAX // 3


def _check_string_size(size: int) -> None:
    if size > STRING_BYTES_MAX:
        raise ValueError(f"has {size} bytes, but a string may have at most {STRING_BYTES_MAX}")


def _long_string(buffer: bytes, position: int, errors: str) -> tuple[str | None, int]:
    """Decode a string whose compact length takes more than one byte."""
    length, position = read_unsigned_varint(buffer, position)
    if length == 0:
        return None, position
    _check_string_size(length - 1)
    end = position + length - 1
    text = buffer[position:end].decode("utf-8", errors)
    if length > _MAY_GROW:
        _check_string_size(len(text.encode()))
    return text, end


def _too_many_items(count: int) -> ValueError:
    return ValueError(f"claims {count} items, more than fit into the remaining bytes")


_EPOCH: Final = datetime.datetime.fromtimestamp(0, tz=datetime.UTC)


# Cached, because construction is slow, and few distinct durations and ids occur.
@lru_cache(1024)
def _duration(milliseconds: int) -> datetime.timedelta:
    try:
        return datetime.timedelta(milliseconds=milliseconds)
    except OverflowError:  # beyond 2.7 million years
        return datetime.timedelta.max if milliseconds > 0 else datetime.timedelta.min


@lru_cache(4096)
def _uuid(encoded: bytes) -> UUID | None:
    return UUID(bytes=encoded) if any(encoded) else None


def _timestamp(milliseconds: int) -> datetime.datetime | None:
    if milliseconds == -1:
        return None
    return _EPOCH + datetime.timedelta(milliseconds=milliseconds)


@cache
def _error_codes() -> dict[int, Any]:
    # Imported here because reading logs does not need kio.
    from kio.schema.errors import ErrorCode

    return {code.value: code for code in ErrorCode}


_CONVERSIONS: Final[Mapping[str, str]] = {
    "datetime_i64": "timestamp({})",
    "error_code": "ERROR_CODES[{}]",
    "timedelta_i32": "duration({})",
    "timedelta_i64": "duration({})",
    "uuid": "uuid({})",
}
"""Expressions that convert numbers on the wire to kio's Python types."""

_SCOPE: Final[Mapping[str, Any]] = {
    "ERRORS": _ERRORS,
    "check_string_size": _check_string_size,
    "duration": _duration,
    "long_string": _long_string,
    "new": tuple.__new__,
    "read_tagged_fields": _read_tagged_fields,
    "read_unsigned_varint": read_unsigned_varint,
    "skip_tagged_fields": skip_tagged_fields,
    "timestamp": _timestamp,
    "too_many_items": _too_many_items,
    "unpack_many": _unpack_many,
    "uuid": _uuid,
    "uuid_text": uuid_text,
}


def _failure(
    title: str, error_class: type[Exception], paths: list[str]
) -> Callable[[Exception, int, int], Exception]:
    """Return a function that describes errors. `paths` contains a field path per source line."""

    def failed(error: Exception, position: int, size: int) -> Exception:
        line = error.__traceback__.tb_lineno if error.__traceback__ is not None else 0
        path = paths[line - 1]
        if isinstance(error, UnicodeDecodeError):
            reason = "is not UTF-8"
        elif isinstance(error, IndexError | StructError):
            reason = "ends early"
        elif isinstance(error, KeyError):
            reason = f"has the unknown error code {error}"
        else:
            reason = str(error)
        place = f"at byte {min(position, size)} of {size}"
        return error_class(
            f"{title}: {path} {reason} ({place})" if path else f"{title} {reason} ({place})"
        )

    return failed
