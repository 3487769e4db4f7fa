"""A group of three consumers counts words, while a member leaves and the broker is killed.

The exit code is 1 if a line is lost or another check fails. text.txt contains 2,000 lines of
sentences written for this demo, in the public domain (CC0).
"""

import contextlib
import json
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from rich.console import Console
from rich.table import Table
from why import explain_rebalances

HERE = Path(__file__).parent
TOPIC, GROUP, PARTITIONS = "lines", "word-count", 6
TIMEOUT_SECONDS = 30  # per wait; without Spark, the whole demo takes about 10 s
LOG_LINES_MAX = 20
WORD = re.compile(r"[a-z']+")
console = Console(highlight=False)


class Failed(Exception):
    """An error that ends the demo."""


class Demo:
    """The processes of the demo, and the events that they print as JSON lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines = (HERE / "text.txt").read_text(encoding="utf-8").splitlines()
        self.started_at = time.monotonic()
        self.events: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.children: dict[str, subprocess.Popen[str]] = {}
        self.bootstrap = "127.0.0.1:0"
        self.words: dict[int, Counter[str]] = {}  # line number -> its words
        self.per_partition: dict[int, set[int]] = {number: set() for number in range(PARTITIONS)}
        self.counted_again = 0
        self.acknowledged: dict[int, int] = {}  # partition -> highest acknowledged offset
        self.owned: dict[str, list[int]] = {}
        self.assignments: list[dict[str, list[int]]] = []  # of stable generations
        self.sent: dict[str, int] = {}
        self.steps: list[tuple[str, float]] = []

    def start_broker(self) -> None:
        """Run `kohort serve`; a restart uses the same data folder and port."""
        command = [sys.executable, "-m", "kohort", "serve", "--port", self.bootstrap.split(":")[1]]
        command += ["--data-dir", str(self.folder / "data"), "--log-level", "warning"]
        command += ["-o", "group.initial.rebalance.delay.ms=0"]
        broker = self.child("broker", command)
        assert broker.stdout is not None
        line = broker.stdout.readline()
        if " listening on " not in line:
            raise Failed("the broker did not start")
        self.bootstrap = line.split(" listening on ")[1].split()[0]
        self.print(line.strip().replace(str(self.folder), "…"))

    def start(self, name: str, script: str) -> None:
        """Start consumer.py or producer.py; its client id and its events have this name."""
        command = [sys.executable, str(HERE / script), "--bootstrap-servers", self.bootstrap]
        command += ["--client-id", name]
        child = self.child(name, command)

        def read_events() -> None:
            for line in child.stdout or ():
                self.events.put((name, json.loads(line)))

        threading.Thread(target=read_events, daemon=True).start()

    def child(self, name: str, command: list[str]) -> subprocess.Popen[str]:
        with self.log_of(name).open("a") as log:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.children[name] = child
        return child

    def log_of(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.bootstrap, reconnect_backoff_max_ms=200)

    def committed(self) -> dict[int, int]:
        """Return the broker's committed offsets, by partition."""
        with contextlib.closing(self.admin()) as admin:
            offsets = admin.list_group_offsets(GROUP)[GROUP]
        return {partition.partition: entry.offset for partition, entry in offsets.items()}

    def wait_until(self, done: Callable[[], bool], what: str) -> None:
        """Handle events until `done()` returns True. Raises Failed after the timeout."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not done():
            try:
                self.handle(*self.events.get(timeout=0.5))
            except queue.Empty:
                codes = {name: child.poll() for name, child in self.children.items()}
                if failed := [name for name, code in codes.items() if code]:
                    raise Failed(f"{', '.join(failed)} ended while waiting for {what}") from None
            if time.monotonic() > deadline:
                raise Failed(f"timed out after {TIMEOUT_SECONDS} s waiting for {what}")

    def wait_for_group(self, members: int) -> None:
        """Wait until the partitions are assigned to this number of members."""
        self.wait_until(lambda: self.is_assigned_to(members), f"a group of {members} members")
        self.assignments.append(dict(self.owned))

    def handle(self, name: str, event: dict[str, Any]) -> None:
        match event:
            case {"event": "counted", "partition": partition, "line": line, "words": words}:
                self.counted_again += line in self.words
                self.words[line] = Counter(words)
                self.per_partition[partition].add(line)
            case {"event": "committed", "offsets": offsets}:
                for partition, offset in offsets.items():
                    self.acknowledged[int(partition)] = offset
            case {"event": "assigned", "partitions": partitions}:
                self.owned[name] = partitions
            case {"event": "left"}:
                self.owned.pop(name, None)
            case {"event": "sent"}:
                self.sent = event

    def is_assigned_to(self, members: int) -> bool:
        """Return True if each partition has one owner, and each of the members owns a partition."""
        owned = sorted(partition for share in self.owned.values() for partition in share)
        active = sum(bool(share) for share in self.owned.values())
        return active == len(self.owned) == members and owned == list(range(PARTITIONS))

    def print(self, text: str) -> None:
        console.print(
            f"[dim]{time.monotonic() - self.started_at:5.1f} s[/]  {text}", soft_wrap=True
        )

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        started_at = time.monotonic()
        yield
        self.steps.append((name, time.monotonic() - started_at))


def run_group(demo: Demo) -> None:
    """Start everything, let one member leave, and return when half of the lines are counted."""
    total = len(demo.lines)
    with demo.step("broker starts"):
        demo.start_broker()
    with (
        demo.step(f"topic with {PARTITIONS} partitions"),
        contextlib.closing(demo.admin()) as admin,
    ):
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    with demo.step("three consumers join a group"):
        for name in ("ada", "ben", "cleo"):
            demo.start(name, "consumer.py")
        demo.wait_for_group(3)
    demo.print(f"the group is stable: {shares(demo)}")
    demo.start("producer", "producer.py")
    demo.wait_until(lambda: len(demo.words) > total * 0.25, "a quarter of the lines")

    with demo.step("cleo leaves; the others take over"):
        demo.children["cleo"].send_signal(signal.SIGTERM)
        demo.wait_for_group(2)
    demo.print(f"cleo has left: {shares(demo)}")
    demo.wait_until(lambda: len(demo.words) > total * 0.5, "half of the lines")


def kill_and_restart(demo: Demo) -> tuple[dict[int, int], dict[int, int]]:
    """Kill and restart the broker. Return the acknowledged commits before the kill, and the
    committed offsets after it."""
    with demo.step("broker is killed and restarted; clients continue"):
        broker = demo.children["broker"]
        broker.kill()
        broker.wait()
        while not demo.events.empty():
            demo.handle(*demo.events.get())
        before, counted = dict(demo.acknowledged), len(demo.words)
        demo.print(f"[red]SIGKILL[/] for the broker, after {counted} counted lines")
        demo.start_broker()
        after = demo.committed()
        demo.wait_until(lambda: len(demo.words) > counted, "a line after the restart")
    demo.print(f"the group continues: {shares(demo)}")
    return before, after


def shares(demo: Demo) -> str:
    return ", ".join(f"{name} has {demo.owned[name]}" for name in sorted(demo.owned))


def print_results(
    demo: Demo, before: dict[int, int], after: dict[int, int], end: dict[int, int]
) -> bool:
    """Print the tables and the checks. Return True if all checks pass."""
    table = Table(title="Committed offsets and counted lines")
    for heading in ("partition", "before the kill", "after it", "at the end", "counted lines"):
        table.add_column(heading, justify="right")
    for partition in range(PARTITIONS):
        numbers = [offsets.get(partition, 0) for offsets in (before, after, end)]
        lines = len(demo.per_partition[partition])
        table.add_row(str(partition), *map(str, numbers), str(lines))
    sums = [sum(offsets.values()) for offsets in (before, after, end)]
    table.add_section()
    table.add_row("all", *map(str, sums), str(len(demo.words)), style="bold")
    console.print(table)

    times = Table(title="Duration of the steps")
    times.add_column("step")
    times.add_column("seconds", justify="right")
    for name, seconds in demo.steps:
        times.add_row(name, f"{seconds:.2f}")
    console.print(times)
    counted = sum(demo.words.values(), Counter())
    common = ", ".join(f"{word} {times}" for word, times in counted.most_common(5))
    console.print(f"Most frequent words: {common}.")
    return check_results(demo, before, after, end)


def check_results(
    demo: Demo, before: dict[int, int], after: dict[int, int], end: dict[int, int]
) -> bool:
    """Print the checks. Return True if all of them pass."""
    total = len(demo.lines)
    words = Counter(WORD.findall("\n".join(demo.lines).lower()))
    sizes = [{len(share) for share in owned.values()} for owned in demo.assignments]
    checks = {
        "members had equal shares: three had two partitions each, two had three each": (
            sizes == [{PARTITIONS // 3}, {PARTITIONS // 2}]
        ),
        f"all {total} lines were acknowledged to the producer": (
            demo.sent.get("acknowledged") == total
        ),
        f"all {total} lines were counted": set(demo.words) == set(range(total)),
        "the word counts match the text": sum(demo.words.values(), Counter()) == words,
        "every line was stored once": sum(end.values()) == total,
        "no acknowledged commit was lost by the kill": all(
            after.get(partition, 0) >= offset for partition, offset in before.items()
        ),
        "each partition is committed up to its end": all(
            end.get(partition, 0) == len(lines) for partition, lines in demo.per_partition.items()
        ),
    }
    for check, passed in checks.items():
        console.print(f"[green]yes[/]  {check}" if passed else f"[red]NO [/]  {check}")
    if demo.counted_again:
        console.print(
            f"{demo.counted_again} lines were counted again by the new owners (at-least-once "
            "processing); the sums contain them once."
        )
    return all(checks.values())


def print_logs(demo: Demo) -> None:
    """Print the last log lines of all processes, because the files are deleted with the folder."""
    for name in demo.children:
        lines = demo.log_of(name).read_text(errors="replace").splitlines()
        console.print(
            f"[bold]{name}[/], last log lines:" if lines else f"[bold]{name}[/] logged nothing."
        )
        for line in lines[-LOG_LINES_MAX:]:
            console.print(f"    {line}", markup=False, soft_wrap=True)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="kohort-demo-", ignore_cleanup_errors=True) as folder:
        demo = Demo(Path(folder))
        try:
            run_group(demo)
            before, after = kill_and_restart(demo)
            with demo.step("the rest of the lines"):
                done = len(demo.lines)
                demo.wait_until(
                    lambda: len(demo.words) == done and bool(demo.sent), "the last lines"
                )
                demo.wait_until(lambda: sum(demo.acknowledged.values()) >= done, "the last commits")
            passed = print_results(demo, before, after, demo.committed())
            return 0 if explain_rebalances(console, demo.folder, GROUP) and passed else 1
        except Failed as failure:
            console.print(f"[red]FAILED[/]: {failure}; {shares(demo) or 'nothing is assigned'}")
            print_logs(demo)
            return 1
        finally:
            for child in demo.children.values():
                child.terminate()
            for child in demo.children.values():
                child.wait(10)


if __name__ == "__main__":
    sys.exit(main())
