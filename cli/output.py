"""Output shared by several commands: tables, CSV, status lines and progress bars."""

import csv
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ..printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

FORMATS: Final = ("table", "json", "csv")

# Characters that begin formulas. Only text is escaped, so numbers keep their sign.
FORMULA: Final = ("=", "+", "-", "@")

# Fewer bytes are read within a second or two, so they need no bar.
PROGRESS_BYTES_MIN: Final = 32 * 1024 * 1024
# Rich redraws ten times a second; an update for each batch would cost more than reading it.
PROGRESS_UPDATE_BYTES: Final = 1024 * 1024


def table(lines: Sequence[Sequence[str]], right: Container[str]) -> Iterator[str]:
    """Align columns below a header line, with escaped cells. `right` names the right-aligned
    columns."""
    lines = [[printable(cell) for cell in line] for line in lines]
    header = lines[0]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        cells = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(header, line, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def write_csv(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Write a header line and the rows to standard output. Text is escaped. A spreadsheet would
    execute text that begins like a formula, so `'` marks it as text."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_csv_cell(cell) for cell in row] for row in rows)


def _csv_cell(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    return f"'{printable(cell)}" if cell.startswith(FORMULA) else printable(cell)


class StatusLine:
    """One line that is overwritten, shown only if standard error is a terminal."""

    def __init__(self) -> None:
        self._is_shown = False

    def show(self, text: str) -> None:
        if sys.stderr.isatty():
            self._is_shown = True
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def can_draw() -> bool:
    """Return whether standard error is a terminal and rich is installed (extra `cli`)."""
    return sys.stderr.isatty() and find_spec("rich") is not None


def progress_bar(count: "ProgressColumn") -> "Progress":
    """Return a bar with description, `count` and remaining time, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    console = Console(stderr=True)
    # By default, rich also captures standard output and standard error.
    return Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    )


@contextmanager
def progress(label: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error if that is a terminal and there is a lot to read. Yield
    a function to call with the number of bytes read since its last call."""
    if total_bytes < PROGRESS_BYTES_MIN or not can_draw():
        yield lambda _size: None
        return
    from rich.progress import DownloadColumn

    with progress_bar(DownloadColumn()) as bar:
        task = bar.add_task(label, total=total_bytes)
        pending = 0

        def advance(size: int) -> None:
            nonlocal pending
            pending += size
            if pending >= PROGRESS_UPDATE_BYTES:
                bar.advance(task, pending)
                pending = 0

        yield advance
