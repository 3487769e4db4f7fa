"""How long an assignor takes: ours, those of the client libraries, and Java's."""

import contextlib
import gc
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from .assigning import Group, Run, aiokafka, fresh, kafka_python, kohort, one_leaves
from .machine import Setting

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
WISHES = ("equal", "unequal")
SIZES = ((100, 1_000), (300, 3_000), (1_000, 10_000), (1_000, 100_000))
LIBRARIES = {"kohort": kohort, "kafka-python": kafka_python, "aiokafka": aiokafka}
# A peer that takes longer is ended, and not asked for larger groups of that kind.
LIMIT_S = 20.0
REPEATED_BELOW_S = 1.0
KAFKA_JARS = "KOHORT_BENCH_KAFKA_JARS"
KAFKA_PROGRAM = Path(__file__).parents[1] / "tests" / "assignors" / "KafkaAssignors.java"
KAFKA_LIMIT_S = 600.0

TOO_LONG, FAILS = "too long", "fails"

Cell = dict[str, float | str]


def measure(setting: Setting) -> list[Cell]:
    """A cell for each group; by library the milliseconds, or in a word why there are none."""
    cells: list[Cell] = []
    groups: list[Group] = []
    slow: set[tuple[str, str, str, str]] = set()
    for strategy in STRATEGIES:
        for wishes in WISHES:
            for size in SIZES:
                members, partitions = max(2, setting.scaled(size[0])), setting.scaled(size[1])
                start = fresh(strategy, wishes, members, partitions)
                for moment, group in (("fresh", start), ("one leaves", one_leaves(start))):
                    cell: Cell = {"strategy": strategy, "wishes": wishes, "moment": moment}
                    cell |= {"members": members, "partitions": partitions}
                    kind = strategy, wishes, moment
                    for library, make in LIBRARIES.items():
                        run = make(group)
                        if run is None:
                            continue
                        given_up = (library, *kind) in slow
                        cell[library] = TOO_LONG if given_up else _ms(run, setting.rounds)
                        if cell[library] == TOO_LONG:
                            slow.add((library, *kind))
                    cells.append(cell)
                    groups.append(group)
    for cell, taken in zip(cells, _java_ms(groups), strict=False):
        cell["Java"] = taken
    return cells


class TooLong(Exception):
    """A peer has had its time."""


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def end(_number: int, _frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ms(run: Run, rounds: int) -> float | str:
    """Of the processor, the least of so many rounds; of one, if that one is long."""
    gc.collect()
    best = float("inf")
    try:
        with _limited(LIMIT_S):
            for _ in range(max(rounds, 1) * 3):
                began = time.process_time()
                run()
                best = min(best, time.process_time() - began)
                if best > REPEATED_BELOW_S:
                    break
    except TooLong:
        return TOO_LONG if best == float("inf") else best * 1e3
    except KeyError:
        # kafka-python's roundrobin 3.0, when it comes to a member that wants other topics.
        return FAILS
    return best * 1e3


def _java_ms(groups: list[Group]) -> list[float]:
    """Of an assignor that Java has compiled: the least of many. Nothing without Kafka's jars."""
    jars = os.environ.get(KAFKA_JARS)
    if not jars:
        return []
    done = subprocess.run(
        ["java", "-Xmx2g", "-cp", f"{jars}/*", str(KAFKA_PROGRAM), "time"],
        input="".join(f"{group.as_json()}\n" for group in groups),
        capture_output=True,
        text=True,
        check=True,
        timeout=KAFKA_LIMIT_S,
    )
    return [json.loads(line) / 1e6 for line in done.stdout.splitlines()]
