"""Syncs files in threads, because concurrent syncs take less time than sequential ones."""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from .watchdog import Watchdog

_log = logging.getLogger("kohort.log")

# Syncing 32 files on two cores and an SSD takes 5 ms sequentially, 2.9 ms in 4 threads, 2.1 ms in 8
# threads, and 2.4 ms in 16 threads.
THREADS = 8


class SyncPool:
    """Implements SyncAll (log/write_ahead.py) with threads."""

    def __init__(self, watchdog: Watchdog) -> None:
        self._loop = asyncio.get_running_loop()
        self._run_timed = watchdog.run
        # The executor starts its threads when they are first needed.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="kohort-sync")

    def __call__(
        self, syncs: Sequence[Callable[[], None]], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        """Call all `syncs`, then `done` with the error of each or None."""
        errors: list[OSError | None] = [None] * len(syncs)
        shares = [range(first, len(syncs), THREADS) for first in range(min(THREADS, len(syncs)))]
        # Each thread pops an item when it has synced its share. The last thread finds the list
        # empty and calls back. list.pop is atomic.
        running = [None] * (len(shares) - 1)

        def sync(share: range) -> None:
            for index in share:
                try:
                    syncs[index]()
                except OSError as error:
                    errors[index] = error
                except Exception as error:  # a bug, but the waiting requests must get a response
                    _log.exception("Unexpected error in a sync")
                    errors[index] = OSError(errno.EIO, repr(error))
            try:
                running.pop()
            except IndexError:
                self._loop.call_soon_threadsafe(self._run_timed, done, errors)

        for share in shares:
            self._threads.submit(sync, share)

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        """Call `work` in a thread, then `done` on the event loop with the exception or None."""

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
