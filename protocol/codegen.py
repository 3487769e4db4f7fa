"""Builds the Python source of decoders and encoders."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple


class ItemLimit(NamedTuple):
    """If a message has more than `items_max` items in all its arrays together, the generated
    function raises `error()`."""

    items_max: int
    error: Callable[[], Exception]


class FunctionSource:
    """Body of a generated function. `scope` contains its globals. `notes` contains, for each line,
    the `note` that was set when the line was added: the field path for error messages."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self.scope = dict(scope)
        self.lines: list[str] = []
        self.note = ""
        self.notes: list[str] = []
        self._indent = 0
        self._names = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._indent + text)
        self.notes.append(self.note)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header)
        self._indent += 1
        yield
        self._indent -= 1

    def name(self, prefix: str) -> str:
        """Return a name that is not used yet."""
        self._names += 1
        return f"{prefix}{self._names}"

    def constant(self, prefix: str, value: Any) -> str:
        """Put `value` into the scope and return its name."""
        name = self.name(prefix.upper())
        self.scope[name] = value
        return name

    def compile(self, title: str, source: str, function: str) -> Callable[..., Any]:
        code = compile(source, f"<{function} {title}>", "exec")
        # The source is generated from schemas that are part of the program, never from input.
        exec(code, self.scope)  # noqa: S102
        compiled: Callable[..., Any] = self.scope[function]
        return compiled
