"""A driver: a program in any language that controls one client library by commands from its input.

Each line of its input is a command in JSON: `{"n": 7, "do": "commit", "id": "a", …}`. For each
command the driver writes a line: `{"n": 7, …}` with the result, `{"n": 7, "error": "…"}` with the
library's error, or `{"n": 7, "unsupported": "…"}` if the library lacks the feature. Commands run
concurrently, except those of one consumer or producer (`id`). The driver ends at the end of its
input.

    subscribe   id, group, topics or pattern, session_ms, heartbeat_ms; instance, cooperative,
                consumer_protocol, read_committed
    commit      id, topic, partition, offset
    close       id: the member leaves
    produce     topic, partition, values: to be acknowledged by all replicas
    begin       id, transactional_id: begins a transaction, with a new producer if `id` has none
    send        id, topic, partition, values: to be acknowledged
    end         id, commit
    describe    group. Result: `groups`, the names of all; `state`; `members`, their number;
                `offsets`: [[topic, partition, offset]]

Commands that connect contain `servers` and, unless it is PLAINTEXT, `security`: protocol,
mechanism, user, password, ca (a PEM file).

A consumer polls without commands, commits nothing on its own, starts at the earliest offset if no
offset is committed, and looks for new topics every half second. Its events:

    {"id": "a", "event": "assignment", "partitions": [["t", 0]]}    all that it owns now
    {"id": "a", "event": "record", "topic": "t", "partition": 0, "offset": 3, "value": "…"}
    {"id": "a", "event": "error", "error": "…"}                     what the library reports
"""

import collections
import contextlib
import itertools
import json
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

# Long enough for the slowest library on a busy machine.
TIMEOUT_SECONDS = 30.0

Event = dict[str, Any]


class Unsupported(Exception):
    """The library lacks the feature."""


class ClientError(Exception):
    """The error that the library reports."""


class Partition(NamedTuple):
    topic: str
    partition: int


class Record(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str


class Driver:
    """The process. Its methods may be called from several threads."""

    def __init__(self, command: Sequence[str]) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self._numbers = itertools.count(1)
        self.changed = threading.Condition()
        """Notified at every line of its output."""
        self._results: dict[int, Event] = {}
        self._events: dict[str, list[Event]] = collections.defaultdict(list)
        self._has_ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self.changed:
                event = json.loads(line)
                if "n" in event:
                    self._results[event["n"]] = event
                else:
                    self._events[event["id"]].append(event)
                self.changed.notify_all()
        with self.changed:
            self._has_ended = True
            self.changed.notify_all()

    def call(self, do: str, **parameters: object) -> Event:
        """Return the result of a command. Raises Unsupported, ClientError."""
        return self.result(self.send(do, **parameters))

    def send(self, do: str, **parameters: object) -> int:
        """Return the number of the command; `result` waits for it."""
        assert self._process.stdin is not None
        assert self.is_running(), f"the driver has ended\n{self.log()}"
        with self.changed:
            number = next(self._numbers)
            self._process.stdin.write(json.dumps({"n": number, "do": do, **parameters}) + "\n")
            self._process.stdin.flush()
        return number

    def is_running(self) -> bool:
        return self._process.poll() is None

    def result(self, number: int) -> Event:
        self.wait(lambda: number in self._results, f"the response to command {number}")
        result = self._results.pop(number)
        if "unsupported" in result:
            raise Unsupported(result["unsupported"])
        if "error" in result:
            raise ClientError(result["error"])
        return result

    def events(self, member: str) -> list[Event]:
        return self._events[member]

    def wait(
        self, condition: Callable[[], object], what: str, seconds: float = TIMEOUT_SECONDS
    ) -> None:
        """Wait until the condition holds, which is checked after each line of the output."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while not condition():
                left = deadline - time.monotonic()
                if self._has_ended or left <= 0:
                    why = "the driver has ended" if self._has_ended else "timed out"
                    raise AssertionError(f"{why} waiting for {what}\n{self.log()}")
                self.changed.wait(left)

    def log(self) -> str:
        """The end of the driver's standard error."""
        with contextlib.suppress(ValueError):  # closed
            self.errors.seek(0)
            return self.errors.read()[-3000:]
        return ""

    def pause(self) -> None:
        """Suspend the process, including its heartbeats."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill the driver. Sessions that are still open end with the broker."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self.errors):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


class Member:
    """A consumer of a driver."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver = driver
        self.name = name
        self.is_closed = False
        self._events = driver.events(name)

    def subscribe(self, **settings: object) -> None:
        self.driver.call("subscribe", id=self.name, **settings)

    @property
    def assignments(self) -> list[set[Partition]]:
        """All assignments so far, in order."""
        return [
            {Partition(*each) for each in event["partitions"]}
            for event in list(self._events)
            if event["event"] == "assignment"
        ]

    @property
    def partitions(self) -> set[Partition]:
        return next(iter(reversed(self.assignments)), set())

    @property
    def records(self) -> list[Record]:
        return [
            Record(event["topic"], event["partition"], event["offset"], event["value"])
            for event in list(self._events)
            if event["event"] == "record"
        ]

    @property
    def errors(self) -> list[str]:
        return [event["error"] for event in list(self._events) if event["event"] == "error"]

    def wait(
        self, condition: Callable[[], object], what: str, seconds: float = TIMEOUT_SECONDS
    ) -> None:
        try:
            self.driver.wait(condition, f"{self.name}: {what}", seconds)
        except AssertionError as error:
            had = [sorted(f"{t}-{p}" for t, p in each) for each, _ in groupby(self.assignments)]
            errors = list(dict.fromkeys(self.errors))
            raise AssertionError(f"{error}\nassignments {had}, errors {errors}") from None

    def wait_count(self, count: int, seconds: float = TIMEOUT_SECONDS) -> set[Partition]:
        """Wait until the member owns this number of partitions, and return them."""
        self.wait(lambda: len(self.partitions) == count, f"{count} partitions", seconds)
        return self.partitions

    def wait_values(self, values: Sequence[str]) -> None:
        wanted = set(values)
        self.wait(lambda: wanted <= {record.value for record in self.records}, f"records {values}")

    def commit(self, partition: Partition, offset: int) -> None:
        self.driver.call("commit", id=self.name, **partition._asdict(), offset=offset)

    def close(self) -> None:
        self.driver.call("close", id=self.name)
        self.is_closed = True
