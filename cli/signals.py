"""The signals that stop a broker, and a flag that a signal handler sets."""

import contextlib
import queue
import signal
import time
from typing import Final

# The kernel may deliver a signal to another thread. Python runs the handler in the main thread, but
# only once the main thread stops waiting for a lock.
POLL_SECONDS: Final = 0.2


def stop_signals() -> list[signal.Signals]:
    """Return SIGTERM, SIGINT, and SIGHUP (a closed terminal) unless `nohup` ignores SIGHUP."""
    stopping = [signal.SIGTERM, signal.SIGINT]
    # Windows has no SIGHUP.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        stopping.append(signal.SIGHUP)
    return stopping


class SignalFlag:
    """A flag that a signal handler sets, and for which the main thread waits.

    With threading.Event, a handler that interrupts `wait` may wait forever for the lock that `wait`
    holds. SimpleQueue.put is reentrant, so it is safe in a handler that interrupts `get`.
    """

    def __init__(self) -> None:
        self.is_set = False
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        self.is_set = True
        self._wakeups.put(None)

    def wait(self, timeout_seconds: float = float("inf")) -> bool:
        """Wait until the flag is set. Return False after the timeout."""
        deadline = time.monotonic() + timeout_seconds
        while not self.is_set and (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                self._wakeups.get(timeout=min(left, POLL_SECONDS))
        return self.is_set
