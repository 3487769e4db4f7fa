"""Generates an encoder for each message schema. Encoders turn messages into bytes.

An encoder reads the attributes of any object (a kio message of any version, or kohort's own
tuples). Unknown attributes are ignored. For a missing attribute, the encoder writes the schema's
default, or 0 for throttle times; without a default, encoding fails.

Runs of adjacent fixed-size fields are packed with one struct. The first run starts with the frame
size and response header. The pieces are joined at the end, so large records are copied once, or not
at all if the caller takes the list of buffers.
"""

import datetime
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, Final, TypeAlias

from .apis import STRING_BYTES_MAX
from .budgets import RESPONSE_BYTES_MAX
from .codegen import FunctionSource, ItemLimit
from .errors import ResponseTooLarge
from .primitives import unsigned_varint
from .schema import FIXED, Field, Schema

BodyEncoder: TypeAlias = Callable[[Any], bytes]
"""(message) -> its bytes without a header."""
FrameEncoder: TypeAlias = Callable[[Any, int], bytes]
"""(message, correlation id) -> the frame: size, response header and body."""
BuffersEncoder: TypeAlias = Callable[[Any, int], list[Any]]
"""Like FrameEncoder, but returns several buffers, so that records are not copied."""

NAMES_MAX: Final = 4096
"""Maximum number of cached topic names. The cache is cleared when it is full."""

NAME_LENGTH_MAX: Final = 249
"""Maximum length of a topic name. Together with NAMES_MAX, it limits each of the two caches to a
few MB."""

STRING_BYTES_PER_ITEM: Final = 256
NUMBERS_PER_ITEM: Final = 50
"""A long string counts as one item per 256 bytes, and an array of numbers as one item per 50
numbers. Together with RESPONSE_ITEMS_MAX, this limits a response to about RESPONSE_BYTES_MAX."""

THROTTLE_TIME: Final = "throttle_time"

