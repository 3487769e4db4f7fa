"""The main job, to be watched: a group of three counts words, and neither a member that leaves nor
a broker that is killed makes it lose a line. Exit code 1 if one is missing.

text.txt: 2,000 lines made of sentences written for this demo; they are in the public domain (CC0).
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
from why import say_why

HERE = Path(__file__).parent
TOPIC, GROUP, PARTITIONS = "lines", "word-count", 6
PATIENCE_SECONDS = 30  # for one wait; the whole takes some 10 s, more on a busy machine
LOG_LINES_SHOWN = 20
WORD = re.compile(r"[a-z']+")
console = Console(highlight=False)


class Failed(Exception):
    """The demo cannot go on; the message says what was missing."""


class Demo:
    """What has happened so far. Child processes tell it in JSON lines, one event each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines = (HERE / "text.txt").read_text(encoding="utf-8").splitlines()
        self.begun = time.monotonic()
        self.events: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self.children: dict[str, subprocess.Popen[str]] = {}
        self.bootstrap = "127.0.0.1:0"
        self.words: dict[int, Counter[str]] = {}  # line -> its words, as a consumer counted them
        self.per_partition: dict[int, set[int]] = {number: set() for number in range(PARTITIONS)}
        self.counted_again = 0
        self.acknowledged: dict[int, int] = {}  # partition -> the highest commit that succeeded
        self.owned: dict[str, list[int]] = {}
        self.formed: list[dict[str, list[int]]] = []  # who owned what, each time a group was formed
        self.sent: dict[str, int] = {}
        self.steps: list[tuple[str, float]] = []

    # What the story needs

    def start_broker(self) -> None:
        """A `kohort serve` on our data folder, on the port it had before if there was one."""
        command = [sys.executable, "-m", "kohort", "serve", "--port", self.bootstrap.split(":")[1]]
        command += ["--data-dir", str(self.folder / "data"), "--log-level", "warning"]
        command += ["-o", "group.initial.rebalance.delay.ms=0"]
        broker = self.child("broker", command)
        assert broker.stdout is not None
        line = broker.stdout.readline()
        if " listening on " not in line:
            raise Failed("the broker did not start")
        self.bootstrap = line.split(" listening on ")[1].split()[0]
        self.say(line.strip().replace(str(self.folder), "…"))

    def start(self, name: str, script: str) -> None:
        """One of the two programs beside this file; its events arrive under this name."""
        command = [sys.executable, str(HERE / script), "--bootstrap-servers", self.bootstrap]
        child = self.child(name, command)

        def listen() -> None:
            for line in child.stdout or ():
                self.events.put((name, json.loads(line)))

        threading.Thread(target=listen, daemon=True).start()

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
        """What the broker says is committed, by partition."""
        with contextlib.closing(self.admin()) as admin:
            offsets = admin.list_group_offsets(GROUP)[GROUP]
        return {partition.partition: entry.offset for partition, entry in offsets.items()}

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Take events until `done()`; a wait without end becomes a failure that says for what."""
        give_up = time.monotonic() + PATIENCE_SECONDS
        while not done():
            try:
                self.take(*self.events.get(timeout=0.5))
            except queue.Empty:
                codes = {name: child.poll() for name, child in self.children.items()}
                if broken := [name for name, code in codes.items() if code]:
                    raise Failed(f"{', '.join(broken)} ended before {what}") from None
            if time.monotonic() > give_up:
                raise Failed(f"waited {PATIENCE_SECONDS} s in vain for {what}")

    def formed_by(self, members: int, what: str) -> None:
        """Take events until so many members share the partitions."""
        self.until(lambda: self.shared_by(members), what)
        self.formed.append(dict(self.owned))

    def take(self, name: str, event: dict[str, Any]) -> None:
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

    def shared_by(self, members: int) -> bool:
        """Whether so many members own each partition exactly once, and none of them is idle."""
        owned = sorted(partition for mine in self.owned.values() for partition in mine)
        members_at_work = sum(bool(mine) for mine in self.owned.values())
        return members_at_work == len(self.owned) == members and owned == list(range(PARTITIONS))

    def say(self, text: str) -> None:
        console.print(f"[dim]{time.monotonic() - self.begun:5.1f} s[/]  {text}", soft_wrap=True)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self.steps.append((name, time.monotonic() - begun))


def tell(demo: Demo) -> None:
    """The story, from the first start to the last line; returns when all is counted."""
    total = len(demo.lines)
    with demo.step("broker starts"):
        demo.start_broker()
    with (
        demo.step(f"topic with {PARTITIONS} partitions"),
        contextlib.closing(demo.admin()) as admin,
    ):
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
    with demo.step("three consumers form a group"):
        for name in ("ada", "ben", "cleo"):
            demo.start(name, "consumer.py")
        demo.formed_by(3, "the group of three")
    demo.say(f"the group is formed: {shares(demo)}")
    demo.start("producer", "producer.py")
    demo.until(lambda: len(demo.words) > total * 0.25, "a quarter of the lines")

    with demo.step("cleo leaves, two share her work"):
        demo.children["cleo"].send_signal(signal.SIGTERM)
        demo.formed_by(2, "the group of two")
    demo.say(f"cleo has left: {shares(demo)}")
    demo.until(lambda: len(demo.words) > total * 0.5, "half of the lines")


def kill_and_restart(demo: Demo) -> tuple[dict[int, int], dict[int, int]]:
    """What was acknowledged when the broker was killed, what is committed after its restart."""
    with demo.step("broker killed, restarted, clients go on"):
        broker = demo.children["broker"]
        broker.kill()
        broker.wait()
        while not demo.events.empty():
            demo.take(*demo.events.get())
        before, counted = dict(demo.acknowledged), len(demo.words)
        demo.say(f"[red]SIGKILL[/]: the broker is dead, with {counted} lines counted")
        demo.start_broker()
        after = demo.committed()
        demo.until(lambda: len(demo.words) > counted, "a line after the restart")
    demo.say(f"the group goes on: {shares(demo)}")
    return before, after


def shares(demo: Demo) -> str:
    return ", ".join(f"{name} has {demo.owned[name]}" for name in sorted(demo.owned))


def show(demo: Demo, before: dict[int, int], after: dict[int, int], end: dict[int, int]) -> bool:
    """Print the tables; whether nothing was lost."""
    table = Table(title="What was committed, and what was counted")
    for heading in ("partition", "before the kill", "after it", "at the end", "lines counted"):
        table.add_column(heading, justify="right")
    for partition in range(PARTITIONS):
        numbers = [offsets.get(partition, 0) for offsets in (before, after, end)]
        lines = len(demo.per_partition[partition])
        table.add_row(str(partition), *map(str, numbers), str(lines))
    sums = [sum(offsets.values()) for offsets in (before, after, end)]
    table.add_section()
    table.add_row("all", *map(str, sums), str(len(demo.words)), style="bold")
    console.print(table)

    times = Table(title="How long it took")
    times.add_column("step")
    times.add_column("seconds", justify="right")
    for name, seconds in demo.steps:
        times.add_row(name, f"{seconds:.2f}")
    console.print(times)
    counted = sum(demo.words.values(), Counter())
    common = ", ".join(f"{word} {times}" for word, times in counted.most_common(5))
    console.print(f"Most frequent words: {common}.")
    return verdict(demo, before, after, end)


def words_of(lines: list[str]) -> Counter[str]:
    return Counter(WORD.findall("\n".join(lines).lower()))


def verdict(demo: Demo, before: dict[int, int], after: dict[int, int], end: dict[int, int]) -> bool:
    """Hold what the group counted against the text itself."""
    total = len(demo.lines)
    sizes = [{len(mine) for mine in owned.values()} for owned in demo.formed]
    checks = {
        "each member had its share: two partitions of three members, three of two": (
            sizes == [{PARTITIONS // 3}, {PARTITIONS // 2}]
        ),
        f"all {total} lines were acknowledged to the producer": (
            demo.sent.get("acknowledged") == total
        ),
        f"all {total} lines were counted": set(demo.words) == set(range(total)),
        "the words counted are those of the text": (
            sum(demo.words.values(), Counter()) == words_of(demo.lines)
        ),
        "every line was stored once": sum(end.values()) == total,
        "no acknowledged commit was lost by the kill": all(
            after.get(partition, 0) >= offset for partition, offset in before.items()
        ),
        "each partition is committed to its end": all(
            end.get(partition, 0) == len(lines) for partition, lines in demo.per_partition.items()
        ),
    }
    for check, held in checks.items():
        console.print(f"[green]yes[/]  {check}" if held else f"[red]NO [/]  {check}")
    if demo.counted_again:
        console.print(
            f"{demo.counted_again} lines were counted again by who took over, as at-least-once "
            "processing does; they are in the sums once."
        )
    return all(checks.values())


def show_logs(demo: Demo) -> None:
    """What the broker and the clients said last; their files go with the folder."""
    for name in demo.children:
        lines = demo.log_of(name).read_text(errors="replace").splitlines()
        console.print(
            f"[bold]{name}[/], its last words:" if lines else f"[bold]{name}[/] is silent."
        )
        for line in lines[-LOG_LINES_SHOWN:]:
            console.print(f"    {line}", markup=False, soft_wrap=True)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="kohort-demo-", ignore_cleanup_errors=True) as folder:
        demo = Demo(Path(folder))
        try:
            tell(demo)
            before, after = kill_and_restart(demo)
            with demo.step("the rest of the lines"):
                done = len(demo.lines)
                demo.until(lambda: len(demo.words) == done and bool(demo.sent), "the last lines")
                demo.until(lambda: sum(demo.acknowledged.values()) >= done, "the last commits")
            held = show(demo, before, after, demo.committed())
            return 0 if say_why(console, demo.folder, GROUP) and held else 1
        except Failed as failure:
            console.print(f"[red]FAILED[/]: {failure}; {shares(demo) or 'nobody has anything'}")
            show_logs(demo)
            return 1
        finally:
            for child in demo.children.values():
                child.terminate()
            for child in demo.children.values():
                child.wait(10)


if __name__ == "__main__":
    sys.exit(main())
