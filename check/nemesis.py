"""The nemesis: disturbs a broker at random times while the clients work."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from .history import Event
from .recorder import History
from .targets import Disturb

INTERVAL_SECONDS: Final = 1.5
"""The average pause between two disturbances, in which clients can make progress. Each pause is
extended by the duration of the last disturbance."""
QUIET_SHARE: Final = 0.1
"""The share of the run that is left undisturbed at the end, so that the last operations succeed."""


@asynccontextmanager
async def disturbed(
    nemeses: Mapping[str, Disturb], seed: int, seconds: float, history: History
) -> AsyncIterator[None]:
    """Disturb the broker for most of `seconds`, or until the context exits. Exiting waits for the
    last disturbance to end. Without nemeses, do nothing."""
    chance = random.Random(f"{seed} nemesis")
    loop = asyncio.get_running_loop()
    is_over = asyncio.Event()
    end = loop.time() + seconds * (1 - QUIET_SHARE)

    async def disturb() -> None:
        took_s = 0.0
        while nemeses and loop.time() < end:
            pause = took_s + chance.expovariate(1 / INTERVAL_SECONDS)
            try:
                await asyncio.wait_for(is_over.wait(), min(pause, max(0.01, end - loop.time())))
                return
            except TimeoutError:
                pass  # the pause is over, and the run is not
            if loop.time() >= end:
                return
            name = chance.choice(sorted(nemeses))
            began = loop.time()
            event = history.begin(Event(client="nemesis", what=name, nemesis=name))
            event.what = await asyncio.to_thread(nemeses[name], chance)
            history.end(event, "ok")
            took_s = loop.time() - began

    task = asyncio.create_task(disturb())
    try:
        yield
    finally:
        is_over.set()
        await task
