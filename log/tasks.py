"""Long work on a log in short steps, so that an event loop can do something else in between.

A step that is done yields None. A step that has to wait for the disk or for a codec yields what is
to be called: in another thread, while the loop goes on, or where one stands. What that raises comes
out of the yield.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

Step: TypeAlias = Callable[[], object] | None
T = TypeVar("T")
CooperativeTask: TypeAlias = Generator[Step, None, T]


def outside(function: Callable[[], T]) -> CooperativeTask[T]:
    """What `function` returns, called as a step that has to wait."""
    results: list[T] = []
    yield lambda: results.append(function())
    return results[0]


def nothing() -> CooperativeTask[None]:
    """No step at all."""
    yield from ()


def in_place(work: CooperativeTask[T]) -> T:
    """All of it at once: for a command, and wherever nobody waits."""
    try:
        step = next(work)
        while True:
            try:
                if step is not None:
                    step()
            except BaseException as error:
                step = work.throw(error)
            else:
                step = next(work)
    except StopIteration as end:
        result: T = end.value
        return result
