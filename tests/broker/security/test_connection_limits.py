"""Limits on connections, over sockets, as in Kafka 4.3 with the same configuration keys."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.sources import ConfigError
from kohort.broker.network.idle_connections import CHECKS_PER_IDLE_TIME, IdleConnections
from kohort.broker.security.quotas import entity_of
from kohort.topics.registry_log import BrokerConfigRecord, ClientQuotaRecord
from support.runtime import ManualClock, ManualTimers

TIMEOUT_SECONDS = 30
# ApiVersions v0 without a client id.
REQUEST = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x05\xff\xff"

TWO_LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:PLAINTEXT",
}


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def request(self) -> None:
        self.writer.write(REQUEST)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            size = int.from_bytes(await self.reader.readexactly(4))
            await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Wait until the broker closes the connection."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with suppress(ConnectionResetError):
                assert await self.reader.read() == b""
        return True


class LimitedBroker:
    """A broker whose wall clock timers are advanced by the test."""

    def __init__(self, broker: Broker, timers: ManualTimers, stack: AsyncExitStack) -> None:
        self.broker, self.timers, self._stack = broker, timers, stack

    async def connect(self, listener: str = "PLAINTEXT", host: str = "127.0.0.1") -> Client:
        _, port = self.broker.listener_addresses[1][listener]
        reader, writer = await asyncio.open_connection(host, port)
        self._stack.callback(writer.close)
        return Client(reader, writer)

    def configure(self, resource: str = "", **texts: str) -> None:
        self.broker.node.topics.change(
            BrokerConfigRecord(
                resource, {key.replace("_", "."): text for key, text in texts.items()}
            )
        )

    @property
    def limits(self) -> Any:
        return self.broker._servers[1]["PLAINTEXT"]._limits

    async def accepted(self, count: int) -> None:
        """Wait until this many connections are open."""
        while self.limits._total != count:
            await asyncio.sleep(0)

    async def waiting(self) -> None:
        """Wait until a client is connected that the listener has not accepted yet."""
        while not self.limits._waiting:
            await asyncio.sleep(0)


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    timers = ManualTimers(ManualClock())
    timers.close = lambda: None  # type: ignore[attr-defined]

    @asynccontextmanager
    async def start(**texts: str) -> AsyncIterator[LimitedBroker]:
        values = {key.replace("_", "."): text for key, text in texts.items()}
        broker = Broker(BrokerConfig({**TWO_LISTENERS, **values}))
        limit = broker._limit_connections

        def limit_connections(cluster: Any) -> None:
            for node in cluster.nodes.values():
                node.client_timers = timers
            limit(cluster)

        monkeypatch.setattr(broker, "_limit_connections", limit_connections)
        await broker.start()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(broker.stop)
            yield LimitedBroker(broker, timers, stack)

    return start


# --- numbers


async def test_a_client_above_max_connections_waits_until_another_disconnects(limited: Any) -> None:
    async with limited(max_connections="2") as broker:
        first, second = await broker.connect("CLIENT"), await broker.connect("CLIENT")
        await first.request()
        await second.request()
        third = asyncio.ensure_future((await broker.connect("CLIENT")).request())
        await broker.waiting()
        assert not third.done()
        first.writer.close()
        await third
        assert broker.limits._total == 2


async def test_the_limit_can_be_raised_while_a_client_waits(limited: Any) -> None:
    async with limited(max_connections="1") as broker:
        await (await broker.connect("CLIENT")).request()
        waiting = await broker.connect("CLIENT")
        await broker.waiting()
        broker.configure(max_connections="2")
        await waiting.request()


async def test_lowering_the_limit_closes_the_least_recently_used_connections(limited: Any) -> None:
    async with limited() as broker:
        clients = [await broker.connect("CLIENT") for _ in range(3)]
        for index in (0, 1, 2, 0):
            await clients[index].request()
        broker.configure(max_connections="1")
        assert await clients[1].is_closed()
        assert await clients[2].is_closed()
        await clients[0].request()


async def test_the_listener_between_brokers_closes_a_connection_of_another(limited: Any) -> None:
    async with limited(max_connections="2") as broker:
        clients = [await broker.connect("CLIENT") for _ in range(2)]
        for client in clients:
            await client.request()
        protected = await broker.connect("PLAINTEXT")
        await protected.request()
        assert await clients[0].is_closed()
        await clients[1].request()


async def test_a_listener_has_its_own_limit(limited: Any) -> None:
    prefix = "listener.name.client."
    async with limited(**{f"{prefix}max.connections": "1"}) as broker:
        await (await broker.connect("CLIENT")).request()
        other = await broker.connect("CLIENT")
        await broker.waiting()
        await (await broker.connect("PLAINTEXT")).request()
        broker.configure(**{f"{prefix}max.connections": "2"})
        await other.request()


async def test_an_address_with_too_many_connections_is_disconnected_at_once(
    limited: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kohort.server")
    async with limited(max_connections_per_ip="1") as broker:
        first = await broker.connect()
        await first.request()
        assert await (await broker.connect()).is_closed()
        message = "Rejected connection from /127.0.0.1, address already has the configured maximum"
        assert f"{message} of 1 connections." in caplog.text
        first.writer.close()
        await broker.accepted(0)
        await (await broker.connect()).request()


async def test_addresses_and_host_names_have_limits_of_their_own(limited: Any) -> None:
    overrides = "10.0.0.1:7,localhost:2"
    async with limited(
        max_connections_per_ip="0", max_connections_per_ip_overrides=overrides
    ) as broker:
        for _ in range(2):
            await (await broker.connect()).request()
        assert await (await broker.connect()).is_closed()


async def test_host_names_of_changed_overrides_are_not_looked_up_on_the_event_loop(
    limited: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a name server, each lookup takes seconds."""
    threads = []

    def get_addresses(*_: object) -> list[Any]:
        threads.append(threading.current_thread())
        return [(0, 0, 0, "", ("127.0.0.1", 0))]

    async with limited() as broker:
        monkeypatch.setattr(socket, "getaddrinfo", get_addresses)
        broker.configure(max_connections_per_ip_overrides="slow.test:0")
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not broker.limits._ip_maxima:
                await asyncio.sleep(0)
        assert await (await broker.connect()).is_closed()
    assert threading.main_thread() not in threads


