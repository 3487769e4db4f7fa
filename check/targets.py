"""Brokers that a run can disturb. Their methods block, so they are called in a thread.

`OwnBroker` is a kohort cluster in this process, with a disk and a clock that can be disturbed.
`Process` is any broker that a command starts, for example Apache Kafka. It can be killed and
paused.
"""

import os
import random
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from ..protocol.bootstrap import Address
from ..testing import Kafka

Disturb = Callable[[random.Random], str]
"""A function that disturbs the broker, once or for a while. It returns a description for the
history."""

STOP_SECONDS: Final = 10.0
START_SECONDS: Final = 120.0
"""A JVM on a busy machine may need more than a minute."""
POLL_SECONDS: Final = 0.02
NODES: Final = 3

# Short timeouts, so that sessions expire within a run of a minute, and no client waits for long.
OWN_CONFIG: Final[Mapping[str, str]] = {
    "log.flush.interval.messages": "1",  # by default, as in Kafka, produced records are not synced
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
}
OWN_SESSION_TIMEOUT_MS: Final = 1500

# The requests whose effects are checked. If a response is lost, the client does not know the
# outcome.
_LOST_RESPONSES: Final = (
    "Produce",
    "EndTxn",
    "OffsetCommit",
    "TxnOffsetCommit",
    "InitProducerId",
    "JoinGroup",
    "SyncGroup",
    "ConsumerGroupHeartbeat",
)


OWN_NEMESES: Final = ("kill", "power", "move", "fsync", "clock", "lost")


class OwnBroker:
    """A kohort cluster that syncs like `kohort serve`: acknowledged records survive a power
    failure."""

    def __init__(self) -> None:
        self._kafka = Kafka(nodes=NODES, durability="fsync", config=OWN_CONFIG)
        all_ = self._kill, self._power, self._move, self._fsync, self._clock, self._lost
        self.nemeses: Mapping[str, Disturb] = dict(zip(OWN_NEMESES, all_, strict=True))

    def __enter__(self) -> Self:
        self._kafka.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._kafka.faults.clear()
        self._kafka.stop()

    @property
    def bootstrap(self) -> str:
        return self._kafka.bootstrap_servers

    def _kill(self, _chance: random.Random) -> str:
        self._kafka.crash()
        return "killed the broker and started it again"

    def _power(self, chance: random.Random) -> str:
        self._kafka.crash(power=True, seed=chance.getrandbits(32))
        return "cut the power, and lost some of the unsynced data"

    def _move(self, chance: random.Random) -> str:
        node = chance.randint(1, NODES)
        self._kafka.stop_node(node)
        time.sleep(chance.uniform(0.1, 1))
        self._kafka.start_node(node)
        return f"moved leaders and coordinators away from node {node} and back"

    def _fsync(self, chance: random.Random) -> str:
        fault = self._kafka.disk.fail("sync", times=None)
        time.sleep(chance.uniform(0.05, 0.5))
        self._kafka.disk.heal()
        fault.cancel()
        return f"made {fault.fired} calls to fsync fail"

    def _clock(self, chance: random.Random) -> str:
        seconds = chance.choice([1, 3, 90])
        self._kafka.clock.advance(seconds=seconds)
        return f"set the clock forward by {seconds} s"

    def _lost(self, chance: random.Random) -> str:
        api = chance.choice(_LOST_RESPONSES)
        fault = self._kafka.faults.lose_answer(api, times=chance.randint(1, 5))
        time.sleep(1)
        fault.cancel()
        lost = [f"{each.api} v{each.version} of {each.client_id}" for each in fault.fired]
        if not lost:
            return f"would have lost the response to {api}, but no such request arrived"
        return f"lost the response to {', '.join(lost)}"


PROCESS_NEMESES: Final = ("kill", "pause")


class BrokerEnded(Exception):
    """The command of a broker has ended, the broker does not listen, or another process already
    listens at its address."""


class Process:
    """A broker that `command` starts in the foreground, at `address`. When the broker is killed,
    all processes that it has started are killed too. Started again with the same command, the
    broker must find its data. Its output is appended to the file `output`. Entering the context
    calls `show_waiting` with the seconds since the start until the broker listens. It raises
    BrokerEnded, and OSError if the command cannot be run."""

    def __init__(
        self,
        command: str,
        address: Address,
        output: Path,
        show_waiting: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        self._address = address
        self._output = output
        self._show_waiting = show_waiting
        both = self._kill, self._pause
        self.nemeses: Mapping[str, Disturb] = dict(zip(PROCESS_NEMESES, both, strict=True))
        self._command = shlex.split(command)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._is_listening():
            raise BrokerEnded(
                f"something already listens at {self._address}: stop it, or choose another port"
            )
        try:
            self._start(self._show_waiting)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        if not self._has_ended():
            self._signal(signal.SIGKILL)
            self._has_ended()

    def _start(self, show_waiting: Callable[[float], None] = lambda _seconds: None) -> None:
        # In a new session, a script and the broker that it starts are one process group.
        with self._output.open("ab") as file:
            self._process = subprocess.Popen(  # noqa: S603 (the user's own command)
                self._command, stdout=file, stderr=file, start_new_session=True
            )
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < START_SECONDS:
            show_waiting(elapsed)
            is_listening = self._is_listening()
            self.check_running()  # otherwise another process may be listening
            if is_listening:
                return
            time.sleep(POLL_SECONDS)
        raise BrokerEnded(f"nothing listens at {self._address} after {START_SECONDS:g} s")

    def _is_listening(self) -> bool:
        with suppress(OSError), socket.create_connection(self._address, 1) as probe:
            # If the port is in the ephemeral range, the probe may be connected to itself.
            return bool(probe.getsockname() != probe.getpeername())
        return False

    def check_running(self) -> None:
        """Raise BrokerEnded unless the command is still running."""
        assert self._process is not None
        if (code := self._process.poll()) is not None:
            raise BrokerEnded(f"{self._command[0]} has ended with exit code {code}")

    def _signal(self, number: int) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):  # the process has ended; the clients notice it
            os.killpg(self._process.pid, number)

    def _has_ended(self) -> bool:
        """Wait until all processes of the group have ended, so that their ports are free. Return
        False after STOP_SECONDS."""
        assert self._process is not None
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            self._process.poll()  # reaps the process, so that it does not remain a zombie
            try:
                os.killpg(self._process.pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(POLL_SECONDS)
        return False

    def _kill(self, _chance: random.Random) -> str:
        self.check_running()
        self._signal(signal.SIGKILL)
        self._has_ended()
        self._start()
        return "killed the process (SIGKILL) and started it again"

    def _pause(self, chance: random.Random) -> str:
        self.check_running()
        seconds = chance.uniform(0.2, 3)
        self._signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._signal(signal.SIGCONT)
        return f"paused the process for {seconds:.1f} s (SIGSTOP)"
