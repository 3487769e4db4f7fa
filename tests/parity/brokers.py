"""The brokers that scenarios run on in tests: kohort, with a clock that scripts advance, and a real
Kafka for each of SETTINGS."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Container, Mapping
from pathlib import Path

from kohort.broker.broker import Broker
from kohort.broker.config.listeners import SecurityProtocol
from kohort.broker.security.principal import user
from kohort.conformance.broker import STARTED_MS, STEP_MS, TOPICS, RemoteBroker, ScriptBroker
from kohort.conformance.player import play
from kohort.conformance.scenario import Scenario
from kohort.conformance.settings import AUTHORIZER, SETTINGS, USERS, Settings
from kohort.conformance.transcript import Transcript
from kohort.conformance.wire import AsyncClient
from kohort.coordinator.transactions.commands import TransactionOutcome
from kohort.coordinator.transactions.coordinator import TransactionCoordinator
from kohort.offsets.records import TransactionRecord
from kohort.topics.names import OFFSETS_TOPIC
from support.kafka_process import KafkaFolder
from support.running_broker import running_broker
from support.runtime import ManualClock


class KohortBroker(ScriptBroker):
    """A broker in this event loop.

    After a round trip on another connection, the broker has read all that was sent before it. Two
    more run the timers that are due and deliver their responses; a response starts the count again,
    because a large request is read in several iterations of the loop.
    """

    def __init__(self, broker: Broker, clock: ManualClock) -> None:
        super().__init__(broker.port)
        self.broker, self._clock = broker, clock
        self.versions: Mapping[int, Container[int]] | None = None  # as of AsyncClient

    async def prepare(self) -> None:
        """As on other brokers, but without requests for 500 groups, which take as long as most
        scenarios."""
        topics = self.broker.node.topics
        self.topic_ids = {name: topics.create(name, n, {}).id for name, n in TOPICS.items()}
        topics.ensure_coordinator_topic(OFFSETS_TOPIC)
        control = await self.connect(None)
        while (await control.call("ListGroups", 4))["error_code"] != "none":
            pass  # offsets partitions are being loaded
        control.close()

    async def connect(self, client_id: str | None) -> AsyncClient:
        client = await AsyncClient.connect(self.port, client_id)
        client.versions = self.versions
        if client_id in USERS:
            await client.call("ApiVersions", 0)  # it has been accepted
            port = client.local_port
            (connection,) = (
                each
                for server in self.broker._all_servers()
                for each in server._connections
                if each._transport is not None
                and each._transport.get_extra_info("peername")[1] == port
            )
            session = connection.client
            session.principal = user(client_id)
            session.listener = session.listener._replace(protocol=SecurityProtocol.SASL_PLAINTEXT)
        return client

    async def wait_until_idle(self, control: AsyncClient, pending: Callable[[], int]) -> None:
        quiet = 0
        while quiet < 3:
            before = pending()
            await self.round_trip(control)
            quiet = 0 if pending() < before or self._is_receiving else quiet + 1

    @property
    def _is_receiving(self) -> bool:
        """Whether a part of a request has been read. A megabyte is read in several iterations of
        the loop."""
        return any(
            connection._framer.partial_bytes
            for server in self.broker._all_servers()
            for connection in server._connections
        )

    async def advance(self, ms: int) -> None:
        for _ in range(ms // STEP_MS):
            self._clock.ms += STEP_MS
            self.broker.node.timers.fire()

    async def use_epochs(self, control: AsyncClient, transactional_id: str, until: int) -> None:
        def store(coordinator: TransactionCoordinator, _now: int) -> TransactionOutcome:
            metadata = coordinator.transactions[transactional_id].metadata
            changed = metadata._replace(producer_epoch=until)
            return TransactionOutcome((TransactionRecord(transactional_id, changed),))

        assert self.broker.node.transactions.carry_out(transactional_id, store)


@contextlib.asynccontextmanager
async def kohort_broker(
    settings: Settings, now_ms: int = STARTED_MS
) -> AsyncIterator[KohortBroker]:
    clock = ManualClock()
    clock.ms = now_ms
    given = {key: value for key, value in settings.items() if value is not None}
    config = {"listeners": "PLAINTEXT://127.0.0.1:0", **given}
    async with running_broker(config, clock=clock) as broker:
        script_broker = KohortBroker(broker, clock)
        await script_broker.prepare()
        yield script_broker


async def play_on_kohort(
    scenario: Scenario, versions: Mapping[int, Container[int]] | None = None
) -> Transcript:
    async with kohort_broker(SETTINGS[scenario.settings]) as broker:
        broker.versions = versions
        return await play(scenario, broker, scenario.name)


async def prepared(broker: RemoteBroker, without: Container[int] = ()) -> RemoteBroker:
    """Return the broker with its versions, but `without` these APIs, and with its topics."""
    await broker.inspect()
    broker.versions = {key: each for key, each in broker.versions.items() if key not in without}
    await broker.prepare()
    return broker


@contextlib.asynccontextmanager
async def kafka_broker(
    jars: Path, folder: Path, settings: Mapping[str, str]
) -> AsyncIterator[RemoteBroker]:
    """A new Kafka broker that accepts connections: without authentication, and with SASL/PLAIN if
    there is an authorizer."""
    folder.mkdir(parents=True)
    users = USERS if AUTHORIZER in settings else ()
    kafka = KafkaFolder(jars, folder, settings, users)
    await asyncio.to_thread(kafka.format)
    with contextlib.ExitStack() as stack:
        running = kafka.running(ends_well=False)  # its data is not needed afterwards
        address = await asyncio.to_thread(stack.enter_context, running)
        host, _, port = address.rpartition(":")
        sasl = (host, kafka.sasl_port) if users else None
        yield await prepared(RemoteBroker(host, int(port), users=sasl))