async def test_stored_limits_that_would_reject_every_address_do_not_apply(limited: Any) -> None:
    """The broker was started with other overrides when these limits were stored."""
    async with limited() as broker:
        broker.configure(max_connections_per_ip="0")
        await (await broker.connect()).request()


def test_no_address_may_connect_only_if_there_are_overrides() -> None:
    with pytest.raises(ConfigError, match=r"needs max\.connections\.per\.ip\.overrides"):
        BrokerConfig({"max.connections.per.ip": "0"})


# --- rates


async def test_a_listener_above_its_rate_accepts_the_next_connection_later(limited: Any) -> None:
    async with limited(max_connection_creation_rate="1") as broker:
        for _ in range(10):
            await (await broker.connect("CLIENT")).request()
        late = asyncio.ensure_future((await broker.connect("CLIENT")).request())
        await broker.waiting()
        broker.timers.advance(999)
        await asyncio.sleep(0)
        assert not late.done()
        broker.timers.advance(1)
        await late


async def test_an_address_above_its_quota_is_disconnected_after_a_delay(
    limited: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with limited() as broker:
        topics = broker.broker.node.topics
        topics.change(ClientQuotaRecord(entity_of({"ip": None}), {"connection_creation_rate": 1.0}))
        for _ in range(10):
            await (await broker.connect()).request()
        late = await broker.connect()
        server = broker.broker._servers[1]["PLAINTEXT"]
        while not server._waiting:
            await asyncio.sleep(0)
        late.writer.write(REQUEST)
        broker.timers.advance(1000)
        assert await late.is_closed()
        assert broker.limits._total == 10


async def test_a_broker_stops_although_clients_wait_for_limits(limited: Any) -> None:
    async with limited(max_connections="0") as broker:
        waiting = await broker.connect("CLIENT")
        await broker.waiting()
    assert await waiting.is_closed()


# --- idle connections


class IdleBroker:
    """Uses fakes of connections with only the attributes that IdleConnections uses."""

    def __init__(self, max_ms: int = 600_000) -> None:
        self.timers = ManualTimers(ManualClock())
        self.begin_ms = self.timers.now_ms()
        self.idle = IdleConnections(self.timers, max_ms, lambda: self.seconds)  # type: ignore[arg-type]
        self.closed: list[int] = []
        self.wakes = 0

    @property
    def seconds(self) -> float:
        return (self.timers.now_ms() - self.begin_ms) / 1000

    def open(self, number: int) -> Any:
        connection = SimpleNamespace(
            last_active=self.seconds,
            client=SimpleNamespace(host="/127.0.0.1"),
            abort=lambda: self.closed.append(number),
        )
        hashable = type("Connection", (SimpleNamespace,), {"__hash__": object.__hash__})
        connection = hashable(**vars(connection))
        self.idle.add(connection)
        return connection

    def run(self, ms: int) -> None:
        """Advance the clock to each timer that is due within this time."""
        end_ms = self.timers.now_ms() + ms
        while due := [t.deadline_ms for t in self.timers.pending if t.deadline_ms <= end_ms]:
            self.wakes += 1
            self.timers.advance(min(due) - self.timers.now_ms())
        self.timers.advance(end_ms - self.timers.now_ms())


def test_an_idle_connection_is_closed_after_ten_minutes() -> None:
    broker = IdleBroker()
    broker.open(1)
    broker.run(599_999)
    assert broker.closed == []
    broker.run(6_002)
    assert broker.closed == [1]


def test_an_active_connection_is_not_closed() -> None:
    broker = IdleBroker()
    first, _ = broker.open(1), broker.open(2)
    for _ in range(10):
        broker.run(300_000)
        first.last_active = broker.seconds
    assert broker.closed == [2]


def test_a_thousand_idle_connections_rarely_wake_the_event_loop() -> None:
    broker = IdleBroker()
    for number in range(1_000):
        broker.open(number)
        broker.run(500)
    broker.run(700_000)
    assert broker.closed == list(range(1_000)), "the one that is idle the longest first"
    assert broker.wakes <= 2 * CHECKS_PER_IDLE_TIME


def test_a_lost_connection_is_forgotten() -> None:
    broker = IdleBroker()
    broker.idle.discard(broker.open(1))
    broker.run(700_000)
    assert broker.closed == []


def test_connections_are_never_closed_below_zero() -> None:
    broker = IdleBroker(-1)
    broker.open(1)
    assert broker.timers.pending == []


async def test_the_broker_closes_an_idle_connection(limited: Any) -> None:
    async with limited(connections_max_idle_ms="1000") as broker:
        client = await broker.connect()
        await client.request()
        server = broker.broker._servers[1]["PLAINTEXT"]
        (connection,) = server._addresses
        connection.last_active -= 1
        server._idle.add(connection)
        broker.timers.advance(1011)
        assert await client.is_closed()
