"""Client quotas: the quotas that apply to a client, and how long a client that exceeds them is
throttled (KIP-13, KIP-124, KIP-546, KIP-599).

Upstream: ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager. As in
Kafka, each node measures its own rates, and a default quota applies to each user or client id
separately."""

import math
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeAlias, TypeVar

from ...log.tasks import CooperativeTask, begin, in_thread
from ...protocol.budgets import HOST_LOOKUPS_MAX, HOSTS_MAX, ConcurrencyLimit
from ...topics.configs.config_def import INT_MAX
from ...topics.registry_log import QuotaEntity
from .rates import Rate, Rates, TokenBucket, Window

USER, CLIENT_ID, IP = "user", "client-id", "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

# The keys that an entity can have, with their value types.
CLIENT_KEYS: Final = {
    PRODUCER_BYTE_RATE: "LONG",
    CONSUMER_BYTE_RATE: "LONG",
    REQUEST_PERCENTAGE: "DOUBLE",
    CONTROLLER_MUTATION_RATE: "DOUBLE",
}
IP_KEYS: Final = {CONNECTION_CREATION_RATE: "INT"}

# Maximum number of cached limits, one per client and quota key. A full cache is cleared.
CLIENTS_MAX: Final = 10_000

SharedBy: TypeAlias = tuple[str, str]
"""User and client id of the clients that share a rate, "" for any."""

T = TypeVar("T")


class Limit(NamedTuple):
    value: float
    shared_by: SharedBy


class Client(NamedTuple):
    """The client of a request. `id` is "" if the request has no client id."""

    node_id: int
    user: str
    id: str


def entity_of(names: Mapping[str, str | None]) -> QuotaEntity:
    return tuple(sorted(names.items()))


