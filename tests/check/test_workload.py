"""The clients of a run."""

import asyncio
import random
from itertools import count

from kohort.check.cluster import Cluster
from kohort.check.history import Event
from kohort.check.recorder import History
from kohort.check.workload import CLIENT_STEPS, Options, Workload
from kohort.client_security import Security

NAME = "producer-1"
# The first client of this seed is chosen to crash.
SEED = next(seed for seed in count() if random.Random(f"{seed} {NAME}").random() < 0.5)


def crashes(lives_s: list[float]) -> int:
    """The number of crashes of clients that would end by themselves after these times."""
    history = History()
    options = Options([], Security(), 60, SEED, 10, 6000, pause_s=0.0001)
    workload = Workload(options, "orders", history, has_consumer_protocol=True, implicit=True)

    async def work(_client: str, _cluster: Cluster, _chance: random.Random) -> None:
        if not lives_s:
            workload.stop()
            return
        await asyncio.sleep(lives_s.pop())

    asyncio.run(workload._repeat(NAME, work, CLIENT_STEPS))
    return sum(isinstance(each, Event) and each.what == "crashed" for each in history)


def test_a_client_that_ends_by_itself_has_not_crashed() -> None:
    assert crashes([0.0] * 20) == 0
    assert crashes([3600.0]) == 1
