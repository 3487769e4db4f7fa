"""Closes connections on which nothing was received or sent for `connections.max.idle.ms`, even if
requests are waiting, as in Kafka (Selector.IdleExpiryManager)."""

import logging
from collections.abc import Callable
from typing import Final

from ...coordinator.deadlines import Deadlines
from ..event_loop.timers import Timer, Timers
from ..event_loop.watchdog import seconds
from .connection import Connection

_log: Final = logging.getLogger("kohort.server")

# Maximum number of checks per idle time, so that many idle connections wake the event loop rarely.
# A connection may therefore be closed up to 1/100 of the idle time late.
CHECKS_PER_IDLE_TIME: Final = 100


class IdleConnections:
    """Checks each connection once per idle time, regardless of the number of requests since the
    last check. With `max_ms` below zero, connections are never closed. `timers` use the wall
    clock."""

    def __init__(
        self, timers: Timers, max_ms: int, seconds_now: Callable[[], float] = seconds
    ) -> None:
        self._timers, self._seconds = timers, seconds_now
        self._max_ms = max_ms
        # When to check each connection, on the clock of `last_active`. The keys are ids, because
        # cancelled deadlines stay in memory for a while.
        self._checks: Deadlines[int] = Deadlines()
        self._connections: dict[int, Connection] = {}
        self._timer: Timer | None = None

    def add(self, connection: Connection) -> None:
        if self._max_ms >= 0:
            self._connections[id(connection)] = connection
            self._checks.set(id(connection), self._expires_ms(connection))
            self._arm()

    def discard(self, connection: Connection) -> None:
        self._checks.cancel(id(connection))
        self._connections.pop(id(connection), None)

    def _expires_ms(self, connection: Connection) -> int:
        return int(connection.last_active * 1000) + self._max_ms

    def _arm(self) -> None:
        earliest_ms = self._checks.earliest()
        if self._timer is None and earliest_ms is not None:
            delay_ms = max(earliest_ms - int(self._seconds() * 1000), 0)
            delay_ms += self._max_ms // CHECKS_PER_IDLE_TIME + 1
            self._timer = self._timers.call_at(self._timers.now_ms() + delay_ms, self._check)

    def _check(self) -> None:
        self._timer = None
        now_ms = int(self._seconds() * 1000)
        while (popped := self._checks.pop_due(now_ms)) is not None:
            connection = self._connections[popped[0]]
            expires_ms = self._expires_ms(connection)
            if expires_ms > now_ms:
                self._checks.set(id(connection), expires_ms)
            else:
                _log.debug("Closing the idle connection from %s", connection.client.host)
                connection.abort()
        self._arm()
