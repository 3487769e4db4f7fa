"""A broker is killed with SIGKILL while ten connections commit; acknowledged commits survive. Each
data folder is used for five kills, alternating between durability fsync and os."""

import contextlib
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash.commits import check, commit_and_kill, create_topic, groups_of_connections
from support.running_broker import BrokerProcess, start_broker

FOLDERS = 4
KILLS = 5
CONNECTIONS = 10

pytestmark = pytest.mark.crash


class Countdown:
    """Calls `callback` when the count reaches zero, in the thread that counts."""

    def __init__(self, count: int, callback: Callable[[], None]) -> None:
        self._left = count
        self._callback = callback
        self._lock = threading.Lock()

    def count(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._callback()


@pytest.fixture
def short_switch_interval() -> Iterator[None]:
    """Let the thread that receives the last response kill a busy broker, before nine other threads
    have run."""
    seconds = sys.getswitchinterval()
    sys.setswitchinterval(50e-6)
    yield
    sys.setswitchinterval(seconds)


@pytest.mark.usefixtures("short_switch_interval")
@pytest.mark.parametrize("seed", range(FOLDERS))
def test_acknowledged_commits_survive_a_kill(seed: int, tmp_path: Path) -> None:
    random_ = random.Random(seed)
    groups = groups_of_connections(CONNECTIONS)

    def start(durability: str) -> contextlib.AbstractContextManager[BrokerProcess]:
        return start_broker(
            tmp_path, "--port", "0", "--data-dir", tmp_path / "data", "--durability", durability,
            "-o", "group.initial.rebalance.delay.ms=0",
        )  # fmt: skip

    for kill in range(KILLS):
        with start(("fsync", "os")[(seed + kill) % 2]) as broker:
            if not kill:
                create_topic(broker)
            check(broker, groups)
            # After 1 to 2,000 responses, on a logarithmic scale: the first commits are special.
            countdown = Countdown(int(10 ** random_.uniform(0, 3.3)), broker.process.kill)
            commit_and_kill(broker, groups, on_response=countdown.count)
    with start("fsync") as broker:
        check(broker, groups)
    assert any(group.acknowledged for own in groups for group in own)
