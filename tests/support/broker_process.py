"""`kohort serve` and other commands in separate processes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kohort.testing.deadline import poll

FIRST_LINE = re.compile(r"kohort (\S+) listening on (.+):(\d+) \(data (.+), durability (\w+)\)\n")
# A cluster to test instead of brokers started by the tests, for example a real Kafka.
EXTERNAL = os.environ.get("KOHORT_TEST_BOOTSTRAP_SERVERS")
# Python arguments for the command, to run without the extra `speed`.
WITHOUT_UVLOOP = (
    "-c",
    (
        "import sys; sys.modules['uvloop'] = None;"
        "from kohort.cli.main import main; sys.exit(main(sys.argv[1:]))"
    ),
)
TIMEOUT_SECONDS = 30  # long enough for a busy machine; the tests measure no time
CLEAN_ENVIRONMENT = {
    key: value for key, value in os.environ.items() if not key.startswith("KAFKA_")
}


IMMEDIATE = ("-o", "kohort.auto.create.immediate=true")
"""For clients that do not retry: kafka-python's admin, with the first request of a group."""


class BrokerProcess(NamedTuple):
    process: subprocess.Popen[str]
    first_line: str
    host: str
    port: int
    errors: Path
    """The file with its standard error."""

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def resident_bytes(self) -> int:
        """The memory of the process now; on Linux only."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def control_url(self) -> str:
        """Read the second line, which --control-port adds."""
        assert self.process.stdout is not None
        word, url = self.process.stdout.readline().split()
        assert word == "control"
        return url

    def logged(self, pattern: str) -> re.Match[str] | None:
        """Return the match once the broker's thread has written it; None if it never does."""
        return poll(
            lambda: re.search(pattern, self.errors.read_text()), TIMEOUT_SECONDS, pause=0.01
        )

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send the signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_SECONDS)


@contextlib.contextmanager
def start_broker(
    folder: Path,
    *args: str | Path,
    env: Mapping[str, str] | None = None,
    kohort: Sequence[str] = ("-m", "kohort"),
) -> Iterator[BrokerProcess]:
    """Run `kohort serve ARGS` in a folder; it is killed at the end if it is still running.
    `kohort`: the Python arguments for the command."""
    errors = folder / "stderr"
    with errors.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *kohort, "serve", *map(str, args)],
            cwd=folder,
            env={**CLEAN_ENVIRONMENT, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        match = FIRST_LINE.fullmatch(line)
        assert match, f"{line!r}\n{errors.read_text()}"
        yield BrokerProcess(process, line, match[2], int(match[3]), errors)
    finally:
        process.kill()
        process.wait(TIMEOUT_SECONDS)
        process.stdout.close()


def config_flags(options: Iterable[str]) -> list[str]:
    """The flags of `kohort serve` for settings `key=value`."""
    return [argument for option in options for argument in ("-o", option)]


@contextlib.contextmanager
def cluster_under_test(folder: Path, options: Iterable[str]) -> Iterator[str]:
    """HOST:PORT of the external cluster, or of a broker with these settings, which must stop with
    exit code 0 and without a traceback."""
    if EXTERNAL:
        yield EXTERNAL
        return
    where = ("--port", "0", "--durability", "os", "--data-dir", folder / "data")
    with start_broker(folder, *where, *config_flags(options)) as broker:
        yield broker.bootstrap
        assert broker.stop() == 0
        errors = broker.errors.read_text()
        assert "Traceback" not in errors, errors


def kohort(
    *args: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float = TIMEOUT_SECONDS,
) -> subprocess.CompletedProcess[str]:
    """Run `kohort ARGS` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "kohort", *map(str, args)],
        cwd=cwd,
        env={**CLEAN_ENVIRONMENT, **(env or {})},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
