"""The brokers that scripts run on: their interface, and a broker that is reached over the
network."""

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID

from ..client_security import PLAINTEXT, Exchange, Security, plain_exchange
from .settings import USERS
from .wire import AsyncClient

STEP_MS: Final = 50  # the resolution of time in scripts
STARTED_MS: Final = 1_700_000_000_000  # the start of kohort's clock in tests, in the past
TOPICS: Final = {"orders": 2, "payments": 1, "shipments": 6}
# A request that gets no response within this time is considered to be waiting for other requests.
# On two cores, responses arrive sooner.
QUIET_MS: Final = 150
KOHORT: Final = "kohort"
# The node id, and the first member epoch, in recorded transcripts.
NODE_ID: Final = 1
FIRST_EPOCH: Final = 2
# The types of resources in requests for configs.
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
TELEMETRY: Final = (71, 72)  # the keys of GetTelemetrySubscriptions and PushTelemetry
# These groups cover every offsets partition, of which a broker has 50 by default.
SOME_GROUPS: Final = tuple(f"group-{number}" for number in range(500))
READY_SECONDS: Final = 60  # until a new broker has the topics; Kafka needs a few seconds


class Unusable(Exception):
    """Scenarios cannot be played on the broker. The message says why."""


class ScriptBroker:
    """A broker with a single node, reached through the listener at `port`."""

    advertised_host = "127.0.0.1"
    client_host = "/127.0.0.1"  # the scripts' host, or part of it, in responses

    def __init__(self, port: int) -> None:
        self.port = port
        self.ports: tuple[int, ...] = (port,)  # the ports of all listeners
        self.topic_ids: dict[str, UUID] = {}  # by name
        self.initial_delay_ms = 0
        """The initial rebalance delay of a group. Scenarios that were recorded without the
        delay wait until it ends."""
        self.node_id = NODE_ID
        self.epochs_ahead = 0
        """How much higher the first epoch of a KIP-848 group is in Kafka than on this broker."""

    async def connect(self, client_id: str | None) -> AsyncClient:
        """Connect a client of scripts. With an authorizer, each client of USERS is its own
        principal, and all others are anonymous."""
        raise NotImplementedError

    async def wait_until_idle(self, control: AsyncClient, pending: Callable[[], int]) -> None:
        """Return when no request is pending, or all pending requests wait for others or for a
        timer. `control`: another connection; `pending` returns the number of requests without a
        response."""
        raise NotImplementedError

    async def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass, a multiple of STEP_MS."""
        raise NotImplementedError

    async def use_epochs(self, control: AsyncClient, transactional_id: str, until: int) -> None:
        """Initialize producers of a known transactional id until one has the epoch `until`."""
        values = {"transactional_id": transactional_id, "transaction_timeout": 60_000}
        epoch = 0
        while epoch < until:
            sent = [
                control.send("InitProducerId", 4, **values) for _ in range(min(until - epoch, 500))
            ]
            before, epoch = epoch, (await asyncio.gather(*sent))[-1]["producer_epoch"]
            if epoch <= before:
                raise Unusable(f"the epoch of {transactional_id} does not increase beyond {before}")

    async def round_trip(self, control: AsyncClient) -> None:
        """Return when the broker has read all earlier requests, on all connections."""
        await control.call("DescribeGroups", 5, groups=("unknown",))

    async def metadata_applied(self) -> None:
        """Return when the coordinator has applied the last changes of topics and configs."""

    async def prepare(self) -> None:
        """Create the topics, and wait until groups have a coordinator. Raises Unusable."""
        control = await self.connect(None)
        new = [
            {"name": name, "num_partitions": count, "replication_factor": 1}
            for name, count in TOPICS.items()
        ]
        creates = control.supports("CreateTopics", 5)
        if creates:
            await control.call("CreateTopics", 5, topics=new, timeout=30_000)
        named = [{"name": name, "topic_id": None} for name in TOPICS]
        for _ in range(READY_SECONDS * 10):
            found = await control.call("FindCoordinator", 3, key="any")
            errors = [found["error_code"]]
            if control.supports("ListGroups", 4):
                # These requests fail until every offsets partition is loaded.
                errors.append((await control.call("ListGroups", 4))["error_code"])
                described = await control.call("DescribeGroups", 4, groups=SOME_GROUPS)
                errors += [each["error_code"] for each in described["groups"]]
            topics = (await control.call("Metadata", 10, topics=named))["topics"]
            partitions = {each["name"]: len(each["partitions"]) for each in topics}
            # A broker without CreateTopics creates topics when their metadata is requested, with
            # any number of partitions.
            has_topics = partitions == TOPICS if creates else all(partitions.values())
            if set(errors) == {"none"} and has_topics:
                break
            await asyncio.sleep(0.1)
        else:
            problems = [] if has_topics else [f"it has topics {partitions}, expected {TOPICS}"]
            if failed := sorted({*errors} - {"none"}):
                problems.append(f"requests for groups fail with {', '.join(failed)}")
            raise Unusable(f"not ready within {READY_SECONDS} s: {'; '.join(problems)}")
        self.topic_ids = {topic["name"]: UUID(topic["topic_id"]) for topic in topics}
        control.close()

    async def find_first_epoch(self, group: str) -> None:
        """Set `epochs_ahead`, by letting a member join a new group and leave it."""
        control = await self.connect(None)
        if control.supports("ConsumerGroupHeartbeat", 1):
            await self._join_first_group(control, group)
        control.close()

    async def _join_first_group(self, control: AsyncClient, group: str) -> None:
        member = {"group_id": group, "member_id": "probe"}
        joins = {"rebalance_timeout": 60_000, "subscribed_topic_names": ("orders",)}
        joined = await control.call(
            "ConsumerGroupHeartbeat", 1, **member, **joins, member_epoch=0, topic_partitions=()
        )
        if joined["error_code"] == "none":
            self.epochs_ahead = FIRST_EPOCH - joined["member_epoch"]
            await control.call("ConsumerGroupHeartbeat", 1, **member, member_epoch=-1)


class RemoteBroker(ScriptBroker):
    """A running broker that all scripts share, and whose clock they cannot control. `users`: the
    host and port of a listener with SASL/PLAIN, where each of USERS has its name as its password.

    Kafka's network threads preserve no order between connections, and a client cannot find out
    whether a request waits. The only evidence is that no response arrives for `quiet_ms`. A
    scenario whose transcript differs is therefore played again.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        security: Security = PLAINTEXT,
        users: tuple[str, int] | None = None,
        quiet_ms: int = QUIET_MS,
    ) -> None:
        super().__init__(port)
        self._host, self.users, self.quiet_ms = host, users, quiet_ms
        self.ports = (port,) if users is None else (port, users[1])
        self.settings: dict[str, str | None] = {}
        self._security = security
        self.versions: dict[int, range] = {}  # the listed versions by API key

    async def connect(self, client_id: str | None) -> AsyncClient:
        host, port, security = self._host, self.port, self._security
        if client_id in USERS and self.users is not None:
            host, port = self.users

            def login(user: str = client_id) -> Exchange:
                return plain_exchange(user, user)

            security = Security(security.tls, "PLAIN", login)
        client = await AsyncClient.connect(port, client_id, host=host, security=security)
        client.versions = self.versions or None
        client.is_exact = False
        return client

    async def round_trip(self, control: AsyncClient) -> None:
        await control.call("ApiVersions", 2)

    async def wait_until_idle(self, control: AsyncClient, pending: Callable[[], int]) -> None:
        await self.round_trip(control)
        for _ in range(self.quiet_ms // 5):
            if not pending():
                return
            await asyncio.sleep(0.005)

    async def advance(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    async def metadata_applied(self) -> None:
        # Each component of Kafka applies changes independently, and no response shows that the
        # coordinator has applied them.
        await asyncio.sleep(self.quiet_ms / 1000)

    async def check_topics(self) -> None:
        """Raise Unusable if topics that `prepare` would create exist. A broker without CreateTopics
        may have them, because it creates topics whenever their metadata is requested."""
        control = await self.connect(None)
        described = await control.call("Metadata", 1, topics=None)
        found = [name for name in TOPICS if name in {each["name"] for each in described["topics"]}]
        creates = control.supports("CreateTopics", 5)
        control.close()
        if found and creates:
            names = ", ".join(found)
            raise Unusable(
                f"it has topics that the scenarios create and delete ({names}): delete them first, "
                "or use another broker"
            )

    @property
    def name(self) -> str:
        """The broker's name in reports: `kohort` if it reports kohort settings, else `broker`."""
        return KOHORT if any(key.startswith(f"{KOHORT}.") for key in self.settings) else "broker"

    async def inspect(self) -> None:
        """Read the broker's API versions, listeners and settings. Raises Unusable."""
        control = await self.connect(None)
        listed = (await control.call("ApiVersions", 2))["api_keys"]
        control.versions = self.versions = {
            each["api_key"]: range(each["min_version"], each["max_version"] + 1) for each in listed
        }
        if await self._serves_telemetry():
            self.versions |= dict.fromkeys(TELEMETRY, range(1))
        described = await control.call("Metadata", 1, topics=None)
        nodes = described["brokers"]
        if len(nodes) != 1:
            raise Unusable(f"the cluster has {len(nodes)} nodes: scenarios need a single one")
        (node,) = nodes
        self.ports += (node["port"],)
        self.node_id = node["node_id"]
        self.advertised_host = node["host"]
        self.client_host = control.local_host
        resource = {"resource_type": BROKER, "resource_name": str(node["node_id"])}
        if control.supports("DescribeConfigs", 1):
            response = await control.call("DescribeConfigs", 1, resources=[resource])
            configs = [each for result in response["results"] for each in result["configs"]]
            # Kafka treats the settings of plug-ins, such as super.users, as secrets, and returns no
            # values.
            self.settings = {
                each["name"]: each["value"] for each in configs if not each["is_sensitive"]
            }
        control.close()

    async def _serves_telemetry(self) -> bool:
        """Return whether the broker responds to requests for client metrics, which Kafka does not
        list unless a metrics receiver is configured."""
        client = await self.connect(None)
        client.versions = None
        try:
            await client.call("GetTelemetrySubscriptions", 0)
        except (ConnectionError, TimeoutError):
            return False
        finally:
            client.close()
        return True