class ClientQuotas:
    """The quotas of users and client ids, and the rates of the clients that have a quota. `stored`
    belongs to the registry; `changed` must be called when `stored` has changed. `now_ms` is the
    wall clock."""

    def __init__(
        self,
        stored: Mapping[QuotaEntity, Mapping[str, float]],
        window: Window,
        controller_window: Window,
        now_ms: Callable[[], int],
    ) -> None:
        self._stored = stored
        self._window = window
        self._now_ms = now_ms
        self._rates = Rates(lambda: Rate(window))
        self._buckets = Rates(lambda: TokenBucket(controller_window))
        self._limits: dict[tuple[str, Client], Limit | None] = {}
        self._of_clients: dict[QuotaEntity, tuple[str, ...]] = {}  # quota keys by entity
        # Number of entities by quota key and entity types.
        self._counts = Counter[tuple[str, tuple[str, ...]]]()
        # The addresses of IP entities; None stands for all addresses without separate quotas. If
        # several entities have the same address, the one changed last applies.
        self._addresses: dict[str | None, Sequence[str | None]] = {}
        self._of_addresses: dict[str | None, dict[str | None, Mapping[str, float]]] = {}
        self.is_active = False
        """Whether any user or client id has a quota. If not, no request is measured."""
        self.lookups = ConcurrencyLimit(HOST_LOOKUPS_MAX)
        """Limits the concurrent look-ups of host names; see `look_up`."""
        self.changed()

    def changed(self, entity: QuotaEntity | None = None) -> None:
        """Apply changed quotas of an entity, or of all entities if it is None. The rates are kept.
        A host name is looked up again only for a single entity. The lookup does not block, because
        the request that changed the entity has just cached the result.
        """
        self._limits.clear()
        known: Mapping[str | None, Sequence[str | None]] = {None: (None,)}
        if entity is None:
            known = {**known, **self._addresses}
            self._of_clients.clear()
            self._counts.clear()
            self._addresses.clear()
            self._of_addresses.clear()
        entities = self._stored if entity is None else (entity,)
        for each in entities:
            self._adopt(each, self._stored.get(each), known)
        self.is_active = bool(self._of_clients)

    def _adopt(
        self,
        entity: QuotaEntity,
        quotas: Mapping[str, float] | None,
        known: Mapping[str | None, Sequence[str | None]],
    ) -> None:
        ((kind, name), *_) = entity
        if kind != IP:
            types = tuple(kind for kind, _ in entity)
            self._counts.subtract((key, types) for key in self._of_clients.pop(entity, ()))
            if quotas:
                self._of_clients[entity] = tuple(quotas)
                self._counts.update((key, types) for key in quotas)
            return
        for address in self._addresses.pop(name, ()):
            of_address = self._of_addresses[address]
            del of_address[name]
            if not of_address:
                del self._of_addresses[address]
        if quotas:
            found = known.get(name)
            if found is None:
                assert name is not None
                found = addresses_of(name)
            self._addresses[name] = found
            for address in found:
                self._of_addresses.setdefault(address, {})[name] = quotas

    def connection_rate(self, address: str) -> float | None:
        """Return the connection rate limit of an IP address, or None."""
        for each in (address, None):
            if of_address := self._of_addresses.get(each):
                return of_address[next(reversed(of_address))].get(CONNECTION_CREATION_RATE)
        return None

    def record(self, key: str, client: Client, value: float) -> int:
        """Record what a request has used, and return the client's throttle time in milliseconds."""
        limit = self._limit(key, client)
        if limit is None:
            return 0
        now_ms = self._now_ms()
        rate = self._rates.get((key, client.node_id, limit.shared_by), now_ms)
        rate.record(value, now_ms)
        if limit.value == math.inf:
            return 0
        throttle_ms = rate.throttle_ms(limit.value, now_ms)
        # Only request_percentage has a maximum throttle time.
        return min(throttle_ms, self._window.sample_ms if key == REQUEST_PERCENTAGE else INT_MAX)

    def record_mutations(self, client: Client, count: int, *, is_strict: bool) -> int:
        """Record the partitions that a request creates or deletes, and return how long to throttle
        its client. If `is_strict` and the client is already over its quota, nothing is recorded,
        and the request must be rejected."""
        limit = self._limit(CONTROLLER_MUTATION_RATE, client)
        if limit is None:
            return 0
        now_ms = self._now_ms()
        bucket = self._buckets.get((client.node_id, limit.shared_by), now_ms)
        if is_strict and (throttle_ms := bucket.throttle_ms(limit.value, now_ms)):
            return throttle_ms
        bucket.record(count, limit.value, now_ms)
        return 0 if is_strict else bucket.throttle_ms(limit.value, now_ms)

    def bytes_max(self, client: Client) -> float:
        """Return how much a client may fetch after a pause without being throttled (upstream:
        maxValueInQuotaWindow)."""
        limit = self._limit(CONSUMER_BYTE_RATE, client)
        if limit is None:
            return math.inf
        return limit.value * (self._window.samples - 1) * self._window.sample_ms / 1000

    def _limit(self, key: str, client: Client) -> Limit | None:
        try:
            return self._limits[key, client]
        except KeyError:
            if len(self._limits) >= CLIENTS_MAX:
                self._limits.clear()
            limit = self._limits[key, client] = self._find_limit(key, client)
            return limit

    def _find_limit(self, key: str, client: Client) -> Limit | None:
        for entity, shared_by in _by_precedence(client):
            if key in (quotas := self._stored.get(entity, {})):
                return Limit(quotas[key], shared_by)
        return self._unlimited(key, client)

    def _unlimited(self, key: str, client: Client) -> Limit | None:
        """Return an infinite limit for a client without a quota, if other clients have a quota
        (upstream: quotaTypesEnabled). The client's rate is then measured, for a quota that is set
        later. Token buckets start full and need no earlier measurements."""
        both = tuple(sorted((USER, CLIENT_ID)))
        found = [types for types in ((USER,), (CLIENT_ID,), both) if self._counts[key, types]]
        if not found or key == CONTROLLER_MUTATION_RATE:
            return None
        user = "" if found[1:] or USER not in found[0] else client.user
        id_ = "" if found == [(USER,)] else client.id
        return Limit(math.inf, (user, id_))


def _by_precedence(client: Client) -> Iterator[tuple[QuotaEntity, SharedBy]]:
    """Yield the entities to which a client belongs, in order of precedence, each with the clients
    that share a rate. As in Kafka, a missing client id is equivalent to an empty one and matches no
    client id quota."""
    _, user, client_id = client
    ids = (client_id, None) if client_id else ()
    for name in (user, None):
        for id_ in ids:
            yield entity_of({USER: name, CLIENT_ID: id_}), (user, client_id)
        yield entity_of({USER: name}), (user, "")
    for id_ in ids:
        yield entity_of({CLIENT_ID: id_}), ("", client_id)


def look_up(limit: ConcurrencyLimit, function: Callable[[], T]) -> CooperativeTask[T]:
    """Call `function`, which uses `addresses_of`, in a thread, and return its result."""
    yield from begin(limit)
    try:
        return (yield from in_thread(function))
    finally:
        limit.end()


def addresses_of(host: str) -> Sequence[str]:
    """Return a host's IP addresses; empty if its name cannot be looked up. May block for
    seconds."""
    with suppress(ValueError):  # a name, not an address
        return (str(ip_address(host)),)
    with suppress(OSError, UnicodeError):
        return _addresses_of_name(host)
    return ()


@lru_cache(HOSTS_MAX)
def _addresses_of_name(name: str) -> Sequence[str]:
    # Errors are not cached, because the name server may be unreachable for a moment.
    found = socket.getaddrinfo(name, None)
    return tuple(dict.fromkeys(str(info[4][0]) for info in found))
