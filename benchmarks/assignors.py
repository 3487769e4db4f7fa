"""How long an assignor takes: ours, those of the client libraries, and Java's."""

import contextlib
import gc
import itertools
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
# By the clock. A peer that takes longer is ended, and not asked where it is sure to.
LIMIT_S = 40.0
REPEATED_BELOW_S = 1.0
KAFKA_JARS = "KOHORT_BENCH_KAFKA_JARS"
KAFKA_PROGRAM = Path(__file__).parents[1] / "tests" / "assignors" / "KafkaAssignors.java"
KAFKA_LIMIT_S = 300.0

TOO_LONG, FAILS = "too long", "fails"

Cell = dict[str, float | str]


def measure(setting: Setting) -> list[Cell]:
    """A cell for each group; by library the milliseconds, or in a word why there are none."""
    drawn = list(_groups(setting))
    # No assignor takes less for a partition where there are more of them.
    least_ms_each: dict[tuple[str, ...], float] = {}
    for cell, group in drawn:
        partitions = sum(group.topics.partitions.values())
        for library, make in LIBRARIES.items():
            kind = library, cell["strategy"], cell["wishes"], cell["moment"]
            run = make(group)
            if run is None:
                continue
            if partitions * least_ms_each.get(kind, 0) > LIMIT_S * 1e3:
                cell[library] = TOO_LONG
                continue
            cell[library] = taken = _ms(run, setting.rounds)
            if taken != FAILS:
                least_ms = LIMIT_S * 1e3 if taken == TOO_LONG else float(taken)
                least_ms_each[kind] = least_ms / partitions
    for (cell, _), taken in zip(drawn, _java_ms([group for _, group in drawn]), strict=False):
        cell["Java"] = taken
    return [cell for cell, _ in drawn]


def _groups(setting: Setting) -> Iterator[tuple[Cell, Group]]:
    """The larger ones after the smaller ones of their kind."""
    for strategy, wishes, size in itertools.product(STRATEGIES, WISHES, SIZES):
        members, partitions = max(2, setting.scaled(size[0])), setting.scaled(size[1])
        start = fresh(strategy, wishes, members, partitions)
        for moment, group in (("fresh", start), ("one leaves", one_leaves(start))):
            cell: Cell = {"strategy": strategy, "wishes": wishes, "moment": moment}
            yield cell | {"members": members, "partitions": partitions}, group


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


def _java_ms(groups: list[Group]) -> list[float | str]:
    """Of an assignor that Java has compiled: the least of many. Nothing without Kafka's jars."""
    jars = os.environ.get(KAFKA_JARS)
    if not jars:
        return []
    command = ["java", "-Xmx2g", "-cp", f"{jars}/*", str(KAFKA_PROGRAM), "time"]
    lines = "".join(f"{group.as_json()}\n" for group in groups)
    try:
        done = subprocess.run(
            command, input=lines.encode(), capture_output=True, check=True, timeout=KAFKA_LIMIT_S
        )
        told = done.stdout
    except subprocess.TimeoutExpired as ended:
        told = ended.stdout or b""
    times: list[float | str] = [json.loads(line) / 1e6 for line in told.splitlines()]
    return times + [TOO_LONG] * (len(groups) - len(times))
