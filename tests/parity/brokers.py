"""The brokers that scripts run on: kohort, with a clock that scripts advance, and a real Kafka."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from uuid import UUID

from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.security.principal import user
from kohort.coordinator.transactions.commands import TransactionOutcome
from kohort.coordinator.transactions.coordinator import TransactionCoordinator
from kohort.offsets.records import TransactionRecord
from support.kafka_process import KafkaFolder
from support.runtime import NOW_MS, ManualClock
from support.wire import AsyncClient

KAFKA_VERSION = "4.3.0"  # that of tests/kafka/pom.xml
STEP_MS = 50  # the resolution of time in scripts
STARTED_MS = NOW_MS  # by the clock of kohort; Kafka's time is later
USERS = ("alice", "bob", "root")
TOPICS = {"orders": 2, "payments": 1, "shipments": 6}


class ScriptBroker:
    """`port` on this machine; `topic_ids` by name."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.ports = (port,)  # of all listeners
        self.topic_ids: dict[str, UUID] = {}

    async def connect(self, client_id: str | None) -> AsyncClient:
        """Connect a client of scripts: with an authorizer, one of USERS is its own principal, and
        any other is anonymous."""
        raise NotImplementedError

    async def settle(self, control: AsyncClient, pending: Callable[[], int]) -> None:
        """Return when no request is pending, or those that are wait for others or for a timer.
        `control`: another connection; `pending`: the number of requests without a response."""
        raise NotImplementedError

    async def advance(self, ms: int) -> None:
        """Let `ms` pass, a multiple of STEP_MS."""
        raise NotImplementedError

    async def use_epochs(self, control: AsyncClient, transactional_id: str, until: int) -> None:
        """Initialize producers of a known transactional id until one has this epoch."""
        values = {"transactional_id": transactional_id, "transaction_timeout": 60_000}
        epoch = 0
        while epoch < until:
            sent = [
                control.send("InitProducerId", 4, **values) for _ in range(min(until - epoch, 500))
            ]
            epoch = (await asyncio.gather(*sent))[-1]["producer_epoch"]

    async def metadata_applied(self) -> None:
        """Return when the coordinator knows the topics and configs that have just changed."""

    async def prepare(self) -> None:
        """Create the topics, and wait until groups have a coordinator."""
        control = await AsyncClient.connect(self.port)
        topics = [
            {"name": name, "num_partitions": count, "replication_factor": 1}
            for name, count in TOPICS.items()
        ]
        created = await control.call("CreateTopics", 7, topics=topics, timeout=30_000)
        self.topic_ids = {topic["name"]: UUID(topic["topic_id"]) for topic in created["topics"]}
        for _ in range(600):
            found = await control.call("FindCoordinator", 4, coordinator_keys=("any",))
            # ListGroups fails until every offsets partition is loaded.
            listed = await control.call("ListGroups", 4)
            if found["coordinators"][0]["error_code"] == listed["error_code"] == "none":
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError(f"no coordinator within a minute: {found}")
        control.close()


async def round_trip(control: AsyncClient) -> None:
    await control.call("DescribeGroups", 5, groups=("unknown",))


class KohortBroker(ScriptBroker):
    """A broker in this event loop.

    After a round trip on another connection, the broker has read all that was sent before it. Two
    more run the timers that are due and deliver their responses; a response starts the count again,
    as a large request is read in several turns of the loop.
    """

    def __init__(self, broker: Broker, clock: ManualClock) -> None:
        super().__init__(broker.port)
        self.broker, self._clock = broker, clock

    async def connect(self, client_id: str | None) -> AsyncClient:
        client = await AsyncClient.connect(self.port, client_id)
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
            connection.client.principal = user(client_id)
        return client

    async def settle(self, control: AsyncClient, pending: Callable[[], int]) -> None:
        quiet = 0
        while quiet < 3:
            before = pending()
            await round_trip(control)
            quiet = 0 if pending() < before else quiet + 1

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


class KafkaBroker(ScriptBroker):
    """A real Kafka, shared by all scripts.

    Its network threads keep no order between connections, and whether a request waits cannot be
    queried: that no response comes for `quiet_ms` is the only evidence. A scenario whose transcript
    differs is run again with a longer time.
    """

    def __init__(self, port: int, sasl_port: int, quiet_ms: int) -> None:
        super().__init__(port)
        self.ports = (port, sasl_port)
        self.quiet_ms = quiet_ms

    async def connect(self, client_id: str | None) -> AsyncClient:
        if client_id not in USERS:
            return await AsyncClient.connect(self.port, client_id)
        client = await AsyncClient.connect(self.ports[1], client_id)
        await client.call("SaslHandshake", 1, mechanism="PLAIN")
        login = f"\0{client_id}\0{client_id}".encode()
        authenticated = await client.call("SaslAuthenticate", 2, auth_bytes=login)
        assert authenticated["error_code"] == "none", authenticated
        return client

    async def settle(self, control: AsyncClient, pending: Callable[[], int]) -> None:
        await round_trip(control)
        for _ in range(self.quiet_ms // 5):
            if not pending():
                return
            await asyncio.sleep(0.005)

    async def advance(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    async def metadata_applied(self) -> None:
        # Each part of Kafka applies changes on its own; nothing shows when the coordinator has.
        await asyncio.sleep(self.quiet_ms / 1000)


@contextlib.asynccontextmanager
async def kohort_broker(settings: Mapping[str, str]) -> AsyncIterator[KohortBroker]:
    clock = ManualClock()
    broker = Broker(BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", **settings}), clock=clock)
    await broker.start("127.0.0.1", 0)
    try:
        script_broker = KohortBroker(broker, clock)
        await script_broker.prepare()
        yield script_broker
    finally:
        await broker.stop()


@contextlib.asynccontextmanager
async def kafka_broker(
    jars: Path, folder: Path, settings: Mapping[str, str]
) -> AsyncIterator[tuple[int, int]]:
    """The ports on 127.0.0.1 of a new Kafka broker that accepts connections: without
    authentication, and with SASL/PLAIN if there is an authorizer."""
    folder.mkdir(parents=True)
    users = USERS if "authorizer.class.name" in settings else ()
    kafka = KafkaFolder(jars, folder, settings, users)
    await asyncio.to_thread(kafka.format)
    with contextlib.ExitStack() as stack:
        running = kafka.running(ends_well=False)  # its data is not needed afterwards
        address = await asyncio.to_thread(stack.enter_context, running)
        yield int(address.rpartition(":")[2]), kafka.sasl_port