# Arrays of these types are packed with one struct.
_NUMBERS: Final = frozenset(
    {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float64"}
)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


def compile_body_encoder(schema: Schema, error: type[Exception]) -> BodyEncoder:
    return _EncoderSource(schema, error).compile_body()


def compile_frame_encoder(
    schema: Schema,
    error: type[Exception],
    *,
    flexible_header: bool,
    in_buffers: bool = False,
    limit: ItemLimit | None = None,
) -> Callable[[Any, int], Any]:
    """Return a FrameEncoder, or a BuffersEncoder if `in_buffers`. The encoder raises `error` for a
    message that does not follow the schema. If the schema contains bytes fields, the encoder also
    raises ResponseTooLarge for more than RESPONSE_BYTES_MAX bytes. The size of other messages is
    limited by their number of items.

    With `flexible_header`, the header is response header v1, which ends with tagged fields. The
    encoder raises the error of the `limit` before it encodes the items beyond the limit. Long
    strings and arrays of numbers count as several items.
    """
    source = _EncoderSource(schema, error, limit)
    return source.compile_frame(flexible_header=flexible_header, in_buffers=in_buffers)


class _EncoderSource:
    """Generates the source of one encoder. Each instance is used once."""

    def __init__(
        self, schema: Schema, error: type[Exception], limit: ItemLimit | None = None
    ) -> None:
        self._schema = schema
        self._error = error
        self._limit = limit
        self._code = FunctionSource(_SCOPE)
        self._run: list[tuple[str, str]] = []  # (struct letter, expression; none for padding)
        self._sink = "append"
        self._head: str | None = None  # the expression of the frame's first run
        self._head_is_open = False
        self._has_large_values = False

    def compile_frame(self, *, flexible_header: bool, in_buffers: bool) -> Callable[..., Any]:
        self._run = [("i", "SIZE"), ("i", "correlation_id")]
        if flexible_header:
            self._run.append(("x", ""))
        self._head_is_open = True
        self._fields(self._schema, "message")
        if self._head_is_open:
            # The message has a fixed size, so a single struct packs the whole frame.
            lines = [f"return {self._pack_expression(self._run).replace('SIZE', '0')}"]
            return self._compile("message, correlation_id", lines)
        self._flush()
        assert self._head is not None
        left = [] if self._limit is None else [f"left = {self._limit.items_max}"]
        lines = ["out = []", "append = out.append", *left, *self._code.lines]
        if self._has_large_values:
            lines[0] = "out = [b'']"
            lines += [
                "size = sum(map(len, out))",
                f"if size > {RESPONSE_BYTES_MAX}: raise too_large(size)",
                f"out[0] = {self._head.replace('SIZE', 'size')}",
                "return out" if in_buffers else "return join(out)",
            ]
        else:
            head = self._head.replace("SIZE", "len(body)")
            lines += ["body = join(out)", f"return {head} + body"]
        return self._compile("message, correlation_id", lines)

    def compile_body(self) -> BodyEncoder:
        self._fields(self._schema, "message")
        self._flush()
        lines = ["out = []", "append = out.append", *self._code.lines, "return join(out)"]
        return self._compile("message", lines)

    def _compile(self, parameters: str, body: list[str]) -> Callable[..., Any]:
        schema, error = self._schema, self._error
        self._code.scope["failed"] = lambda message, reason: error(explain(schema, message, reason))
        self._code.scope["too_large"] = lambda size: ResponseTooLarge(
            f"{schema.title} of {size} bytes exceeds the maximum size of a response "
            f"({RESPONSE_BYTES_MAX}): request less data at a time"
        )
        source = [
            f"def encode({parameters}):",
            "    try:",
            *(f"        {line}" for line in body),
            "    except ERRORS as error:",
            "        raise failed(message, error) from error\n",
        ]
        return self._code.compile(schema.title, "\n".join(source), "encode")

    # Runs of fixed size

    def _pack_expression(self, run: list[tuple[str, str]]) -> str:
        form = ">" + "".join(letter for letter, _ in run)
        arguments = [expression for letter, expression in run if letter != "x"]
        if not arguments:
            return self._code.constant("padding", bytes(len(run)))
        pack = self._code.constant("pack", Struct(form).pack)
        if arguments[0] == "SIZE":
            arguments[0] = f"SIZE + {Struct(form).size - 4}"
        return f"{pack}({', '.join(arguments)})"

    def _flush(self) -> None:
        """End the run."""
        if self._run:
            run, self._run = self._run, []
            self._append_run(self._pack_expression(run))

    def _flush_with_compact(self, length: str, encode: str) -> None:
        """End the run with a compact length (nearly always one byte)."""
        run, self._run = self._run, []
        short = self._pack_expression([*run, ("B", length)])
        long = f"{encode}({length})"
        if run and run[0][1] == "SIZE":
            pack = self._pack_expression(run)
            rest = self._code.name("n")
            self._code.line(f"{rest} = {long}")
            long = f"{pack.replace('SIZE', f'SIZE + len({rest})')} + {rest}"
        elif run:
            long = f"{self._pack_expression(run)} + {long}"
        self._append_run(f"({short} if {length} < 128 else {long})")

    def _append_run(self, expression: str) -> None:
        if self._head_is_open:
            self._head = expression
            self._head_is_open = False
        else:
            self._code.line(f"{self._sink}({expression})")

    # Fields

    def _fields(self, schema: Schema, message: str) -> None:
        for field in schema.fields:
            self._field(field, self._load(field, message), is_flexible=schema.is_flexible)
        if schema.tagged_fields:
            self._tagged_fields(schema, message)
        elif schema.is_flexible:
            self._run.append(("x", ""))  # no tagged fields

    def _load(self, field: Field, message: str) -> str:
        if field.attribute == THROTTLE_TIME:
            default = "NO_THROTTLE"
        elif field.required:
            return f"{message}.{field.attribute}"
        else:
            default = self._code.constant("default", field.default)
        return f"getattr({message}, {field.attribute!r}, {default})"

    def _field(self, field: Field, value: str, *, is_flexible: bool) -> None:
        if field.is_array:
            self._array(field, value, is_flexible=is_flexible)
        else:
            self._item(field, value, nullable=field.nullable, is_flexible=is_flexible)

    def _item(self, field: Field, value: str, *, nullable: bool, is_flexible: bool) -> None:
        if field.type in FIXED:
            number = self._number(field.type, value, nullable=nullable)
            self._run.append((FIXED[field.type], number))
        elif field.struct is not None:
            self._structure(field.struct, value, nullable=nullable)
        elif field.is_topic_name:
            self._topic_name(value, nullable=nullable, is_flexible=is_flexible)
        elif field.type == "string":
            self._string(value, nullable=nullable, is_flexible=is_flexible)
        elif field.type in ("bytes", "records"):
            self._bytes(value, nullable=nullable, is_flexible=is_flexible)
        else:
            raise TypeError(f"{field.name} has the unknown type {field.type}")

    def _number(self, kafka_type: str, value: str, *, nullable: bool) -> str:
        """Convert kio's Python types to wire numbers."""
        local = self._code.name("v")
        if kafka_type == "uuid":
            return f"(NULL_UUID if ({local} := {value}) is None else {local}.bytes)"
        if kafka_type in ("timedelta_i32", "timedelta_i64"):
            # The value is usually timedelta(0), which is falsy.
            return f"(duration_ms({local}) if ({local} := {value}) else 0)"
        if kafka_type == "datetime_i64":
            if nullable:
                return f"(-1 if ({local} := {value}) is None else timestamp_ms({local}))"
            return f"timestamp_ms({value})"
        return value

    def _structure(self, struct: Schema, value: str, *, nullable: bool) -> None:
        code, local = self._code, self._code.name("v")
        code.line(f"{local} = {value}")
        if not nullable:
            self._fields(struct, local)
            return
        # A marker byte, negative for null, precedes the structure (KIP-893).
        self._flush()
        code.line(f"if {local} is None: {self._sink}(b'\\xff')")
        with code.block("else:"):
            self._run.append(("b", "1"))
            self._fields(struct, local)
            self._flush()

    def _topic_name(self, value: str, *, nullable: bool, is_flexible: bool) -> None:
        self._flush()
        local = self._code.name("v")
        self._code.line(f"{local} = {value}")
        kind = "compact" if is_flexible else "legacy"
        encoded = f"{kind}_names_get({local}) or {kind}_name({local})"
        if nullable:
            null = b"\x00" if is_flexible else b"\xff\xff"
            encoded = f"{null!r} if {local} is None else {encoded}"
        self._code.line(f"{self._sink}({encoded})")

    def _string(self, value: str, *, nullable: bool, is_flexible: bool) -> None:
        text = self._code.name("s")
        if nullable:
            self._code.line(f"{text} = {value}")
            self._code.line(f"if {text} is not None: {text} = {text}.encode()")
        else:
            self._code.line(f"{text} = {value}.encode()")
        length = self._sized(text, "h", "string_length", nullable=nullable, is_flexible=is_flexible)
        if self._limit is not None:
            with self._code.block(f"if {length} >= {STRING_BYTES_PER_ITEM}:"):
                self._count_items(f"{length} // {STRING_BYTES_PER_ITEM}", self._limit)

    def _bytes(self, value: str, *, nullable: bool, is_flexible: bool) -> None:
        if self._sink == "append":
            self._has_large_values = True
        local = self._code.name("b")
        self._code.line(f"{local} = {value}")
        self._sized(local, "i", "unsigned_varint", nullable=nullable, is_flexible=is_flexible)

    def _sized(
        self, local: str, letter: str, encode: str, *, nullable: bool, is_flexible: bool
    ) -> str:
        """Emit the length and the bytes of a variable. Return the variable of the length."""
        length = self._length(local, letter, encode, nullable=nullable, is_flexible=is_flexible)
        self._code.line(f"{'if ' + local + ': ' if nullable else ''}{self._sink}({local})")
        return length

    def _length(
        self, local: str, letter: str, encode: str, *, nullable: bool, is_flexible: bool
    ) -> str:
        """Emit the encoded length of a variable. Return the variable that holds it."""
        length = self._code.name("n")
        counted = f"len({local}) + 1" if is_flexible else f"len({local})"
        if nullable:
            counted = f"{0 if is_flexible else -1} if {local} is None else {counted}"
        self._code.line(f"{length} = {counted}")
        if is_flexible:
            self._flush_with_compact(length, encode)
        else:
            self._run.append((letter, length))
            self._flush()
        return length

    def _array(self, field: Field, value: str, *, is_flexible: bool) -> None:
        code, items, item = self._code, self._code.name("v"), self._code.name("e")
        code.line(f"{items} = {value}")
        count = self._length(
            items, "i", "unsigned_varint", nullable=field.nullable, is_flexible=is_flexible
        )
        if field.type in _NUMBERS:
            if self._limit is not None:
                with code.block(f"if {count} >= {NUMBERS_PER_ITEM}:"):
                    self._count_items(f"{count} // {NUMBERS_PER_ITEM}", self._limit)
            code.line(f"if {items}: {self._sink}(pack_many({FIXED[field.type]!r}, {items}))")
            return
        if self._limit is not None:
            self._count_items(count, self._limit)
        with code.block(f"for {item} in {items} or ():"):
            if field.struct is not None:
                self._fields(field.struct, item)
            else:
                self._item(field, item, nullable=False, is_flexible=is_flexible)
            self._flush()
            code.line("pass")

    def _count_items(self, count: str, limit: ItemLimit) -> None:
        self._code.line(f"left -= {count}")
        self._code.line(f"if left < 0: raise {self._code.constant('limit', limit.error)}()")

    def _tagged_fields(self, schema: Schema, message: str) -> None:
        """Emit the tagged fields that differ from their defaults (KIP-482)."""
        self._flush()
        code, tags = self._code, self._code.name("t")
        code.line(f"{tags} = []")
        for field in schema.tagged_fields:
            default = code.constant("default", field.default)
            local, encoded = code.name("v"), code.name("b")
            code.line(f"{local} = getattr({message}, {field.attribute!r}, {default})")
            differs = f"{local} is not {default} and {local} != {default}"
            tag = code.constant("tag", unsigned_varint(field.tag or 0))
            if field.struct is not None and field.nullable and field.default is not None:
                # Null differs from the default, so it is written as a marker byte without a
                # structure.
                code.line(f"if {local} is None: {tags}.append({tag} + b'\\x01\\x00')")
                differs = f"{local} is not None and {differs}"
            with code.block(f"if {local if field.is_array else differs}:"):
                self._tagged_field(field, local, encoded)
                line = f"{tags}.append({tag} + unsigned_varint(len({encoded})) + {encoded})"
                if field.struct is not None and not field.is_array and field.default is not None:
                    # Compare encoded bytes, because other classes never equal kio's default.
                    usual = compile_body_encoder(field.struct, self._error)(field.default)
                    line = f"if {encoded} != {usual!r}: {line}"
                code.line(line)
        code.line(f"{self._sink}(unsigned_varint(len({tags})))")
        code.line(f"if {tags}: {self._sink}(join({tags}))")

    def _tagged_field(self, field: Field, local: str, encoded: str) -> None:
        content, sink = self._code.name("o"), self._sink
        self._code.line(f"{content} = []")
        self._sink = f"{content}.append"
        # The caller omits null or writes its marker byte, so the value is not null, but nullable
        # structures still have the marker byte.
        nullable = field.nullable and field.struct is not None and not field.is_array
        self._field(replace(field, nullable=nullable), local, is_flexible=True)
        self._flush()
        self._sink = sink
        self._code.line(f"{encoded} = join({content})")


# Functions called by generated code


def _string_length(compact: int) -> bytes:
    if compact > STRING_BYTES_MAX + 1:
        raise ValueError(f"a string of {compact - 1} bytes")
    return unsigned_varint(compact)


_legacy_names: Final[dict[str, bytes]] = {}
_compact_names: Final[dict[str, bytes]] = {}


def _legacy_name(name: str) -> bytes:
    encoded = name.encode()
    return _cache_name(_legacy_names, name, len(encoded).to_bytes(2, signed=True) + encoded)


def _compact_name(name: str) -> bytes:
    encoded = name.encode()
    return _cache_name(_compact_names, name, _string_length(len(encoded) + 1) + encoded)


def _cache_name(names: dict[str, bytes], name: str, encoded: bytes) -> bytes:
    if len(name) <= NAME_LENGTH_MAX:
        if len(names) >= NAMES_MAX:
            names.clear()
        names[name] = encoded
    return encoded


def _duration_ms(duration: datetime.timedelta) -> int:
    # Rounded to the nearest millisecond, and halves to even, as in kio.
    whole, rest = divmod(duration, _MILLISECOND)
    return whole if not rest else round(duration.total_seconds() * 1000)


def _timestamp_ms(moment: datetime.datetime | int) -> int:
    if isinstance(moment, int):  # milliseconds, possibly beyond the range of datetime
        return moment
    return round(moment.timestamp() * 1000)


@cache
def _packer(form: str) -> Callable[..., bytes]:
    return Struct(form).pack


def _pack_many(letter: str, values: Any) -> bytes:
    """Pack an array of numbers without its length prefix."""
    count = len(values)
    form = f">{count}{letter}"
    return (_packer(form) if count <= 64 else Struct(form).pack)(*values)


_SCOPE: Final = {
    "ERRORS": (AttributeError, OverflowError, StructError, TypeError, ValueError),
    "NO_THROTTLE": datetime.timedelta(0),
    "NULL_UUID": bytes(16),
    "compact_name": _compact_name,
    "compact_names_get": _compact_names.get,
    "duration_ms": _duration_ms,
    "join": b"".join,
    "legacy_name": _legacy_name,
    "legacy_names_get": _legacy_names.get,
    "pack_many": _pack_many,
    "string_length": _string_length,
    "timestamp_ms": _timestamp_ms,
    "unsigned_varint": unsigned_varint,
}


# --- diagnosis of encoding failures (slow path)

_MISSING: Final = object()


def explain(schema: Schema, message: Any, error: Exception) -> str:
    """Describe the first field that cannot be encoded."""
    for path, problem in _problems(schema, message, ""):
        return f"{schema.title} cannot be encoded: {path} {problem}"
    return f"{schema.title} cannot be encoded: {error}"


def _problems(schema: Schema, message: Any, path: str) -> Iterator[tuple[str, str]]:
    for field in schema.all_fields:
        here = f"{path}.{field.attribute}" if path else field.attribute
        value: Any = getattr(message, field.attribute, _MISSING)
        if value is _MISSING:
            if field.required and field.attribute != THROTTLE_TIME:
                yield here, f"is missing ({type(message).__name__} has no such attribute)"
        elif value is None:
            if not field.nullable and field.type != "uuid":
                yield here, "is None, which its schema does not allow"
        elif not field.is_array:
            yield from _value_problems(field, value, here)
        elif not hasattr(value, "__len__") or isinstance(value, str | bytes):
            yield here, f"is {type(value).__name__}, not a sequence"
        else:
            for index, item in enumerate(value):
                yield from _value_problems(field, item, f"{here}[{index}]")


def _value_problems(field: Field, value: Any, path: str) -> Iterator[tuple[str, str]]:
    problem: str | None = None
    if field.struct is not None:
        yield from _problems(field.struct, value, path)
    elif field.type == "string":
        problem = _string_problem(value)
    elif field.type in ("bytes", "records"):
        if not isinstance(value, bytes | bytearray | memoryview):
            problem = f"is {type(value).__name__}, not bytes"
    elif FIXED[field.type] in "bhiqBHIQd":
        problem = _number_problem(field.type, value)
    if problem is not None:
        yield path, problem


def _string_problem(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"is {type(value).__name__}, not str"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "contains a character that UTF-8 cannot encode"
    if size > STRING_BYTES_MAX:
        return f"has {size} bytes, but a string may have at most {STRING_BYTES_MAX}"
    return None


def _number_problem(kafka_type: str, value: Any) -> str | None:
    is_duration = kafka_type.startswith("timedelta")
    if is_duration or (kafka_type.startswith("datetime") and not isinstance(value, int)):
        attribute = "total_seconds" if is_duration else "timestamp"
        return None if hasattr(value, attribute) else f"is {value!r}, not a {kafka_type[:-4]}"
    try:
        Struct(f">{FIXED[kafka_type]}").pack(value)
    except StructError:
        return f"is {value!r}, not of the type {kafka_type}"
    return None
