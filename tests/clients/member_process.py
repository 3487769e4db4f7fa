"""A member of a group in its own process, which can be slow, stopped and killed.

`python -m tests.clients.member_process LIBRARY BOOTSTRAP TOPIC SETTINGS` consumes and commits; the
settings are ConsumerSettings as JSON. Each line of its input is a number of seconds, for which it
processes each of the next records. Each line of its output is a JSON event.
"""

import contextlib
import dataclasses
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from .adapter import BrokerError, ConsumerSettings, Partition, load

ROOT = Path(__file__).parents[2]


class MemberProcess:
    """The parent's side."""

    def __init__(
        self, library: str, bootstrap: str, topic: str, settings: ConsumerSettings
    ) -> None:
        arguments = [library, bootstrap, topic, json.dumps(dataclasses.asdict(settings))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.clients.member_process", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.client_id = settings.client_id
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

    def check_running(self) -> None:
        """Check that the process is running. Its standard error is the test's."""
        code = self._process.poll()
        assert code is None, f"{self.client_id} has ended with {code}"

    def slow(self, seconds: float) -> None:
        """Let the member process each of the next records for this time."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """Kill the process: its sockets are closed, but it does not leave the group."""
        self._end(signal.SIGKILL)

    def stall(self) -> None:
        """Stop the process; its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Close the consumer and end the process."""
        self._end(signal.SIGTERM)

    def _end(self, by: signal.Signals) -> None:
        with self._process:  # closes its pipes
            try:
                self._process.send_signal(signal.SIGCONT)
                self._process.send_signal(by)
                self._process.wait(60)
            finally:
                self._process.kill()
                self._reader.join()


def emit(**event: Any) -> None:
    print(json.dumps(event), flush=True)  # noqa: T201  (the parent reads it)


def run(library: str, bootstrap: str, topic: str, settings: str) -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    pauses: queue.SimpleQueue[float] = queue.SimpleQueue()
    threading.Thread(
        target=lambda: [pauses.put(float(line)) for line in sys.stdin], daemon=True
    ).start()
    client = load(library)(bootstrap)
    given = ConsumerSettings(**json.loads(settings))
    consumer = client.consumer(given)
    consumer.subscribe(topic)
    assigned: frozenset[Partition] = frozenset()
    while not stopping.is_set():
        records = consumer.poll()
        if not pauses.empty():
            time.sleep(pauses.get())
        if consumer.assignment() != assigned:
            assigned = consumer.assignment()
            emit(assigned=sorted(assigned))
        if records:
            emit(values=[(record.value or b"").decode() for record in records])
            if not given.auto_commit:
                with contextlib.suppress(BrokerError):  # it was removed while it was stopped
                    consumer.commit()
    consumer.close()
    client.close()


if __name__ == "__main__":
    run(*sys.argv[1:])
