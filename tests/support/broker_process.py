"""A `kohort serve` in a process of its own, for tests of what only a process shows."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FIRST_LINE = re.compile(r"kohort (\S+) listening on (.+):(\d+) \(data (.+), durability (\w+)\)\n")
# A cluster that tests are to use instead of a broker of their own: a real Kafka, say.
EXTERNAL = os.environ.get("KOHORT_TEST_BOOTSTRAP_SERVERS")
PATIENCE_SECONDS = 30  # for a machine that is busy; nothing here measures time
QUIET = {key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")}


class Served(NamedTuple):
    process: subprocess.Popen[str]
    first_line: str
    host: str
    port: int
    errors: Path
    """What it writes to standard error."""

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send the signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def serving(
    folder: Path,
    *args: str | Path,
    env: Mapping[str, str] | None = None,
    kohort: Sequence[str] = ("-m", "kohort"),
) -> Iterator[Served]:
    """`kohort serve` with these arguments, run in `folder`, once it says that it listens. `kohort`:
    what Python is told to run for it."""
    errors = folder / "stderr"
    with errors.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *kohort, "serve", *map(str, args)],
            cwd=folder,
            env={**QUIET, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        match = FIRST_LINE.fullmatch(line)
        assert match, f"{line!r}\n{errors.read_text()}"
        yield Served(process, line, match[2], int(match[3]), errors)
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)
        process.stdout.close()


def overrides(options: Iterable[str]) -> list[str]:
    """The flags that give `kohort serve` these settings, each `key=value`."""
    return [argument for option in options for argument in ("-o", option)]


@contextlib.contextmanager
def cluster_under_test(folder: Path, options: Iterable[str]) -> Iterator[str]:
    """HOST:PORT of the cluster to test: the external one, or a broker with these settings, which
    has to end well and without a traceback."""
    if EXTERNAL:
        yield EXTERNAL
        return
    where = ("--port", "0", "--durability", "os", "--data-dir", folder / "data")
    with serving(folder, *where, *overrides(options)) as broker:
        yield broker.bootstrap
        assert broker.stop() == 0
        said = broker.errors.read_text()
        assert "Traceback" not in said, said


def kohort(
    *args: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float = PATIENCE_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """`kohort ARGS` to its end, which is waited for so long."""
    return subprocess.run(
        [sys.executable, "-m", "kohort", *map(str, args)],
        cwd=cwd,
        env={**QUIET, **(env or {})},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
