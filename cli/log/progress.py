"""How far long work has come: on a terminal, on standard error, and nowhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from .sources import Source

__all__ = ["bytes_of", "progress"]

# Less is read in a second or two.
SHOWN_FROM_BYTES: Final = 32 * 1024 * 1024
# Rich draws ten times a second; to tell it of every batch would cost more than to read the batch.
TOLD_EVERY_BYTES: Final = 1024 * 1024


def bytes_of(found: list[Source]) -> int:
    """Of all segments; those that vanish meanwhile count for nothing."""
    size = 0
    for source in found:
        with suppress(FileNotFoundError):
            for path in source.segments().values():
                size += path.stat().st_size
    return size


@contextmanager
def progress(what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Call what it gives with the bytes of each batch that is done."""
    if total_bytes < SHOWN_FROM_BYTES or not sys.stderr.isatty():
        yield lambda _size: None
        return
    # Rich is imported by long work on a terminal alone.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    shown = Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        # Or rich would take what goes to standard output for its own.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with shown:
        task = shown.add_task(what, total=total_bytes)
        waiting = 0

        def done(size: int) -> None:
            nonlocal waiting
            waiting += size
            if waiting >= TOLD_EVERY_BYTES:
                shown.advance(task, waiting)
                waiting = 0

        yield done
