"""A broker under attack, and a table of the effects on a well-behaved client (`make hostile`)."""

import errno
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hostile.neighbor import SESSION_MS, Seen
from support.running_broker import BrokerProcess, start_broker
from support.wire import Client

TESTS = Path(__file__).parents[1]
RSS_MIB_MAX = 512
# When they were found, the attacks stopped the event loop for seconds to minutes. A busy machine
# stops it for a shorter time.
TURN_MS_MAX = 1_000

# With `make hostile`, attacks have the size at which they were found. By default, they are smaller.
FULL = bool(os.environ.get("KOHORT_HOSTILE"))


class Target(NamedTuple):
    """`kohort serve` in a process, attacked over the network. At the end, it must be running, its
    neighbor must have been a member throughout, its memory must be within the limit, and it must
    stop with exit code 0 and without a traceback."""

    broker: BrokerProcess
    address: str
    data: Path
    stop: Callable[..., None]
    """A function that stops the broker before the end of the test, with SIGTERM or another signal,
    and makes the same checks."""

    def client(self, **kwargs: Any) -> Client:
        return Client(self.address, "attacker", **kwargs)

    def listener(self, protocol: str) -> str:
        """Return the address of the listener with this name."""
        match = self.broker.logged(rf"Awaiting socket connections on (\S+) \({protocol}\)\.")
        assert match
        return match[1]

    def client_context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts the broker's own authority."""
        return ssl.create_default_context(cafile=self.data / "security" / "ca.pem")

    @property
    def log(self) -> str:
        errors = self.broker.errors
        return "" if errors.is_fifo() else errors.read_text()

    def has_logged(self, text: str) -> bool:
        """Return whether the broker logs the text. A thread writes the log after the response."""
        return self.broker.logged(re.escape(text)) is not None

    @property
    def longest_turn_ms(self) -> str:
        """The longest event loop callback. It is known if the broker has stopped and its log was
        read."""
        found = re.search(r"Event loop: \d+ callbacks, the longest ([\d.]+) ms", self.log)
        return found[1] if found else "?"

    @property
    def peak_rss_mib(self) -> float:
        status = Path(f"/proc/{self.broker.process.pid}/status").read_text()
        match = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert match
        return int(match[1]) / 1024


def finish(client: socket.socket) -> None:
    """Stop sending, and wait until the broker has closed the connection."""
    try:
        client.shutdown(socket.SHUT_WR)  # in TCP, because later bytes are not decrypted
    except OSError as error:
        if error.errno != errno.ENOTCONN:  # the broker has closed it already
            raise
    while client.recv(1 << 16):
        pass


def is_closed(client: socket.socket) -> bool:
    """Wait until the broker has closed the connection, or sent something."""
    try:
        return not client.recv(1)
    except ConnectionError:
        return True


@contextmanager
def neighbor(address: str, session_ms: int) -> Iterator[Callable[[], Seen]]:
    """A member that runs during the attack. The function ends it and returns its observations."""
    with subprocess.Popen(
        [sys.executable, "-m", "hostile.neighbor", address, str(session_ms)],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield lambda: Seen(*json.loads(process.communicate(timeout=60)[0]))
        finally:
            process.kill()


@pytest.fixture
def attack(
    tmp_path: Path, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Iterator[Callable[..., Target]]:
    """`attack(*ARGS)` starts `kohort serve ARGS` and the neighbor, and returns the Target. After
    `Target.stop`, the next target has the same data. `in_memory`: without a data folder. Other
    keyword arguments are passed to start_broker."""
    data = tmp_path / "parent" / "data"
    with ExitStack() as stack:
        checks: list[Callable[[], None]] = []

        def start(
            *args: str | Path,
            rss_mib_max: int = RSS_MIB_MAX,
            turn_ms_max: float = TURN_MS_MAX,
            session_ms: int = SESSION_MS,
            in_memory: bool = False,
            **kwargs: Any,
        ) -> Target:
            where = () if in_memory else ("--data-dir", data)
            # The neighbor's group is stable at once.
            delay = ("-o", "group.initial.rebalance.delay.ms=0")
            common = ("--port", "0", "--durability", "os", *delay, *where)
            broker = stack.enter_context(start_broker(tmp_path, *common, *args, **kwargs))
            end = stack.enter_context(neighbor(broker.bootstrap, session_ms))

            def check(number: int = signal.SIGTERM) -> None:
                checks.remove(check)
                seen, rss = end(), target.peak_rss_mib
                stopped = broker.stop(number)
                turn_ms = target.longest_turn_ms
                name = request.node.nodeid.removeprefix("tests/hostile/test_")
                figures = seen.worst_ms, turn_ms, round(rss), round(os.getloadavg()[0], 1)
                record_property("hostile", (name, *figures))
                assert seen.errors == {}
                assert seen.heartbeats
                assert rss <= rss_mib_max
                assert not FULL or turn_ms == "?" or float(turn_ms) <= turn_ms_max
                assert stopped == 0
                assert "Traceback" not in target.log, target.log

            target = Target(broker, broker.bootstrap, data, check)
            checks.append(check)
            return target

        yield start
        for check in checks.copy():
            check()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "hostile" and report.when == "teardown"
    ]
    if FULL and rows:
        # The latency of a client during the attack, which includes stalls of the machine; the
        # longest callback of the event loop; the peak of the broker's memory; the load of the
        # machine.
        line = "{:<100} {:>8} {:>7} {:>7} {:>5}".format
        terminalreporter.write_line(line("attack", "worst ms", "turn ms", "RSS MiB", "load"))
        for row in sorted(rows, key=itemgetter(0)):
            terminalreporter.write_line(line(*row))
