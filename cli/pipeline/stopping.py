"""Ctrl-C and SIGTERM: the batch that is being read is finished, unless one asks twice."""

import os
import signal
import sys
import threading

from .. import signals
from ..errors import EXIT_INTERRUPTED

__all__ = ["Stopping"]


class Stopping:
    """`in_batch`: whether there is something to finish; otherwise the first signal ends at once."""

    def __init__(self) -> None:
        self.in_batch = False
        self._asked = threading.Event()

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    def listen(self) -> None:
        """Spark puts a handler of its own in place when it starts: call it again then."""
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)

    def wait(self, seconds: float) -> bool:
        """Whether to end, as soon as that is known."""
        return signals.wait_for(self._asked, seconds)

    def _on_signal(self, *_: object) -> None:
        if not self.in_batch:
            self._asked.set()
            raise KeyboardInterrupt
        if self._asked.is_set():
            print("ended within the batch: the lake is as it was", file=sys.stderr, flush=True)
            # An exception would be one of py4j's first, which prints its traceback. Java ends when
            # nobody holds the other end of its standard input.
            os._exit(EXIT_INTERRUPTED)
        self._asked.set()
        print("ends after this batch; at once with another Ctrl-C", file=sys.stderr)
