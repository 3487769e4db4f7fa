"""Guards: what is looked at in a request body before kio's native decoder gets it.

That decoder reserves memory for as many items as an array claims to have, and aborts the whole
process when the system refuses; it also takes a null array where the schema allows none. A guard
is compiled once per request version. It walks over the body as far as its last array and compares
each claim with the bytes that are left; requests without arrays have no guard.

The same walk, to the very end, refuses strings that are longer than Kafka allows, which kio does
not look at; and it can tell where the fields of one name stand: a finder.
"""

from collections.abc import Callable
from functools import cache
from struct import Struct, calcsize
from struct import error as StructError  # noqa: N812
from typing import Any

from .apis import STRING_BYTES_MAX
from .errors import UndecodableBody
from .fields import ENTITY, FIXED, SchemaField, is_flexible, schema_fields, title
from .primitives import read_unsigned_varint, skip_tagged_fields

Guard = Callable[[bytes, int, int], int]
Finder = Callable[[bytes, int, int], list[tuple[int, str]]]


@cache
def request_guard(entity: Any) -> Guard | None:
    """(buffer, start, end of the body) -> how far it has looked; it raises UndecodableBody.

    What it has looked at decides, together with the size of the body: the same bytes in a body
    of at least this size need not be looked at again. It may look beyond `end`, never beyond the
    buffer. None if there is nothing to guard.
    """
    return _GuardSource(entity).compile() if _has_arrays(entity) else None


@cache
def string_guard(entity: Any) -> Guard | None:
    """As `request_guard`, for bodies in which a string that is too long has room. None if there
    is no such string: outside of flexible versions two bytes say how long one is."""
    return _GuardSource(entity).compile(wholly=True) if is_flexible(entity) else None


@cache
def field_finder(entity: Any, name: str) -> Finder:
    """(buffer, start, end of the body) -> where in the buffer the fields `name`, which are numbers,
    begin, in their order, each with its letter in struct's language. For bodies that could be read;
    it raises UndecodableBody for such as only the lenient reader takes.
    """
    return _GuardSource(entity, name).compile_finder()


def _has_arrays(entity: Any) -> bool:
    return any(
        field.array or (field.entity is not None and _has_arrays(field.entity))
        for field in schema_fields(entity)
    )


def _bytes_min(entity: Any) -> int:
    """The fewest bytes that one structure takes: what an array may claim is measured by it."""
    flexible = is_flexible(entity)
    plain = (field for field in schema_fields(entity) if field.tag is None)
    return sum(_field_bytes_min(field, flexible=flexible) for field in plain) + flexible


def _field_bytes_min(field: SchemaField, *, flexible: bool) -> int:
    if field.array:
        return 1 if flexible else 4
    return _item_bytes_min(field, flexible=flexible)


def _item_bytes_min(field: SchemaField, *, flexible: bool) -> int:
    if field.type in FIXED:
        return calcsize(">" + FIXED[field.type])
    if field.type == ENTITY:
        return 1 if field.nullable and not field.array else _bytes_min(field.entity)
    if flexible:
        return 1
    return 2 if field.type == "string" else 4


