"""The loop: plan a batch, read it, have each layer make its tables of it, commit.

A batch counts once the lake's manifest says so, and all of it then. What ends a run before that, at
whatever point, leaves the lake as it was, and the same records are read again.
"""

import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from .inputs import Inputs, Plan
from .lake.compaction import AT_FOLDERS, Merged, compact
from .lake.writer import Writer
from .layers import bronze
from .layers.batch import Batch, Broken, Layer
from .samples import Samples
from .session import FEW_RECORDS, tune
from .source.source import SourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "RECORDS_MAX",
    "Began",
    "Done",
    "Entered",
    "Retrying",
    "Told",
    "layers",
    "run",
    "run_batch",
    "said",
]

# A batch is what Ctrl-C waits for and what a kill throws away, and what has to fit into memory:
# some five seconds for a million records once Java is warm, and half a minute before.
RECORDS_MAX: Final = 1_000_000

# In the order in which one builds upon the other.
LAYERS: Final = (
    "consumers",
    "generations",
    "ownership",
    "commits",
    "stories",
    "status",
)


class Began(NamedTuple):
    """A batch of at most `records`, after which so many are `left`."""

    batch_id: int
    records: int
    left: int


class Entered(NamedTuple):
    """The layer that the batch is in."""

    layer: str


class Done(NamedTuple):
    """A batch is committed. `records`: so many were in it; `left`: as planned."""

    batch_id: int
    records: int
    left: int
    seconds: float
    broken: tuple[Broken, ...] = ()
    merged: tuple[Merged, ...] = ()


class Retrying(NamedTuple):
    """The log could not be read; it is tried again, since the run is to follow it."""

    error: str


Told: TypeAlias = Began | Entered | Done | Retrying
Tell: TypeAlias = Callable[[Told], None]


def layers(*names: str) -> dict[str, Layer]:
    """In their order; without names all of them."""
    return {
        name: import_module(f".layers.{name}", __package__).tables
        for name in LAYERS
        if not names or name in names
    }


def run(
    spark: "Callable[[], SparkSession]",
    writer: Writer,
    inputs: Inputs,
    *,
    records_max: int = RECORDS_MAX,
    every_s: float | None = None,
    once: bool = False,
    tell: Tell = lambda _told: None,
    wait: Callable[[float], bool] = lambda _seconds: False,
    through: Mapping[str, Layer] | None = None,
) -> bool:
    """Batch after batch until the log holds no more; with `every_s` it is looked at time and again.
    Returns whether the lake has all that the log held.

    `spark` is called when there is something to do. `wait(seconds)`
    returns early, and True, when the run is to end. `through`: other layers than all. Raises
    LakeError, SourceError, OSError, NoSpark, and what Spark raises.
    """
    while True:
        begun = time.monotonic()
        try:
            done = run_batch(
                spark, writer, inputs, records_max=records_max, tell=tell, through=through
            )
        except Exception as error:
            sentence = said(error, SourceError)
            if every_s is None or sentence is None:
                raise
            tell(Retrying(sentence))
            done = None
        if done is not None:
            tell(done._replace(merged=tuple(compact(writer, AT_FOLDERS))))
        left = done is not None and done.left > 0
        if once or (every_s is None and not left):
            return not left
        pause = 0 if left else (every_s or 0) - (time.monotonic() - begun)
        if wait(max(pause, 0)):
            return not left


def run_batch(
    spark: "Callable[[], SparkSession]",
    writer: Writer,
    inputs: Inputs,
    *,
    records_max: int = RECORDS_MAX,
    tell: Tell = lambda _told: None,
    through: Mapping[str, Layer] | None = None,
) -> Done | None:
    """One batch; null: nothing is new. Raises LakeError, SourceError, OSError, Spark's own."""
    before = writer.manifest
    samples = Samples(inputs, writer.lake)
    plan = inputs.plan(before, records_max)
    event_ends, told = inputs.event_ends(), before.inputs.get("events", {})
    if not plan.records and event_ends == told and not samples.has_news:
        return None
    session = spark()
    begun = time.monotonic()
    writer.begin()
    tell(Began(writer.batch_id, plan.records, plan.left))
    writer.write("bronze_event", inputs.events(told, event_ends))
    batch = Batch(
        session,
        writer,
        inputs.cluster,
        caught_up=plan.caught_up,
        offsets_retention_ms=inputs.offsets_retention_ms,
    )
    if plan.records:
        tell(Entered("bronze"))
        batch.broken += _read(session, writer, inputs, plan)
    writer.write("bronze_log_end", samples.of(batch))
    for name, layer in (layers() if through is None else through).items():
        tell(Entered(name))
        tune(session, batch.rows_for_spark)
        batch.write(layer(batch))
    records = batch.records
    committed = writer.commit(
        cluster=inputs.cluster,
        positions={**before.positions, **plan.end},
        inputs={
            "events": event_ends,
            "samples": samples.position(),
            "log": plan.log_id,
            "read_to": batch.read_to(),
        },
        as_of=batch.now,
    )
    seconds = time.monotonic() - begun
    return Done(committed.batch_id, records, plan.left, seconds, tuple(batch.broken))


def _read(session: "SparkSession", writer: Writer, inputs: Inputs, plan: Plan) -> list[Broken]:
    """Bronze. Each Python that Spark starts takes longer to come up than few records to be read."""
    origin = bronze.Origin(inputs.cluster, inputs.origin)
    if plan.records <= FEW_RECORDS:
        return bronze.write_here(writer, inputs.records(plan), origin)
    splits = inputs.splits(plan)
    return bronze.write_by_tasks(writer, session, inputs.options, splits, origin)


def said(error: Exception, *kinds: type[Exception]) -> str | None:
    """What it says, if it was of one of these kinds: here, or in one of Spark's tasks, which hands
    on a traceback with the sentence as one of its lines."""
    if isinstance(error, kinds):
        return str(error)
    classes = [of for kind in kinds for of in (kind, *kind.__subclasses__())]
    names = {f"{of.__module__}.{of.__qualname__}" for of in classes}
    lines = (line.partition(": ") for line in str(error).splitlines())
    return next((text for name, _, text in lines if name in names), None)
