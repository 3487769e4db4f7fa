"""How far a run has come: a line per batch, and on a terminal a bar as well."""

import sys
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

from ...pipeline.run import Began, Done, Entered, Retrying, Told

__all__ = ["Progress"]


class Progress:
    """Lines go to standard output, the bar to standard error if that is a terminal."""

    def __init__(self) -> None:
        self.records = 0
        self._bar = _Bar() if sys.stderr.isatty() else None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def starting(self, what: str) -> AbstractContextManager[object]:
        """While something takes seconds and cannot say how far it is."""
        return self._bar.spinning(what) if self._bar is not None else nullcontext()

    def __call__(self, told: Told) -> None:
        if isinstance(told, Done):
            self.records += told.records
        if self._bar is not None:
            self._bar.show(told)
        elif isinstance(told, Began):
            # Spark takes half a minute to say anything else.
            print(f"batch {told.batch_id}: {told.records:,} records to read", flush=True)
        for line in _lines(told):
            print(line, flush=True)


def _lines(told: Told) -> list[str]:
    if isinstance(told, Retrying):
        return [f"{told.error.rstrip('.')}. It is tried again."]
    if not isinstance(told, Done):
        return []
    rate = told.records / told.seconds if told.seconds else 0
    behind = f"; {told.left:,} to go" if told.left else ""
    done = f"batch {told.batch_id}: {told.records:,} records in {told.seconds:.1f} s"
    return [
        f"{done} ({rate:,.0f} records/s){behind}",
        *(f"{one.table}: {one.rows:,} not as expected ({one.expectation})" for one in told.broken),
        *(f"{one.table}: {one.folders} folders merged into one" for one in told.merged),
    ]


class _Bar:
    """Of the records that the lake has not yet; rich is imported on a terminal alone."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Rich

        self._console = Console(stderr=True)
        self._shown = Rich(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            # Or rich would take what goes to standard output for its own.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task: Any = None
        self._batch = ""
        self._done = 0

    def close(self) -> None:
        self._shown.stop()

    def spinning(self, what: str) -> AbstractContextManager[object]:
        return self._console.status(what)

    def show(self, told: Told) -> None:
        if isinstance(told, Began):
            self._begin(told)
        elif isinstance(told, Entered) and self._task is not None:
            self._shown.update(self._task, description=f"{self._batch}: {told.layer}")
        elif isinstance(told, Done) and self._task is not None:
            self._done += told.records
            self._shown.update(self._task, completed=self._done)
            # A line about the batch is printed next; the bar comes back below it.
            self._shown.stop()

    def _begin(self, told: Began) -> None:
        self._batch = f"batch {told.batch_id}"
        total = self._done + told.records + told.left
        if self._task is None:
            self._task = self._shown.add_task(self._batch, total=total)
        self._shown.update(self._task, total=total, description=self._batch)
        self._shown.start()
