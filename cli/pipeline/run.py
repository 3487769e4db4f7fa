"""`kohort pipeline run`: read the new part of the log into the lake."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ...pipeline import run as pipeline
from ...pipeline.diagnosis.group_history import OFFSETS_RETENTION_MS
from ...pipeline.inputs import TIMEOUT_SECONDS, Inputs
from ...pipeline.lake.writer import Writer
from ...pipeline.session import new_session
from .. import signals
from ..errors import EXIT_INTERRUPTED
from .errors import user_errors
from .progress import RunOutput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The output of Spark, its JVM and its workers, which is needed only after a failure.
SPARK_LOG = "_spark.log"
EVERY_S = 30.0


def run(args: argparse.Namespace) -> int:
    """Return 0, or 130 if interrupted before the end of the log without --follow. Raises
    UserError."""
    spark_log = args.lake / SPARK_LOG
    with user_errors(args.lake, spark_log):
        options = {"bootstrapServers": args.bootstrap_server}
        if args.command_config is not None:
            options["commandConfig"] = str(args.command_config.absolute())
        if args.log is not None:
            options = {"path": str(args.log.absolute())}
        minutes = args.offsets_retention_minutes
        inputs = Inputs(
            options,
            args.cluster,
            args.events and _data_folder(args.events),
            offsets_retention_ms=OFFSETS_RETENTION_MS if minutes is None else minutes * 60_000,
            timeout_seconds=args.timeout or TIMEOUT_SECONDS,
        )
        if not args.follow:
            inputs.source.ends()  # raises SourceError, before a lake is created
        with Writer(args.lake) as writer, RunOutput() as output:
            return _run(args, inputs, writer, output, _LazySession(args, spark_log, output))


def _run(
    args: argparse.Namespace,
    inputs: Inputs,
    writer: Writer,
    output: RunOutput,
    session: "_LazySession",
) -> int:
    session.signals.install()
    try:
        caught_up = pipeline.run(
            session.get,
            writer,
            inputs,
            records_max=args.max_records_per_batch or pipeline.RECORDS_MAX,
            every_s=(args.every or EVERY_S) if args.follow else None,
            once=args.once,
            report=session.report,
            wait=session.signals.wait,
        )
    except KeyboardInterrupt:
        if not args.follow:
            raise
        caught_up = False
    finally:
        session.close()
    as_of = writer.manifest.as_of
    what = "nothing new"
    if output.records:
        what = f"{output.records:,} records in {output.seconds:.1f} s, without the "
        what += f"{session.start_seconds:.1f} s that Spark took to start"
    state = f"; up to date as of {as_of:%Y-%m-%d %H:%M:%S} UTC" if as_of else ""
    print(f"{args.lake}: {what}{state if caught_up else '; the log may have more records'}")
    return 0 if caught_up or args.once or args.follow else EXIT_INTERRUPTED


def _data_folder(events: Path) -> Path:
    """Return the data folder, given that folder or its subfolder `events`."""
    return events.parent if events.name == "events" else events


class _LazySession:
    """Spark, started only when there are new records, so that other runs are fast."""

    def __init__(self, args: argparse.Namespace, spark_log: Path, output: RunOutput) -> None:
        self.signals = StopSignals()
        self._args, self._spark_log, self._output = args, spark_log, output
        self._spark: SparkSession | None = None
        self.start_seconds = 0.0

    def get(self) -> "SparkSession":
        if self._spark is None:
            self.signals.in_batch = False
            begun = time.monotonic()
            with self._output.spinner("starting Spark"):
                conf = dict(self._args.conf)
                self._spark = new_session(self._args.master, conf, self._spark_log)
            self.start_seconds = time.monotonic() - begun
            self.signals.install()  # Spark has replaced the handlers
            self.signals.in_batch = True
        return self._spark

    def report(self, progress: pipeline.Progress) -> None:
        if isinstance(progress, pipeline.BatchStarted | pipeline.BatchDone):
            self.signals.in_batch = isinstance(progress, pipeline.BatchStarted)
        self._output(progress)

    def close(self) -> None:
        if self._spark is not None:
            self._spark.stop()


class StopSignals:
    """Handlers for Ctrl-C and SIGTERM. The first signal stops after the current batch, or raises
    KeyboardInterrupt if `in_batch` is False. The second signal stops immediately."""

    def __init__(self) -> None:
        self.in_batch = False
        self._stopping = signals.SignalFlag()

    def install(self) -> None:
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)

    def wait(self, seconds: float) -> bool:
        """Wait for a signal, at most for `seconds`. Return True if a signal has arrived."""
        try:
            return self._stopping.wait(seconds)
        except KeyboardInterrupt:
            return True

    def _on_signal(self, *_: object) -> None:
        if not self.in_batch:
            self._stopping.set()
            raise KeyboardInterrupt
        if self._stopping.is_set:
            text = "stopped within a batch: the lake contains only complete batches"
            print(text, file=sys.stderr, flush=True)
            # An exception would make py4j print a traceback. The JVM exits when its standard input
            # is closed.
            os._exit(EXIT_INTERRUPTED)
        self._stopping.set()
        print("stopping after this batch; press Ctrl-C again to stop now", file=sys.stderr)
