"""Closes connections on which nothing was received or sent for `connections.max.idle.ms`, even if
requests are waiting, as in Kafka (Selector.IdleExpiryManager)."""

import logging
from collections.abc import Callable
from typing import Final

from ..event_loop.timers import Timers
from ..event_loop.watchdog import seconds
from .connection import Connection

_log: Final = logging.getLogger("kohort.server")

# Number of checks per idle time. A connection may therefore be closed up to 1/100 of the idle time
# late.
CHECKS_PER_IDLE_TIME: Final = 100


class IdleConnections:
    """Checks all connections at intervals. With `max_ms` below zero, connections are never closed.
    `timers` use the wall clock."""

    def __init__(
        self, timers: Timers, max_ms: int, seconds_now: Callable[[], float] = seconds
    ) -> None:
        self._timers, self._seconds = timers, seconds_now
        self._max_ms = max_ms
        self._connections: set[Connection] = set()
        self._is_armed = False

    def add(self, connection: Connection) -> None:
        if self._max_ms >= 0:
            self._connections.add(connection)
            self._arm()

    def discard(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def _arm(self) -> None:
        if self._connections and not self._is_armed:
            self._is_armed = True
            delay_ms = self._max_ms // CHECKS_PER_IDLE_TIME + 1
            self._timers.call_at(self._timers.now_ms() + delay_ms, self._check)

    def _check(self) -> None:
        self._is_armed = False
        limit = self._seconds() - self._max_ms / 1000
        idle = [each for each in self._connections if each.last_active <= limit]
        for connection in sorted(idle, key=lambda each: each.last_active):
            _log.debug("Closing the idle connection from %s", connection.client.host)
            self._connections.discard(connection)
            connection.abort()
        self._arm()
