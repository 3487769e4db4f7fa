"""To wait for what a handler of signals sets."""

import threading
import time
from typing import Final

__all__ = ["wait"]

# A signal may reach a thread that is not this one: Python then remembers it for this thread, but
# wakes it from no lock.
NOTICED_SECONDS: Final = 0.2


def wait(event: threading.Event, seconds: float = float("inf")) -> bool:
    """Whether it is set, as soon as it is and at the latest after `seconds`."""
    until = time.monotonic() + seconds
    while not event.is_set() and (left := until - time.monotonic()) > 0:
        event.wait(min(left, NOTICED_SECONDS))
    return event.is_set()
