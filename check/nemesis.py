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
"""The average pause between two disturbances, in which clients can make progress, besides the
duration of the last disturbance."""
QUIET_SHARE: Final = 0.1
"""The share of the run, at its end, without disturbances, so that the last operations succeed."""


class Nemesis:
    def __init__(self, nemeses: Mapping[str, Disturb], seed: int, history: History) -> None:
        self._nemeses = nemeses
        self._chance = random.Random(f"{seed} nemesis")
        self._history = history

    @asynccontextmanager
    async def running(self, seconds: float) -> AsyncIterator[None]:
        """Disturb the broker for most of this time, or until the context exits, which waits for the
        last disturbance to end."""
        is_over = asyncio.Event()
        task = asyncio.create_task(self._run(seconds * (1 - QUIET_SHARE), is_over))
        try:
            yield
        finally:
            is_over.set()
            await task

    async def _run(self, seconds: float, is_over: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        end, took_s = loop.time() + seconds, 0.0
        while loop.time() < end:
            pause = took_s + self._chance.expovariate(1 / INTERVAL_SECONDS)
            try:
                await asyncio.wait_for(is_over.wait(), min(pause, max(0.01, end - loop.time())))
                return
            except TimeoutError:
                pass  # the pause is over, and the run is not
            if loop.time() >= end:
                return
            name = self._chance.choice(sorted(self._nemeses))
            began = loop.time()
            event = self._history.begin(Event(client="nemesis", what=name, nemesis=name))
            event.what = await asyncio.to_thread(self._nemeses[name], self._chance)
            self._history.end(event, "ok")
            took_s = loop.time() - began
