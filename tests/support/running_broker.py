"""Running brokers: `kohort serve` (like other commands) in a process, and a Broker on an event loop
in a thread or on that of the test."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.protocol.errors import ErrorCode
from kohort.testing.deadline import poll
from kohort.testing.loop_thread import LoopThread
from kohort.topics.registry import TopicRegistry

T = TypeVar("T")

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


# --- in a thread


class BrokerThread:
    """`with BrokerThread(config, data_dir=folder, durability="os") as broker:` listens on free
    ports. `parts`: of Broker."""

    def __init__(self, config: dict[str, str], **parts: Any) -> None:
        # Tests do not retry because their request created a topic.
        complete = BrokerConfig({"kohort.auto.create.immediate": "true", **config})
        self._broker = Broker(complete, **{"durability": "none", **parts})
        self._loop = LoopThread()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._loop)
            self._loop.run(self._broker.start("127.0.0.1", 0))
            stack.callback(lambda: self._loop.run(self._broker.stop()))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        """The addresses of all nodes, as in bootstrap.servers."""
        addresses = self._broker.addresses.values()
        return ",".join(f"{host}:{port}" for host, port in addresses)

    def call(self, function: Callable[[Broker], T]) -> T:
        """Call a function of the broker on its loop."""
        return self._loop.call(lambda: function(self._broker))


# --- on the event loop of the test


@contextlib.asynccontextmanager
async def running_broker(
    config: Mapping[str, str] | None = None, **parts: Any
) -> AsyncIterator[Broker]:
    """A broker that listens on a free port."""
    broker = Broker(BrokerConfig(config or {}), **parts)
    await broker.start("127.0.0.1", 0)
    try:
        yield broker
    finally:
        await broker.stop()


async def call(coordinators: Any, command: Any) -> Any:
    """Await the result of a command."""
    result = asyncio.get_running_loop().create_future()
    coordinators.submit(command, asyncio.Future.set_result, result)
    return await asyncio.wait_for(result, 10)


async def call_until_loaded(coordinators: Any, command: Any) -> Any:
    """Repeat the command while the coordinator is loading, as clients do."""
    loading = ErrorCode.coordinator_load_in_progress
    while (result := await call(coordinators, command)).error_code is loading:
        await asyncio.sleep(0)
    return result


async def until_durable(topics: TopicRegistry) -> OSError | None:
    """Return the error of the pending writes to the topic registry, if any."""
    error: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    topics.on_durable(error.set_result)
    return await error