class _GuardSource:
    def __init__(self, entity: Any, sought: str | None = None) -> None:
        self._entity = entity
        self._sought = sought
        self._lines: list[str] = []
        self._indent = 2
        self._names = 0
        self._skip = 0  # bytes of fixed size to be stepped over with the next move
        self._scope: dict[str, Any] = {
            "ERRORS": (IndexError, StructError, ValueError),
            "Refused": UndecodableBody,
            "varint": read_unsigned_varint,
            "skip_tags": skip_tagged_fields,
        }

    def compile(self, *, wholly: bool = False) -> Guard:
        self._walk(self._entity, last=not wholly)
        guard: Guard = self._compiled("p")
        return guard

    def compile_finder(self) -> Finder:
        self._line("found = []")
        self._walk(self._entity, last=False)
        finder: Finder = self._compiled("found")
        return finder

    def _compiled(self, result: str) -> Any:
        name = title(self._entity)
        body = "\n".join(self._lines)
        source = (
            f"def walk(buffer, p, end):\n    try:\n{body}\n        return {result}\n"
            "    except ERRORS:\n"
            f"        raise Refused('the body of {name} ends too early') from None\n"
        )
        # The source is made of schemas that are installed with us; no input reaches it.
        exec(compile(source, f"<walk over {name}>", "exec"), self._scope)  # noqa: S102
        return self._scope["walk"]

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    def _name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    def _move(self) -> None:
        if self._skip:
            self._line(f"p += {self._skip}")
            self._skip = 0

    def _refuse_if(self, condition: str, field: SchemaField, trouble: str) -> None:
        text = f"{title(self._entity)}: {field.name} {trouble}"
        self._line(f"if {condition}: raise Refused({text!r})")

    def _walk(self, entity: Any, *, last: bool) -> None:
        """Step over a structure; if nothing follows it, only as far as its last array."""
        flexible = is_flexible(entity)
        plain = [field for field in schema_fields(entity) if field.tag is None]
        guarded = [
            number
            for number, field in enumerate(plain)
            if field.array or (field.entity is not None and _has_arrays(field.entity))
        ]
        if any(field.array for field in schema_fields(entity) if field.tag is not None):
            raise TypeError(f"{title(entity)} has a tagged array, which no guard can look into")
        stop = guarded[-1] if guarded else -1
        for number, field in enumerate(plain):
            if last and number > stop:
                return
            self._walk_field(field, flexible=flexible, last=last and number == stop)
        if flexible and not last:
            at = f"p + {self._skip}" if self._skip else "p"
            self._line(f"p = {at} + 1 if buffer[{at}] == 0 else skip_tags(buffer, {at}, end)")
            self._skip = 0

    def _walk_field(self, field: SchemaField, *, flexible: bool, last: bool) -> None:
        if field.array:
            self._walk_array(field, flexible=flexible, last=last)
        elif field.type == ENTITY and field.nullable:
            self._walk_nullable(field, last=last)
        elif field.type == ENTITY:
            self._walk(field.entity, last=last)
        else:
            self._walk_item(field, nullable=field.nullable, flexible=flexible)

    def _walk_nullable(self, field: SchemaField, *, last: bool) -> None:
        self._skip += 1
        self._move()
        self._line("if buffer[p - 1] < 128:")
        self._indent += 1
        self._walk(field.entity, last=last)
        self._move()
        self._line("pass")
        self._indent -= 1

    def _walk_item(self, field: SchemaField, *, nullable: bool, flexible: bool) -> None:
        if field.type in FIXED:
            if field.name == self._sought:
                self._line(f"found.append((p + {self._skip}, {FIXED[field.type]!r}))")
            self._skip += _item_bytes_min(field, flexible=flexible)
            return
        length = self._name()
        self._length(length, "h" if field.type == "string" else "i", flexible=flexible)
        if flexible:
            if field.type == "string":
                limit = STRING_BYTES_MAX + 1
                self._refuse_if(f"{length} > {limit}", field, "is longer than a string may be")
            self._line(f"if {length}: p += {length} - 1")
            if not nullable:
                self._line(f"else: raise Refused({self._null(field)!r})")
        elif nullable:
            self._line(f"if {length} > 0: p += {length}")
        else:
            self._refuse_if(f"{length} < 0", field, "is null, which its schema does not allow")
            self._line(f"p += {length}")

    def _null(self, field: SchemaField) -> str:
        return f"{title(self._entity)}: {field.name} is null, which its schema does not allow"

    def _length(self, name: str, letter: str, *, flexible: bool) -> None:
        """Read a length, p stands behind it afterwards."""
        if flexible:
            at = f"p + {self._skip}" if self._skip else "p"
            self._line(f"{name} = buffer[{at}]")
            self._line(f"p += {self._skip + 1}")
            self._line(f"if {name} > 127: {name}, p = varint(buffer, p - 1)")
        else:
            form = Struct(f">{self._skip}x{letter}")
            read = f"read{len(self._scope)}"
            self._scope[read] = form.unpack_from
            self._line(f"({name},) = {read}(buffer, p)")
            self._line(f"p += {form.size}")
        self._skip = 0

    def _walk_array(self, field: SchemaField, *, flexible: bool, last: bool) -> None:
        count = self._name()
        self._length(count, "i", flexible=flexible)
        if flexible:
            self._line(f"{count} -= 1")
        if not field.nullable:
            self._refuse_if(f"{count} < 0", field, "is null, which its schema does not allow")
        size = _item_bytes_min(field, flexible=flexible)
        times = "" if size == 1 else f" * {size}"
        self._refuse_if(f"{count}{times} > end - p", field, "claims more items than bytes are left")
        in_items = field.entity is not None and _has_arrays(field.entity)
        if last and not in_items:
            return
        if field.type in FIXED:
            self._line(f"if {count} > 0: p += {count}{times}")
            return
        self._line(f"while {count} > {1 if last else 0}:")
        self._indent += 1
        self._line(f"{count} -= 1")
        self._walk_array_item(field, flexible=flexible, last=False)
        self._indent -= 1
        if last:
            self._line(f"if {count} == 1:")
            self._indent += 1
            self._walk_array_item(field, flexible=flexible, last=True)
            self._skip = 0
            self._indent -= 1

    def _walk_array_item(self, field: SchemaField, *, flexible: bool, last: bool) -> None:
        if field.entity is None:
            self._walk_item(field, nullable=False, flexible=flexible)
        else:
            self._walk(field.entity, last=last)
        self._move()
