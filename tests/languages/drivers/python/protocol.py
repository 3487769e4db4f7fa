"""The code that the drivers in Python share: commands on standard input, events on standard output
(see tests/languages/driver.py). Each consumer and producer has its own thread, which polls it and
carries out its commands between two polls."""

import json
import queue
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

Command = dict[str, Any]


class Unsupported(Exception):
    """The library lacks the feature."""


_output = threading.Lock()


def _write(event: dict[str, Any]) -> None:
    with _output:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


class Events:
    """The events of one member."""

    def __init__(self, member: str) -> None:
        self._id = member

    def record(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        where = {"topic": topic, "partition": partition, "offset": offset}
        _write({"id": self._id, "event": "record", **where, "value": value.decode()})

    def assignment(self, partitions: Iterable[tuple[str, int]]) -> None:
        _write({"id": self._id, "event": "assignment", "partitions": sorted(partitions)})

    def error(self, error: object) -> None:
        _write({"id": self._id, "event": "error", "error": f"{type(error).__name__}: {error}"})


class Library:
    """The interface of a driver."""

    def subscribe(self, command: Command, events: Events) -> Any:
        """Return a member: poll(), commit(topic, partition, offset), close()."""
        raise NotImplementedError

    def produce(self, command: Command) -> None:
        raise NotImplementedError

    def producer(self, command: Command) -> Any:
        """Return a transactional producer: begin(), send(topic, partition, values), end(commit)."""
        raise NotImplementedError

    def describe(self, command: Command) -> dict[str, Any]:
        raise NotImplementedError


def _respond(command: Command, carry_out: Callable[[], dict[str, Any] | None]) -> None:
    result: dict[str, Any] = {}
    try:
        result = carry_out() or {}
    except Unsupported as reason:
        result = {"unsupported": str(reason)}
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    _write({"n": command["n"], **result})


class _Thread(threading.Thread):
    """The thread of a consumer or of a transactional producer."""

    def __init__(self, library: Library) -> None:
        super().__init__(daemon=True)
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._library = library
        self._events: Events | None = None
        self._object: Any = None

    def run(self) -> None:
        while True:
            is_polled = self._events is not None and self._object is not None
            try:
                command = self.commands.get(block=not is_polled)
            except queue.Empty:
                self._poll()
            else:
                _respond(command, lambda: self._carry_out(command))  # noqa: B023  # called now

    def _poll(self) -> None:
        try:
            self._object.poll()
        except Exception as error:
            self._events.error(error)  # type: ignore[union-attr]

    def _carry_out(self, command: Command) -> None:
        where = (command.get("topic"), command.get("partition"))
        match command["do"]:
            case "subscribe":
                self._events = Events(command["id"])
                self._object = self._library.subscribe(command, self._events)
            case "commit":
                self._object.commit(*where, command["offset"])
            case "close":
                closing, self._object = self._object, None
                if closing is not None:  # otherwise it could not subscribe
                    closing.close()
            case "begin":
                self._object = self._object or self._library.producer(command)
                self._object.begin()
            case "send":
                self._object.send(*where, command["values"])
            case "end":
                self._object.end(command["commit"])


def run(library: Library) -> None:
    threads: dict[str, _Thread] = {}
    for line in sys.stdin:
        command = json.loads(line)
        if "id" in command:
            if command["id"] not in threads:
                threads[command["id"]] = _Thread(library)
                threads[command["id"]].start()
            threads[command["id"]].commands.put(command)
            continue
        call = library.describe if command["do"] == "describe" else library.produce
        given = (command, lambda call=call, command=command: call(command))
        threading.Thread(target=_respond, args=given, daemon=True).start()
