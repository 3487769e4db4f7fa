"""The Python source of one response writer, made from a schema.

Neighbouring fields of fixed size, lengths included, are gathered into a run and packed by one
struct; a run goes on from the frame's size over the header into the body. Everything that is
packed is appended to a list, joined at the end, so large records are copied once; or not joined,
and not copied.
"""

from dataclasses import replace
from struct import Struct
from typing import Any

from .fields import ENTITY, FIXED, SchemaField, is_flexible, schema_fields, title

# Types of which an array is packed by one struct as they are.
_PLAIN = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float64"}


class WriterSource:
    """Builds the source line by line and compiles it; used once."""

    def __init__(self, entity: Any, scope: dict[str, Any]) -> None:
        self._entity = entity
        self._scope = dict(scope, ENTITY=entity)
        self._lines: list[str] = []
        self._indent = 2
        self._names = 0
        self._run: list[tuple[str, str]] = []  # (struct letter, expression; none for padding)
        self._sink = "append"
        self._head: str | None = None  # the expression of the frame's first run
        self._head_is_open = False
        self._has_blobs = False

    def compile_frame(self, *, flexible_header: bool, in_pieces: bool = False) -> Any:
        self._run = [("i", "SIZE"), ("i", "correlation_id")]
        if flexible_header:
            self._run.append(("x", ""))
        self._head_is_open = True
        self._emit_entity(self._entity, "message")
        if self._head_is_open:
            # Nothing of variable size: one struct is the whole frame.
            lines = [f"return {self._pack_expression(self._run).replace('SIZE', '0')}"]
            return self._compile("message, correlation_id", lines)
        self._flush()
        assert self._head is not None
        lines = ["out = []", "append = out.append", *self._lines]
        if self._has_blobs:
            lines[0] = "out = [b'']"
            head = self._head.replace("SIZE", "sum(map(len, out))")
            lines += [f"out[0] = {head}", "return out" if in_pieces else "return join(out)"]
        else:
            head = self._head.replace("SIZE", "len(body)")
            lines += ["body = join(out)", f"return {head} + body"]
        return self._compile("message, correlation_id", lines)

    def compile_body(self) -> Any:
        self._emit_entity(self._entity, "message")
        self._flush()
        lines = ["out = []", "append = out.append", *self._lines, "return join(out)"]
        return self._compile("message", lines)

    def _compile(self, parameters: str, body: list[str]) -> Any:
        indented = "\n".join(f"        {line}" for line in body)
        source = (
            f"def write({parameters}):\n    try:\n{indented}\n"
            "    except ERRORS as error:\n"
            "        raise explain(ENTITY, message, error) from error\n"
        )
        code = compile(source, f"<writer of {title(self._entity)}>", "exec")
        # The source is made of schemas that are installed with us; no input reaches it.
        exec(code, self._scope)  # noqa: S102
        return self._scope["write"]

    # Lines and names

    def _line(self, text: str) -> None:
        self._lines.append("    " * (self._indent - 2) + text)

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _constant(self, prefix: str, value: Any) -> str:
        name = self._name(prefix.upper())
        self._scope[name] = value
        return name

    # Runs of fixed size

    def _fixed(self, letter: str, expression: str) -> None:
        self._run.append((letter, expression))

    def _pack_expression(self, run: list[tuple[str, str]]) -> str:
        form = ">" + "".join(letter for letter, _ in run)
        arguments = [expression for letter, expression in run if letter != "x"]
        if not arguments:
            return self._constant("padding", bytes(len(run)))
        pack = self._constant("pack", Struct(form).pack)
        if arguments[0] == "SIZE":
            arguments[0] = f"SIZE + {Struct(form).size - 4}"
        return f"{pack}({', '.join(arguments)})"

    def _flush(self) -> None:
        """End the run."""
        if self._run:
            run, self._run = self._run, []
            self._append_run(self._pack_expression(run))

    def _flush_with_compact(self, length: str, encode: str) -> None:
        """End the run with a compact length: one byte in all but few cases."""
        run, self._run = self._run, []
        short = self._pack_expression([*run, ("B", length)])
        long = f"{encode}({length})"
        if run and run[0][1] == "SIZE":
            pack = self._pack_expression(run)
            rest = self._name("n")
            self._line(f"{rest} = {long}")
            long = f"{pack.replace('SIZE', f'SIZE + len({rest})')} + {rest}"
        elif run:
            long = f"{self._pack_expression(run)} + {long}"
        self._append_run(f"({short} if {length} < 128 else {long})")

    def _append_run(self, expression: str) -> None:
        if self._head_is_open:
            self._head = expression
            self._head_is_open = False
        else:
            self._line(f"{self._sink}({expression})")

    # Fields

    def _emit_entity(self, entity: Any, variable: str) -> None:
        tagged = []
        for field in schema_fields(entity):
            if field.tag is not None:
                tagged.append(field)
            else:
                self._emit_field(field, self._load(field, variable), flexible=is_flexible(entity))
        if tagged:
            self._emit_tagged(tagged, variable)
        elif is_flexible(entity):
            self._fixed("x", "")  # no tagged fields

    def _load(self, field: SchemaField, variable: str) -> str:
        if field.required:
            return f"{variable}.{field.name}"
        default = self._constant("default", field.default)
        return f"getattr({variable}, {field.name!r}, {default})"

    def _emit_field(self, field: SchemaField, value: str, *, flexible: bool) -> None:
        if field.array:
            self._emit_array(field, value, flexible=flexible)
        else:
            self._emit_one(field, value, nullable=field.nullable, flexible=flexible)

    def _emit_one(self, field: SchemaField, value: str, *, nullable: bool, flexible: bool) -> None:
        if field.type in FIXED:
            self._fixed(FIXED[field.type], self._number(field.type, value, nullable=nullable))
        elif field.type == ENTITY:
            self._emit_structure(field, value, nullable=nullable)
        elif field.topic_name:
            self._emit_topic_name(value, nullable=nullable, flexible=flexible)
        elif field.type == "string":
            self._emit_text(value, nullable=nullable, flexible=flexible)
        elif field.type in ("bytes", "records"):
            self._emit_bytes(value, nullable=nullable, flexible=flexible)
        else:
            raise TypeError(f"{field.name} has the unknown type {field.type}")

    def _number(self, kafka_type: str, value: str, *, nullable: bool) -> str:
        held = self._name("v")
        if kafka_type == "uuid":
            return f"(NULL_UUID if ({held} := {value}) is None else {held}.bytes)"
        if kafka_type in ("timedelta_i32", "timedelta_i64"):
            # A throttle time is nearly always zero; a timedelta is false if it is.
            return f"(duration_ms({held}) if ({held} := {value}) else 0)"
        if kafka_type == "datetime_i64":
            if nullable:
                return f"(-1 if ({held} := {value}) is None else timestamp_ms({held}))"
            return f"timestamp_ms({value})"
        return value

    def _emit_structure(self, field: SchemaField, value: str, *, nullable: bool) -> None:
        held = self._name("v")
        self._line(f"{held} = {value}")
        if not nullable:
            self._emit_entity(field.entity, held)
            return
        # A structure that may be null is preceded by a byte that says so (KIP-893).
        self._flush()
        self._line(f"if {held} is None:")
        self._line(f"    {self._sink}(b'\\xff')")
        self._line("else:")
        self._indent += 1
        self._fixed("b", "1")
        self._emit_entity(field.entity, held)
        self._flush()
        self._indent -= 1

    def _emit_topic_name(self, value: str, *, nullable: bool, flexible: bool) -> None:
        self._flush()
        held = self._name("v")
        self._line(f"{held} = {value}")
        kind = "compact" if flexible else "legacy"
        encoded = f"{kind}_names_get({held}) or {kind}_name({held})"
        if nullable:
            null = b"\x00" if flexible else b"\xff\xff"
            encoded = f"{null!r} if {held} is None else {encoded}"
        self._line(f"{self._sink}({encoded})")

    def _emit_text(self, value: str, *, nullable: bool, flexible: bool) -> None:
        text = self._name("s")
        if nullable:
            self._line(f"{text} = {value}")
            self._line(f"if {text} is not None: {text} = {text}.encode()")
        else:
            self._line(f"{text} = {value}.encode()")
        self._emit_sized(text, "h", "string_length", nullable=nullable, flexible=flexible)

    def _emit_bytes(self, value: str, *, nullable: bool, flexible: bool) -> None:
        if self._sink == "append":
            self._has_blobs = True
        blob = self._name("b")
        self._line(f"{blob} = {value}")
        self._emit_sized(blob, "i", "varint", nullable=nullable, flexible=flexible)

    def _emit_sized(
        self, held: str, letter: str, encode: str, *, nullable: bool, flexible: bool
    ) -> None:
        """A length and the bytes of the variable `held`."""
        self._emit_length(held, letter, encode, nullable=nullable, flexible=flexible)
        self._line(f"{'if ' + held + ': ' if nullable else ''}{self._sink}({held})")

    def _emit_length(
        self, held: str, letter: str, encode: str, *, nullable: bool, flexible: bool
    ) -> None:
        length = self._name("n")
        counted = f"len({held}) + 1" if flexible else f"len({held})"
        if nullable:
            counted = f"{0 if flexible else -1} if {held} is None else {counted}"
        self._line(f"{length} = {counted}")
        if flexible:
            self._flush_with_compact(length, encode)
        else:
            self._fixed(letter, length)
            self._flush()

    def _emit_array(self, field: SchemaField, value: str, *, flexible: bool) -> None:
        items = self._name("v")
        self._line(f"{items} = {value}")
        self._emit_length(items, "i", "varint", nullable=field.nullable, flexible=flexible)
        self._line(f"if {items}:")
        self._indent += 1
        if field.type in _PLAIN:
            self._line(f"{self._sink}(pack_many({FIXED[field.type]!r}, {items}))")
        else:
            item = self._name("e")
            self._line(f"for {item} in {items}:")
            self._indent += 1
            self._line("pass")
            if field.type == ENTITY:
                self._emit_entity(field.entity, item)
            else:
                self._emit_one(field, item, nullable=False, flexible=flexible)
            self._flush()
            self._indent -= 1
        self._indent -= 1

    def _emit_tagged(self, tagged: list[SchemaField], variable: str) -> None:
        """Tagged fields are written only where they differ from their defaults (KIP-482)."""
        self._flush()
        tags = self._name("t")
        self._line(f"{tags} = []")
        for field in tagged:
            default = self._constant("default", field.default)
            held, encoded = self._name("v"), self._name("b")
            self._line(f"{held} = getattr({variable}, {field.name!r}, {default})")
            different = held if field.array else f"{held} is not {default} and {held} != {default}"
            self._line(f"if {different}:")
            self._indent += 1
            pieces, sink = self._name("o"), self._sink
            self._line(f"{pieces} = []")
            self._sink = f"{pieces}.append"
            # Its null is its absence, so what is written is never null.
            self._emit_field(replace(field, nullable=False), held, flexible=True)
            self._flush()
            self._sink = sink
            self._line(f"{encoded} = join({pieces})")
            tag = self._constant("tag", field.tag)
            line = f"{tags}.append(varint({tag}) + varint(len({encoded})) + {encoded})"
            if field.type == ENTITY and not field.array:
                # Another class with the same values is not equal to kio's default, its bytes are.
                usual = self._scope["body_writer"](field.entity)(field.default)
                line = f"if {encoded} != {usual!r}: {line}"
            self._line(line)
            self._indent -= 1
        self._line(f"{self._sink}(varint(len({tags})))")
        self._line(f"if {tags}: {self._sink}(join({tags}))")
