"""A member of a group in its own process, which can be killed and stopped.

`python -m tests.clients.member LIBRARY BOOTSTRAP GROUP TOPIC SESSION_TIMEOUT_MS` consumes and
commits; each line of its output is a JSON event.
"""

import contextlib
import importlib
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from .adapter import BrokerError, Client, ConsumerSettings, Partition

ROOT = Path(__file__).parents[2]

LIBRARIES = {
    "kafka-python": ("kafka_python", "KafkaPython"),
    "librdkafka": ("librdkafka", "Librdkafka"),
    "aiokafka": ("aio", "AioKafka"),
}


def load(library: str) -> type[Client]:
    """The adapter. Imported at its first use: the libraries are large."""
    module, name = LIBRARIES[library]
    client: type[Client] = getattr(importlib.import_module(f".{module}", __package__), name)
    return client


class MemberProcess:
    """The parent's side."""

    def __init__(self, library: str, bootstrap: str, group: str, topic: str, session_ms: int):
        command = [sys.executable, "-m", "tests.clients.member", library, bootstrap]
        self._process = subprocess.Popen(
            [*command, group, topic, str(session_ms)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        self.assignment: frozenset[Partition] = frozenset()
        self.values: list[str] = []
        self._reader = threading.Thread(target=self._follow)
        self._reader.start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                return  # killed while it was writing
            event = json.loads(line)
            if "assigned" in event:
                self.assignment = frozenset(
                    Partition(*partition) for partition in event["assigned"]
                )
            self.values += event.get("values", [])

    def kill(self) -> None:
        """Its sockets are closed; it does not leave the group."""
        self._end(signal.SIGKILL)

    def stall(self) -> None:
        """Stop the process; its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Leave the group and end."""
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


def emit(**event: Any) -> None:
    print(json.dumps(event), flush=True)  # noqa: T201  (the parent reads it)


def run(library: str, bootstrap: str, group: str, topic: str, session_ms: str) -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    client = load(library)(bootstrap)
    consumer = client.consumer(ConsumerSettings(group, session_timeout_ms=int(session_ms)))
    consumer.subscribe(topic)
    assigned: frozenset[Partition] = frozenset()
    while not stopping.is_set():
        records = consumer.poll()
        if consumer.assignment() != assigned:
            assigned = consumer.assignment()
            emit(assigned=sorted(assigned))
        if records:
            emit(values=[(record.value or b"").decode() for record in records])
            with contextlib.suppress(BrokerError):  # it was removed while it was stopped
                consumer.commit()
    consumer.close()
    client.close()


if __name__ == "__main__":
    run(*sys.argv[1:])
