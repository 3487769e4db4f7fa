"""The loop: plan a batch, read it, compute the tables of each layer, commit.

A batch becomes visible when the manifest is replaced. A run that ends earlier leaves the lake
unchanged, and the next run reads the same records again.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from .inputs import Inputs, Plan, Samples
from .lake.writer import COMPACT_AT_FOLDERS, Compacted, Writer, compact
from .layers import bronze
from .layers.batch import Batch, Layer
from .layers.expectations import Violations
from .session import FEW_RECORDS, tune
from .source.source import SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

# The size of a batch determines how long Ctrl-C waits, how much work a kill discards, and how much
# memory Spark needs. A million records take about five seconds on a warm JVM, half a minute on a
# cold one.
RECORDS_MAX: Final = 1_000_000

LAYERS: Final = ("generations", "ownership", "commits", "histories", "status")
"""In the order of their dependencies."""


class BatchStarted(NamedTuple):
    """A batch of at most `records` records has started; `left` records remain after it."""

    batch_id: int
    records: int
    left: int


class StageStarted(NamedTuple):
    """Stage `number` of `stages` has started. The first reads the records (bronze); each of the
    others is a layer."""

    stage: str
    number: int
    stages: int


class StageProgress(NamedTuple):
    """The fraction of the current stage that is done, from 0 to 1. Few stages report it."""

    share: float


class BatchDone(NamedTuple):
    """A batch of `records` records was committed; according to its plan, `left` records remain
    after it. `seconds`: the duration without Spark's startup."""

    batch_id: int
    records: int
    left: int
    seconds: float
    violations: Violations
    compacted: tuple[Compacted, ...] = ()


class Retrying(NamedTuple):
    """The log could not be read. The run follows the log, so it retries."""

    error: str


Progress: TypeAlias = BatchStarted | StageStarted | StageProgress | BatchDone | Retrying
Report: TypeAlias = Callable[[Progress], None]


def load_layers() -> dict[str, Layer]:
    """Import the layers when needed, because they import pyspark, which may be missing."""
    return {name: import_module(f".layers.{name}", __package__).tables for name in LAYERS}


def run(
    spark: "Callable[[], SparkSession]",
    writer: Writer,
    inputs: Inputs,
    *,
    records_max: int = RECORDS_MAX,
    every_s: float | None = None,
    once: bool = False,
    report: Report = lambda _progress: None,
    wait: Callable[[float], bool] = lambda _seconds: False,
    layers: Mapping[str, Layer] | None = None,
) -> bool:
    """Process batches until the log is read to its end or, with `every_s`, keep following it.
    `once`: process one batch. Return whether the end was reached.

    `spark` returns the session, and is called when there is work. `wait(seconds)` returns True,
    possibly early, if the run should end. `layers`: a subset for tests. Raises LakeError,
    SourceError, OSError, SparkUnavailable, and Spark's exceptions.
    """
    while True:
        begun = time.monotonic()
        is_unreadable = has_more = False
        try:
            done = run_batch(spark, writer, inputs, records_max, report, layers)
        except Exception as error:
            text = error_text(error, SourceError)
            if every_s is None or text is None:
                raise
            report(Retrying(text))
            is_unreadable = True
        else:
            if done is not None:
                report(done._replace(compacted=tuple(compact(writer, COMPACT_AT_FOLDERS))))
                has_more = done.left > 0
        if once or (every_s is None and not has_more):
            return not has_more
        pause = 0 if has_more else (every_s or 0) - (time.monotonic() - begun)
        if wait(max(pause, 0)):
            return not has_more and not is_unreadable


def run_batch(
    spark: "Callable[[], SparkSession]",
    writer: Writer,
    inputs: Inputs,
    records_max: int,
    report: Report,
    layers: Mapping[str, Layer] | None,
) -> BatchDone | None:
    """Process one batch. Return None if nothing is new."""
    before = writer.manifest
    samples = Samples(inputs, writer.lake)
    plan = inputs.plan(before, records_max)
    event_ends, events_read = inputs.event_ends(), before.inputs.get("events", {})
    if not plan.records and event_ends == events_read and not samples.has_news:
        return None
    session = spark()
    begun = time.monotonic()
    writer.begin()
    report(BatchStarted(writer.batch_id, plan.records, plan.left))
    writer.write("bronze_event", inputs.events(events_read, event_ends))
    batch = Batch(
        session,
        writer,
        inputs.cluster,
        caught_up=plan.caught_up,
        offsets_retention_ms=inputs.offsets_retention_ms,
        report_share=lambda share: report(StageProgress(share)),
        topic_ids=inputs.source.topic_ids,
    )
    layers = load_layers() if layers is None else layers
    report(StageStarted("bronze", 1, 1 + len(layers)))
    if plan.records:
        batch.violations += _read(batch, inputs, plan)
    writer.write("bronze_log_end", samples.of(batch))
    _compute(batch, layers, report)
    records = batch.records
    committed = writer.commit(
        cluster=inputs.cluster,
        positions={**before.positions, **plan.end},
        inputs={
            "events": event_ends,
            "samples": samples.positions(),
            "log": plan.log_id,
            "read_to": batch.read_to(),
        },
        as_of=batch.now,
    )
    seconds = time.monotonic() - begun
    return BatchDone(committed.batch_id, records, plan.left, seconds, batch.violations)


def _compute(batch: Batch, layers: Mapping[str, Layer], report: Report) -> None:
    for number, (name, layer) in enumerate(layers.items(), 2):
        report(StageStarted(name, number, 1 + len(layers)))
        tune(batch.spark, batch.rows_for_spark)
        batch.write(layer(batch))


def _read(batch: Batch, inputs: Inputs, plan: Plan) -> Violations:
    """Write bronze. A few records are read in this process, because Spark's Python workers take
    longer to start."""
    origin = bronze.Origin(inputs.cluster, inputs.origin)
    if plan.records <= FEW_RECORDS:
        return bronze.write_records(batch.writer, _counted(batch, inputs, plan), origin)
    return bronze.write_splits(batch, inputs.options, inputs.splits(plan), origin)


def _counted(batch: Batch, inputs: Inputs, plan: Plan) -> "Iterator[pa.RecordBatch]":
    """Yield the planned records, and report their number relative to the plan."""
    read = 0
    for rows in inputs.records(plan):
        yield rows
        read += len(rows)
        batch.report_share(min(read / plan.records, 1))


def error_text(error: Exception, *kinds: type[Exception]) -> str | None:
    """Return the message of an error of one of these types; None for other errors. If the error was
    raised in a Spark task, its message is a line of the traceback in `error`."""
    if isinstance(error, kinds):
        return str(error)
    classes = [each for kind in kinds for each in (kind, *kind.__subclasses__())]
    names = {f"{each.__module__}.{each.__qualname__}" for each in classes}
    lines = (line.partition(": ") for line in str(error).splitlines())
    return next((text for name, _, text in lines if name in names), None)
