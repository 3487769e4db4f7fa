"""Syncs many files at once: a disk takes several flushes together for little more than one."""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ..log.write_ahead import Syncable

_log = logging.getLogger("kohort.log")

# Measured on two cores with an SSD: 32 files one after the other 5 ms, in 4 threads 2.9 ms, in 8
# threads 2.1 ms, in 16 threads 2.4 ms.
THREADS = 8


class SyncPool:
    """Syncs in threads and reports on the event loop (log/write_ahead.py: SyncAll)."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        # Threads start when the first round needs them, not with the broker.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kohort-sync")

    def __call__(
        self, what: Sequence[Syncable], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        outcomes: list[OSError | None] = [None] * len(what)
        slices = [range(first, len(what), THREADS) for first in range(min(THREADS, len(what)))]
        # Threads count themselves off by popping: list.pop is atomic, the last one reports.
        running = [None] * (len(slices) - 1)

        def sync(indexes: range) -> None:
            for index in indexes:
                try:
                    what[index].sync()
                except OSError as error:
                    outcomes[index] = error
                except Exception as error:  # our fault; who waits must not wait for ever
                    _log.exception("A sync has failed")
                    outcomes[index] = OSError(errno.EIO, repr(error))
            try:
                running.pop()
            except IndexError:
                self._loop.call_soon_threadsafe(done, outcomes)

        for indexes in slices:
            self._threads.submit(sync, indexes)

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        """Call `work` in a thread; then, on the event loop, `done` with what it raised."""

        def run() -> None:
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:
                error = raised
            self._loop.call_soon_threadsafe(done, error)

        self._threads.submit(run)

    def close(self) -> None:
        self._threads.shutdown()
