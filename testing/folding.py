"""What repeats in a list of what happened is one line, with how often."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class Folded(Generic[T]):
    """A text, and the first and the last of those of which it was said."""

    text: str
    first: T
    last: T
    count: int = 1

    def __str__(self) -> str:
        return f"{self.text} × {self.count}" if self.count > 1 else self.text


def folded(said: Iterable[tuple[T, str]]) -> list[Folded[T]]:
    """In their order. A text is folded into the same one before it if all between them are of the
    same API, which is their first word: the heartbeats of three members are three lines."""
    lines: list[Folded[T]] = []
    run: dict[str, Folded[T]] = {}
    kind = ""
    for of, text in said:
        # What is indented is no request: there only neighbours are the same.
        this = text if text.startswith(" ") else text.partition(" ")[0]
        if this != kind:
            run, kind = {}, this
        if (known := run.get(text)) is not None:
            known.last, known.count = of, known.count + 1
        else:
            run[text] = Folded(text, of, of)
            lines.append(run[text])
    return lines
