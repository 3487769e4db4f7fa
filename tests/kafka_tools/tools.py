"""Kafka's command line tools, run as processes."""

import json
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any, NamedTuple

from support.java import archive, archiving, java

MEMORY = "-Xmx256m"
TIMEOUT_SECONDS = 60

COMMANDS = {
    "all-groups": "org.apache.kafka.tools.GroupsCommand",
    "groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "reassign": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "producer-performance": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-performance": "org.apache.kafka.tools.ConsumerPerformance",
    "latency": "org.apache.kafka.tools.EndToEndLatency",
    "producer": "org.apache.kafka.tools.VerifiableProducer",
    "consumer": "org.apache.kafka.tools.VerifiableConsumer",
}

Partition = tuple[str, int]
"""A partition of a topic."""


class Result(NamedTuple):
    """Standard output and standard error of a tool, and its exit status."""

    output: str
    status: int

    def table(self) -> list[dict[str, str]]:
        """The rows of the printed table, by column names. Cells contain no spaces."""
        lines = self.lines()
        header = next(n for n, line in enumerate(lines) if line.split()[0] in ("GROUP", "TOPIC"))
        columns = lines[header].split()
        rows = [line.split() for line in lines[header + 1 :]]
        return [dict(zip(columns, row, strict=True)) for row in rows if len(row) == len(columns)]

    def lines(self) -> list[str]:
        """The output without blank lines and warnings of SLF4J."""
        lines = [line.rstrip() for line in self.output.splitlines()]
        return [line for line in lines if line and not line.startswith("SLF4J:")]


class Tools:
    """Kafka's tools for one cluster."""

    def __init__(self, jars: Path, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._jars = jars

    def archive_classes(self, topic: str) -> None:
        """Create the CDS archive by running a tool that has all kinds of clients."""
        if archive(self._jars, "tools").exists():
            return
        one_record = ("--num-records", 1, "--producer-acks", 1, "--record-size", 10)
        with archiving(self._jars, "tools", MEMORY) as jvm:
            command = [*jvm, *self._tool("latency", "--topic", topic, *one_record)]
            subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS)

    def command(self, name: str, *args: object) -> list[str]:
        return [*java(self._jars, "tools", MEMORY), *self._tool(name, *args)]

    def _tool(self, name: str, *args: object) -> list[str]:
        return [COMMANDS[name], "--bootstrap-server", self.bootstrap, *map(str, args)]

    def run(self, name: str, *args: object) -> Result:
        """Run a tool until it ends."""
        done = subprocess.run(
            self.command(name, *args),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        return Result(done.stdout, done.returncode)


class Verifiable:
    """A running VerifiableProducer or VerifiableConsumer; each line of its output is an event."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._lines: list[dict[str, Any]] = []  # appended to by the reader thread
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{") and line.endswith("}\n"):
                self._lines.append(json.loads(line))

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self._lines) if event["name"] == name]

    def assignment(self) -> frozenset[Partition]:
        """The partitions that a consumer owns, from its events."""
        owned: frozenset[Partition] = frozenset()
        for event in list(self._lines):
            partitions = frozenset(
                (p["topic"], p["partition"]) for p in event.get("partitions", ())
            )
            if event["name"] == "partitions_assigned":
                owned |= partitions
            elif event["name"] == "partitions_revoked":
                owned -= partitions
        return owned

    def consumed(self) -> list[tuple[int, int]]:
        """(partition, offset) of each consumed record."""
        return [
            (part["partition"], offset)
            for event in self.events("records_consumed")
            for part in event["partitions"]
            for offset in range(part["minOffset"], part["maxOffset"] + 1)
        ]

    def committed(self) -> dict[int, int]:
        """The last committed offset by partition."""
        return {
            committed["partition"]: committed["offset"]
            for event in self.events("offsets_committed")
            if event["success"]
            for committed in event["offsets"]
        }

    def sent(self) -> list[tuple[int, int]]:
        """(partition, offset) of each acknowledged record."""
        return [(e["partition"], e["offset"]) for e in self.events("producer_send_success")]

    def ended(self) -> bool:
        return self._process.poll() is not None and not self._reader.is_alive()

    def stop(self) -> None:
        """Send SIGTERM. The tool then closes its client and reports this."""
        self._end(signal.SIGTERM)
        assert self.events("shutdown_complete")

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        with self._process:  # closes its pipe
            try:
                self._process.send_signal(number)
                self._process.wait(TIMEOUT_SECONDS)
            finally:
                self._process.kill()
                self._reader.join()
