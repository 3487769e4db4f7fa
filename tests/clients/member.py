"""A member of a group in a process of its own, so that it can die or stall like a real one.

Run as `python -m tests.clients.member LIBRARY BOOTSTRAP GROUP TOPIC SESSION_TIMEOUT_MS` it
consumes and commits what it got; each line on its standard output is a JSON event.
"""

import importlib
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from .adapter import Client, ConsumerSettings, Place, RefusedError

ROOT = Path(__file__).parents[2]

LIBRARIES = {
    "kafka-python": ("kafka_python", "KafkaPython"),
    "librdkafka": ("librdkafka", "Librdkafka"),
    "aiokafka": ("aio", "AioKafka"),
}


def load(library: str) -> type[Client]:
    """The adapter; imported at its first use, as none of the libraries is light."""
    module, name = LIBRARIES[library]
    client: type[Client] = getattr(importlib.import_module(f".{module}", __package__), name)
    return client


class MemberProcess:
    """The parent's side: starts a member, follows its events, and ends it in one way or another."""

    def __init__(self, library: str, bootstrap: str, group: str, topic: str, session_ms: int):
        command = [sys.executable, "-m", "tests.clients.member", library, bootstrap]
        self._process = subprocess.Popen(
            [*command, group, topic, str(session_ms)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        self.assignment: frozenset[Place] = frozenset()
        self.values: list[str] = []
        self.refused: list[int] = []
        self._reader = threading.Thread(target=self._follow)
        self._reader.start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                return  # killed in the middle of a line
            event = json.loads(line)
            if "assigned" in event:
                self.assignment = frozenset(Place(*place) for place in event["assigned"])
            self.values += event.get("values", [])
            self.refused += event.get("refused", [])

    def kill(self) -> None:
        """Vanishes: the sockets close, but nobody leaves the group."""
        self._end(signal.SIGKILL)

    def stall(self) -> None:
        """Stops where it stands, with its connections open."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Leaves the group and ends."""
        self._end(signal.SIGTERM)

    def _end(self, by: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(by)
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)  # noqa: T201  (the parent reads it)


def run(library: str, bootstrap: str, group: str, topic: str, session_ms: str) -> None:
    going = threading.Event()
    going.set()
    signal.signal(signal.SIGTERM, lambda *_: going.clear())
    client = load(library)(bootstrap)
    consumer = client.consumer(ConsumerSettings(group, session_timeout_ms=int(session_ms)))
    consumer.subscribe(topic)
    assigned: frozenset[Place] = frozenset()
    while going.is_set():
        records = consumer.poll()
        if consumer.assignment() != assigned:
            assigned = consumer.assignment()
            say(assigned=sorted(assigned))
        if records:
            say(values=[(record.value or b"").decode() for record in records])
            try:
                consumer.commit()
            except RefusedError as error:
                say(refused=[error.code])  # expelled while it stalled: the library joins again
    consumer.close()
    client.close()


if __name__ == "__main__":
    run(*sys.argv[1:])
