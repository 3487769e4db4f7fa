"""One line of the table of endpoints: a method and a path, and the function behind them.

The function's docstring is what the document says of it, its parameters (fields.py) are what it is
given: those that the path names, and the rest in the query of a GET, in the JSON body of others.
"""

import re
from collections.abc import Callable
from functools import cached_property
from inspect import cleandoc
from typing import Any, Literal

from .control import Control
from .fields import Field, fields_of

Method = Literal["GET", "POST", "DELETE"]


class Endpoint:
    def __init__(self, method: Method, path: str, function: Callable[..., Any]) -> None:
        self.method = method
        self.path = path
        self.function = function

    @property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def summary(self) -> str:
        """The first sentences of its docstring, in one line."""
        return re.sub(r"\s+", " ", self._doc.partition("\n\n")[0])

    @cached_property
    def description(self) -> str:
        """The rest of it."""
        return re.sub(r"\s+", " ", self._doc.partition("\n\n")[2])

    @cached_property
    def fields(self) -> list[Field]:
        return fields_of(self.function)

    @cached_property
    def in_path(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)

    @property
    def others(self) -> list[Field]:
        """What is not in the path."""
        return [field for field in self.fields if field.name not in self.in_path]

    @cached_property
    def waits(self) -> bool:
        """Whether a request of it may take as long as it says itself."""
        return any(field.name == "timeout" for field in self.fields)

    @cached_property
    def segments(self) -> list[str]:
        return self.path.split("/")[1:]

    def matches(self, segments: list[str]) -> dict[str, str] | None:
        """What the path gives, if it is this one's."""
        if len(segments) != len(self.segments):
            return None
        given = {}
        for mine, other in zip(self.segments, segments, strict=True):
            if mine[:1] == "{":
                given[mine[1:-1]] = other
            elif mine != other:
                return None
        return given

    def call(self, control: Control, given: dict[str, Any]) -> Any:
        return self.function(control, **given)

    @cached_property
    def _doc(self) -> str:
        return cleandoc(self.function.__doc__ or "")
