"""`kohort pipeline run`: what is new in the log, into the lake."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import EXIT_INTERRUPTED, UserError
from .failing import explained
from .stopping import Stopping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...pipeline.inputs import Inputs
    from ...pipeline.lake.writer import Writer
    from ...pipeline.run import Told
    from .progress import Progress

__all__ = ["run"]

# What Spark, its JVM and its workers say: of use when something fails, and of none otherwise.
SPARK_LOG = "_spark.log"
EVERY_S = 30.0


def run(args: argparse.Namespace) -> int:
    """0: the lake has all of the log, or has been told to follow it no longer. 130: ended before.
    Raises UserError."""
    if args.every is not None and not args.follow:
        args.parser.error("--every goes with --follow")
    log = args.lake / SPARK_LOG
    with explained(args.lake, log):
        from ...pipeline.inputs import Inputs
        from ...pipeline.lake.writer import Writer
        from .progress import Progress

        if args.log is not None and not args.log.is_dir():
            raise UserError(f"{args.log} is no folder: give a data folder with an offsets log.")
        inputs = Inputs(
            _options(args),
            args.cluster,
            args.events and _data_folder(args.events),
            offsets_retention_ms=_retention_ms(args.offsets_retention_minutes),
        )
        with Writer(args.lake) as writer, Progress() as progress:
            return _run(args, inputs, writer, progress, _Session(args, log, progress))


def _run(
    args: argparse.Namespace,
    inputs: "Inputs",
    writer: "Writer",
    progress: "Progress",
    session: "_Session",
) -> int:
    from ...pipeline.run import RECORDS_MAX, run

    begun = time.monotonic()
    session.stopping.listen()
    try:
        caught_up = run(
            session.get,
            writer,
            inputs,
            records_max=args.max_records_per_batch or RECORDS_MAX,
            every_s=(args.every or EVERY_S) if args.follow else None,
            once=args.once,
            tell=session.tell,
            wait=session.stopping.wait,
        )
    finally:
        session.close()
    seconds, as_of = time.monotonic() - begun, writer.manifest.as_of
    until = f"; it tells of all until {as_of:%Y-%m-%d %H:%M:%S} UTC" if as_of else ""
    what = f"{progress.records:,} records in {seconds:.1f} s" if progress.records else "nothing new"
    print(f"{args.lake}: {what}{until if caught_up else '; the log holds more'}")
    return 0 if caught_up or args.once or args.follow else EXIT_INTERRUPTED


class _Session:
    """Spark, started when there is something to do: a run that finds nothing new takes no time."""

    def __init__(self, args: argparse.Namespace, log: Path, progress: "Progress") -> None:
        self.stopping = Stopping()
        self._args, self._log, self._progress = args, log, progress
        self._spark: SparkSession | None = None

    def get(self) -> "SparkSession":
        from ...pipeline.session import new_session

        if self._spark is None:
            self.stopping.in_batch = False
            with self._progress.starting("Spark starts"):
                more = dict(self._args.conf)
                self._spark = new_session(self._args.master, more, self._log)
            self.stopping.listen()
            self.stopping.in_batch = True
        return self._spark

    def tell(self, told: "Told") -> None:
        from ...pipeline.run import Began, Done

        if isinstance(told, Began | Done):
            self.stopping.in_batch = isinstance(told, Began)
        self._progress(told)

    def close(self) -> None:
        if self._spark is not None:
            self._spark.stop()


def _options(args: argparse.Namespace) -> dict[str, str]:
    if args.log is not None:
        return {"path": str(args.log.absolute())}
    return {"bootstrapServers": args.bootstrap_server}


def _retention_ms(minutes: int | None) -> int:
    from ...pipeline.diagnosis.story import OFFSETS_RETENTION_MS

    return OFFSETS_RETENTION_MS if minutes is None else minutes * 60_000


def _data_folder(events: Path) -> Path:
    """Either may be given: the data folder, or the folder of events in it."""
    if not events.is_dir():
        raise UserError(f"{events} is no folder: give one that a broker with --events has written.")
    return events.parent if events.name == "events" else events
