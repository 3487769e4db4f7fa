"""Kafka's command line tools as processes: some run to their end, two talk while they work."""

import json
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any, NamedTuple

from jvm import archive, archiving, java

MEMORY = "-Xmx256m"
PATIENCE_SECONDS = 60

COMMANDS = {
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "producer-performance": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-performance": "org.apache.kafka.tools.ConsumerPerformance",
    "latency": "org.apache.kafka.tools.EndToEndLatency",
    "producer": "org.apache.kafka.tools.VerifiableProducer",
    "consumer": "org.apache.kafka.tools.VerifiableConsumer",
}

Place = tuple[str, int]
"""A partition of a topic."""


class Ended(NamedTuple):
    """What a tool said on both its outputs, and its exit status."""

    said: str
    status: int

    def table(self) -> list[dict[str, str]]:
        """The rows of the table that it printed, by the columns' names.

        Cells hold no blanks, but for a coordinator, which is two words in a column of two.
        """
        lines = [line.replace(" (ID)", "(ID)").replace("  (", "(") for line in self.lines()]
        begins = next(n for n, line in enumerate(lines) if line.split()[0] in ("GROUP", "TOPIC"))
        columns = lines[begins].split()
        rows = [line.split() for line in lines[begins + 1 :]]
        return [dict(zip(columns, row, strict=True)) for row in rows if len(row) == len(columns)]

    def lines(self) -> list[str]:
        """What it said, without blank lines and without complaints about its logging's set-up."""
        lines = [line.rstrip() for line in self.said.splitlines()]
        return [line for line in lines if line and not line.startswith("SLF4J:")]


class Tools:
    """Kafka's tools pointed at one cluster."""

    def __init__(self, jars: Path, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._jars = jars

    def archive_classes(self, topic: str) -> None:
        """By a tool that has a client of every kind."""
        if archive(self._jars, "tools").exists():
            return
        what = ("--topic", topic, "--num-records", 1, "--producer-acks", 1, "--record-size", 10)
        with archiving(self._jars, "tools", MEMORY) as jvm:
            command = [*jvm, *self._tool("latency", *what)]
            subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS)

    def command(self, name: str, *args: object) -> list[str]:
        return [*java(self._jars, "tools", MEMORY), *self._tool(name, *args)]

    def _tool(self, name: str, *args: object) -> list[str]:
        return [COMMANDS[name], "--bootstrap-server", self.bootstrap, *map(str, args)]

    def run(self, name: str, *args: object) -> Ended:
        """The tool to its end, whatever that is."""
        done = subprocess.run(
            self.command(name, *args),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        return Ended(done.stdout, done.returncode)


class Verifiable:
    """A VerifiableProducer or VerifiableConsumer: each line that it prints is an event."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._lines: list[dict[str, Any]] = []  # only ever appended to, by the reader
        self._reader = threading.Thread(target=self._follow)
        self._reader.start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{") and line.endswith("}\n"):
                self._lines.append(json.loads(line))

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self._lines) if event["name"] == name]

    def assignment(self) -> frozenset[Place]:
        """What a consumer owns by the last that it said about it."""
        owned: frozenset[Place] = frozenset()
        for event in list(self._lines):
            named = frozenset((p["topic"], p["partition"]) for p in event.get("partitions", ()))
            if event["name"] == "partitions_assigned":
                owned |= named
            elif event["name"] == "partitions_revoked":
                owned -= named
        return owned

    def consumed(self) -> list[tuple[int, int]]:
        """(partition, offset) of each record that a consumer got."""
        return [
            (part["partition"], offset)
            for event in self.events("records_consumed")
            for part in event["partitions"]
            for offset in range(part["minOffset"], part["maxOffset"] + 1)
        ]

    def committed(self) -> dict[int, int]:
        """What a consumer committed last, by partition."""
        return {
            said["partition"]: said["offset"]
            for event in self.events("offsets_committed")
            if event["success"]
            for said in event["offsets"]
        }

    def sent(self) -> list[tuple[int, int]]:
        """(partition, offset) of each record of a producer that was acknowledged."""
        return [(e["partition"], e["offset"]) for e in self.events("producer_send_success")]

    def ended(self) -> bool:
        return self._process.poll() is not None and not self._reader.is_alive()

    def stop(self) -> None:
        """Ends it as a service is ended: it closes its client and says that it did."""
        self._end(signal.SIGTERM)
        assert self.events("shutdown_complete")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, by: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(by)
        try:
            self._process.wait(PATIENCE_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()
