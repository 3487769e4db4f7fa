"""A real consumer in its own process, so that it can be slow, exit or be killed.

    python -m truth.process LIBRARY SETTINGS      settings as JSON

Commands on standard input: `slow SECONDS` (the next records take this long), `close`.
"""

import asyncio
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
POLL_SECONDS = 0.2


class Process:
    """The process, as seen by its parent."""

    def __init__(self, library: str, **settings: Any) -> None:
        self.client_id: str = settings["client_id"]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (lives as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, HERE / "process.py", library, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def check_running(self) -> None:
        """Raise an error with the end of its standard error if the process has ended."""
        if self._process.poll() is not None:
            self._errors.seek(0)
            raise AssertionError(f"{self.client_id} has ended:\n{self._errors.read()[-3000:]}")

    def slow(self, seconds: float) -> None:
        self._send(f"slow {seconds}")

    def close(self) -> None:
        self._send("close")
        self._wait()

    def kill(self) -> None:
        self._process.kill()
        self._wait()

    def _wait(self) -> None:
        self._process.wait(60)
        self._stdin.close()
        self._errors.close()

    @property
    def _stdin(self) -> Any:
        assert self._process.stdin is not None
        return self._process.stdin

    def _send(self, line: str) -> None:
        self._stdin.write(line + "\n")
        self._stdin.flush()


class CommandReader:
    """Commands of the parent, read in a thread."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.is_over = False
        threading.Thread(target=self._read_stdin, daemon=True).start()

    def _read_stdin(self) -> None:
        for line in sys.stdin:
            self._lines.put(line)
        self._lines.put("close")

    def slow_seconds(self) -> float:
        """Return how long the next records take, according to the last command."""
        if self._lines.empty():
            return 0
        command, *arguments = self._lines.get().split()
        self.is_over = command == "close"
        return float(arguments[0]) if arguments else 0


def settings(s: dict[str, Any]) -> dict[str, Any]:
    """Settings with the names shared by kafka-python and aiokafka."""
    return {
        "bootstrap_servers": s["bootstrap"],
        "group_id": s["group"],
        "client_id": s["client_id"],
        "group_instance_id": s.get("instance_id"),
        "session_timeout_ms": s["session_ms"],
        "heartbeat_interval_ms": s["session_ms"] // 5,
        "max_poll_interval_ms": s["max_poll_ms"],
        "auto_commit_interval_ms": s["commit_ms"],
        "auto_offset_reset": "earliest",
        "metadata_max_age_ms": 1_000,
    }


def consume(poll: Callable[[], object], close: Callable[[], object]) -> None:
    commands = CommandReader()
    while not commands.is_over:
        poll()
        time.sleep(commands.slow_seconds())
    close()


def kafka_python(s: dict[str, Any]) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = KafkaConsumer(
        s["topic"], partition_assignment_strategy=[RangePartitionAssignor], **settings(s)
    )
    # kafka-python 3.0.12 drops a rebalance that completes between two calls of poll(). If added
    # partitions caused the rebalance, the consumer then neither sends heartbeats nor rejoins.
    # max_poll_ms is also the rebalance timeout, so a rebalance completes within one call.
    consume(lambda: consumer.poll(timeout_ms=s["max_poll_ms"]), consumer.close)


def librdkafka(s: dict[str, Any]) -> None:
    from confluent_kafka import Consumer

    instance = {"group.instance.id": s["instance_id"]} if s.get("instance_id") else {}
    consumer = Consumer(
        {
            "bootstrap.servers": s["bootstrap"],
            "group.id": s["group"],
            "client.id": s["client_id"],
            "session.timeout.ms": s["session_ms"],
            "heartbeat.interval.ms": s["session_ms"] // 5,
            "max.poll.interval.ms": s["max_poll_ms"],
            "auto.commit.interval.ms": s["commit_ms"],
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 1_000,
            "partition.assignment.strategy": "cooperative-sticky",
            **instance,
        }
    )
    consumer.subscribe([s["topic"]])
    consume(lambda: consumer.poll(POLL_SECONDS), consumer.close)


def aiokafka(s: dict[str, Any]) -> None:
    asyncio.run(_aiokafka(s))


async def _aiokafka(s: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(s["topic"], **settings(s))
    await consumer.start()
    commands = CommandReader()
    while not commands.is_over:
        await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1_000))
        await asyncio.sleep(commands.slow_seconds())
    await consumer.stop()


LIBRARIES = {"kafka-python": kafka_python, "librdkafka": librdkafka, "aiokafka": aiokafka}

if __name__ == "__main__":
    LIBRARIES[sys.argv[1]](json.loads(sys.argv[2]))
