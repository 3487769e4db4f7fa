"""The signals that stop a broker, and waiting for a signal handler."""

import signal
import threading
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


def wait_for(event: threading.Event, timeout_seconds: float = float("inf")) -> bool:
    """Wait until a signal handler sets `event`. Return False after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while not event.is_set() and (left := deadline - time.monotonic()) > 0:
        event.wait(min(left, POLL_SECONDS))
    return event.is_set()
