"""A broker is killed with SIGKILL while ten connections commit; what it acknowledged is there.

A life is a data folder that sees five such deaths, under durability fsync and os in turn.
"""

import contextlib
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash.committing import Promises, check, commit_and_kill, connected, make_topic
from processes import Served, serving

LIVES = 4
DEATHS_OF_A_LIFE = 5
CONNECTIONS = 10
GROUPS_OF_A_CONNECTION = 3

pytestmark = pytest.mark.crash


class Countdown:
    """Calls `then` at the count's end, in whatever thread counts there."""

    def __init__(self, count: int, then: Callable[[], None]) -> None:
        self._left = count
        self._then = then
        self._lock = threading.Lock()

    def count(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._then()


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Whoever gets the fatal acknowledgement kills at once, while the broker is still busy with
    what led to it, and not when nine other threads have had their turn."""
    seconds = sys.getswitchinterval()
    sys.setswitchinterval(50e-6)
    yield
    sys.setswitchinterval(seconds)


@pytest.mark.usefixtures("quick_switches")
@pytest.mark.parametrize("seed", range(LIVES))
def test_what_was_acknowledged_before_a_kill_is_there_after_the_restart(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    promises = [
        [Promises(f"group-{number}-{place}") for place in range(GROUPS_OF_A_CONNECTION)]
        for number in range(CONNECTIONS)
    ]

    def start(durability: str) -> contextlib.AbstractContextManager[Served]:
        return serving(
            tmp_path, "--port", "0", "--data-dir", tmp_path / "data", "--durability", durability,
            "-o", "group.initial.rebalance.delay.ms=0",
        )  # fmt: skip

    for death in range(DEATHS_OF_A_LIFE):
        with start(("fsync", "os")[(seed + death) % 2]) as broker:
            if not death:
                with connected(broker) as connection:
                    make_topic(connection)
            check(broker, promises)
            # Small and large numbers alike: a death among the very first commits is one of its own.
            fatal = Countdown(int(10 ** chance.uniform(0, 3.3)), broker.process.kill)
            commit_and_kill(broker, promises, fatal.count)
    with start("fsync") as broker:
        check(broker, promises)
    assert any(promise.kept for own in promises for promise in own)
