"""Limits on the number of a node's connections, and on the rate at which they are opened.

Upstream: ConnectionQuotas. A listener that has reached a limit accepts no connection until it is
below the limit again; clients wait in the socket's backlog. A connection is closed immediately if
its IP address has too many connections, and after a delay if the address opens them too fast.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from ...log.tasks import CooperativeTask
from ...topics.configs.config_def import INT_MAX
from ...topics.configs.effective import EVERY_BROKER, Configs, static_number
from ..config.broker_config import BrokerConfig
from ..config.listeners import Listener, SecurityProtocol
from ..event_loop.timers import Timers
from ..network.connection import Connection
from .quotas import ClientQuotas, addresses_of, look_up
from .rates import Rate, Rates, Window

_log = logging.getLogger("kohort.server")

MAX_CONNECTIONS: Final = "max.connections"
PER_IP: Final = "max.connections.per.ip"
PER_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"
CREATION_RATE: Final = "max.connection.creation.rate"


@dataclass(slots=True)
class _ListenerState:
    listener: Listener
    connections: Callable[[], Iterable[Connection]]
    rate: Rate
    count: int = 0
    count_max: int = INT_MAX
    rate_max: int = INT_MAX


@dataclass(slots=True, eq=False)
class _Waiting:
    name: str
    until_ms: int
    proceed: Callable[[], None]


class ConnectionLimits:
    """Counts and limits the connections of a node's sockets. `timers` use the wall clock; `spawn`
    runs a task. `changed` must be called when dynamic configs have changed."""

    def __init__(
        self,
        config: BrokerConfig,
        configs: Configs,
        quotas: ClientQuotas,
        window: Window,
        timers: Timers,
        spawn: Callable[[CooperativeTask[None]], object],
    ) -> None:
        self._config, self._configs = config, configs
        self._quotas, self._timers = quotas, timers
        self._window, self._spawn = window, spawn
        _, self._overrides = self._per_ip()
        self._ip_maxima = _per_address(self._overrides)
        self._total, self._by_ip = 0, Counter[str]()
        self._rate = Rate(self._window)
        self._ip_rates = Rates(lambda: Rate(window))
        self._listeners: dict[str, _ListenerState] = {}
        self._waiting: list[_Waiting] = []
        # As in Kafka, node-wide limits do not apply to the inter-broker listener.
        self._protected = config.str("inter.broker.listener.name") or SecurityProtocol.PLAINTEXT

    def add_listener(
        self, listener: Listener, connections: Callable[[], Iterable[Connection]]
    ) -> None:
        """Limit the connections of a listener; `connections` returns its open connections."""
        self._listeners[listener.name] = _ListenerState(listener, connections, Rate(self._window))
        self.changed()

    def changed(self) -> None:
        """Apply changed limits."""
        self._total_max = self._number(MAX_CONNECTIONS)
        self._rate_max = self._number(CREATION_RATE)
        self._per_ip_max, overrides = self._per_ip()
        if overrides != self._overrides:
            self._overrides = overrides
            self._spawn(self._adopt_overrides(overrides))
        for each in self._listeners.values():
            each.count_max = self._number(MAX_CONNECTIONS, each.listener)
            each.rate_max = self._number(CREATION_RATE, each.listener)
        self._close_excess()
        self._check_waiting()

    def _adopt_overrides(self, overrides: str) -> CooperativeTask[None]:
        """Look up host names while the event loop continues."""
        maxima = yield from look_up(self._quotas.lookups, partial(_per_address, overrides))
        if overrides == self._overrides:
            self._ip_maxima = maxima

    def _per_ip(self) -> tuple[int, str]:
        """Return the limit per address, and the overrides. As in Kafka, dynamic values with which
        no address could connect are ignored, because no client could change them."""
        count, overrides = self._number(PER_IP), self._configs.broker_text(PER_IP_OVERRIDES)
        if count == 0 and not overrides:
            return static_number(self._config, PER_IP), self._config.text(PER_IP_OVERRIDES) or ""
        return count, overrides

    def _number(self, key: str, listener: Listener | None = None) -> int:
        if listener is not None:
            keys, name = self._config.config_def, listener.prefix + key
            for resource in (str(self._configs.node_id), EVERY_BROKER):
                if (text := self._configs.dynamic.get(resource, {}).get(name)) is not None:
                    return _integer(keys[key].parse(text))
            if (value := self._config.of_listener(listener, key)) is not None:
                return _integer(value)
        return self._configs.broker_number(key)

    # --- before a connection is accepted

    def delay_ms(self, name: str) -> int:
        """Record a new connection of a listener. Return how long to delay its acceptance: at most
        one sample window of the rate."""
        state, now_ms = self._listeners[name], self._timers.now_ms()
        delays = [_delay_ms(state.rate, state.rate_max, now_ms)]
        if not self._is_protected(name):
            delays.append(_delay_ms(self._rate, self._rate_max, now_ms))
        return min(max(delays), self._window.sample_ms)

    def has_slot(self, name: str) -> bool:
        """Whether a listener may accept one more connection."""
        state = self._listeners[name]
        return state.count < state.count_max and (
            self._is_protected(name) or self._total < self._total_max
        )

    def wait(self, name: str, delay_ms: int, proceed: Callable[[], None]) -> Callable[[], None]:
        """Call `proceed` after the delay, as soon as there is a slot. Return a function that
        cancels the call."""
        waiting = _Waiting(name, self._timers.now_ms() + delay_ms, proceed)
        self._waiting.append(waiting)
        self._timers.call_at(waiting.until_ms, self._check_waiting)
        return lambda: self._waiting.remove(waiting) if waiting in self._waiting else None

    def _check_waiting(self) -> None:
        for each in list(self._waiting):
            if each.until_ms <= self._timers.now_ms() and self.has_slot(each.name):
                self._waiting.remove(each)
                each.proceed()

    def ip_delay_ms(self, address: str) -> int:
        """Record a new connection from an IP address. Return 0 if the connection is accepted. If
        the address opens connections too fast, return the time after which to close the
        connection."""
        limit = self._quotas.connection_rate(address)
        if limit is None:
            return 0
        now_ms = self._timers.now_ms()
        rate = self._ip_rates.get(address, now_ms)
        delay_ms = min(_delay_ms(rate, limit, now_ms), self._window.sample_ms)
        if delay_ms:
            rate.record(-1, now_ms)  # not accepted
        return delay_ms

    def call_later(self, ms: int, callback: Callable[[], None]) -> None:
        self._timers.call_at(self._timers.now_ms() + ms, callback)

    # --- open connections

    def open(self, name: str, address: str) -> bool:
        """Count a connection and return True if its address may have one more connection;
        otherwise, return False without counting it."""
        count_max = self._ip_maxima.get(address, self._per_ip_max)
        if self._by_ip[address] >= count_max:
            _log.info(
                "Rejected connection from /%s, address already has the configured maximum of %d "
                "connections.",
                *(address, count_max),
            )
            return False
        self._total += 1
        self._by_ip[address] += 1
        self._listeners[name].count += 1
        self._close_excess()
        return True

    def close(self, name: str, address: str) -> None:
        """Subtract a closed connection from the counts."""
        self._total -= 1
        self._by_ip[address] -= 1
        if not self._by_ip[address]:
            del self._by_ip[address]
        self._listeners[name].count -= 1
        self._check_waiting()

    def _is_protected(self, name: str) -> bool:
        return name == self._protected and len(self._listeners) > 1

    def _close_excess(self) -> None:
        """Close the least recently used connections if there are more than `max.connections`. The
        number exceeds the limit after the limit has been lowered, or after a protected listener has
        accepted a connection."""
        excess = self._total - self._total_max
        if excess <= 0:
            return
        closable = [
            connection
            for name, state in self._listeners.items()
            if not self._is_protected(name)
            for connection in state.connections()
        ]
        for connection in sorted(closable, key=lambda each: each.last_active)[:excess]:
            connection.abort()


def _delay_ms(rate: Rate, limit: float, now_ms: int) -> int:
    rate.record(1, now_ms)
    return rate.throttle_ms(limit, now_ms)


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value


def _per_address(overrides: str) -> Mapping[str, int]:
    """Parse `max.connections.per.ip.overrides`, whose hosts may be names."""
    maxima = {}
    for item in filter(None, overrides.split(",")):
        host, _, count = item.rpartition(":")
        for address in addresses_of(host.strip()):
            maxima[address] = int(count)
    return maxima
