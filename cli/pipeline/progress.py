"""The output of `kohort pipeline run`: a line per batch, and a progress bar on a terminal."""

from contextlib import AbstractContextManager, nullcontext

from ...pipeline.run import BatchDone, BatchStarted, Progress, Retrying, StageProgress, StageStarted
from ..output import can_draw, progress_bar


class RunOutput:
    """Writes lines to standard output, and a progress bar to standard error if `can_draw`."""

    def __init__(self) -> None:
        self.records = 0
        self.seconds = 0.0
        self._bar = _Bar() if can_draw() else None

    def __enter__(self) -> "RunOutput":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def spinner(self, text: str) -> AbstractContextManager[object]:
        """Show a spinner during work of unknown duration."""
        return self._bar.spinner(text) if self._bar is not None else nullcontext()

    def __call__(self, progress: Progress) -> None:
        if isinstance(progress, BatchDone):
            self.records += progress.records
            self.seconds += progress.seconds
        if self._bar is not None:
            self._bar.update(progress)
        elif isinstance(progress, BatchStarted):
            # The batch may take half a minute.
            print(f"batch {progress.batch_id}: reading {progress.records:,} records", flush=True)
        for line in _lines(progress):
            print(line, flush=True)


def _lines(progress: Progress) -> list[str]:
    if isinstance(progress, Retrying):
        return [f"{progress.error.rstrip('.')}. Retrying."]
    if not isinstance(progress, BatchDone):
        return []
    records, seconds = progress.records, progress.seconds
    rate = records / seconds if seconds else 0
    left = f"; {progress.left:,} left" if progress.left else ""
    took = f"{records:,} records in {seconds:.1f} s ({rate:,.0f} records/s)"
    return [
        f"batch {progress.batch_id}: {took}{left}",
        *(
            f"{table}: {rows:,} rows violate: {expectation}"
            for (table, expectation), rows in progress.violations.items()
        ),
        *(f"{c.table}: {c.folders} folders merged into one" for c in progress.compacted),
    ]


class _Bar:
    """A progress bar that counts records. Each stage of a batch advances the bar by an equal share
    of the batch's records. rich is only imported on a terminal."""

    def __init__(self) -> None:
        from rich.progress import TextColumn

        self._rich = progress_bar(TextColumn("{task.fields[read]:,}/{task.fields[records]:,}"))
        self._task = self._rich.add_task("", total=None, read=0, records=0)
        self._batch = BatchStarted(0, 0, 0)
        self._stage = StageStarted("", 1, 1)
        self._done = 0

    def close(self) -> None:
        self._rich.stop()

    def spinner(self, text: str) -> AbstractContextManager[object]:
        return self._rich.console.status(text)

    def update(self, progress: Progress) -> None:
        if isinstance(progress, BatchStarted):
            self._batch = progress
            total = self._done + progress.records + progress.left
            self._rich.update(self._task, total=total, records=total)
            self._rich.start()
        elif isinstance(progress, StageStarted):
            self._stage = progress
            text = f"batch {self._batch.batch_id}: {progress.stage} "
            text += f"({progress.number} of {progress.stages})"
            self._rich.update(self._task, description=text)
            self._show(0)
        elif isinstance(progress, StageProgress):
            self._show(progress.share)
        elif isinstance(progress, BatchDone):
            self._done += self._batch.records
            self._rich.update(self._task, completed=self._done, read=self._done)
            # Hide the bar while the line about the batch is printed.
            self._rich.stop()

    def _show(self, share: float) -> None:
        records, (_, number, stages) = self._batch.records, self._stage
        read = int(records * share) if number == 1 else records
        completed = self._done + records * (number - 1 + share) / stages
        self._rich.update(self._task, completed=completed, read=self._done + read)
