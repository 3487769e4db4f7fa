"""The brokers that scripts run on: the interface, and a broker that is reached over the network."""

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID

from ..client_security import PLAINTEXT, Exchange, Security, plain_exchange
from .settings import USERS
from .wire import AsyncClient

__all__ = ["KOHORT", "RemoteBroker", "ScriptBroker", "Unusable"]

STEP_MS: Final = 50  # the resolution of time in scripts
STARTED_MS: Final = 1_700_000_000_000  # by the clock of kohort in tests; other clocks are later
TOPICS: Final = {"orders": 2, "payments": 1, "shipments": 6}
# Without a response for so long, a request waits for others: responses take less on two cores.
QUIET_MS: Final = 150
KOHORT: Final = "kohort"
# In recorded transcripts.
NODE_ID: Final = 1
FIRST_EPOCH: Final = 2
BROKER: Final = 4  # the resource type of DescribeConfigs
TELEMETRY: Final = (71, 72)  # the keys of GetTelemetrySubscriptions and PushTelemetry
# In every offsets partition; a broker has 50 by default.
SOME_GROUPS: Final = tuple(f"group-{number}" for number in range(500))
READY_SECONDS: Final = 60  # for the topics of a new broker; Kafka needs a few seconds


class Unusable(Exception):
    """The reason why scenarios cannot be played on the broker."""


class ScriptBroker:
    """A single node. `host` and `port` accept clients without authentication."""

    host = "127.0.0.1"
    advertised_host = "127.0.0.1"
    client_host = "/127.0.0.1"  # of the scripts, or a part of how the broker shows it

    def __init__(self, port: int) -> None:
        self.port = port
        self.ports: tuple[int, ...] = (port,)  # of all listeners
        self.topic_ids: dict[str, UUID] = {}  # by name
        self.initial_delay_ms = 0
        """Of the first rebalance of a group; scenarios without a delay wait for its end."""
        self.node_id = NODE_ID
        self.epochs_ahead = 0
        """Kafka's first epoch of a member of a KIP-848 group, minus that of this broker."""

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
            before, epoch = epoch, (await asyncio.gather(*sent))[-1]["producer_epoch"]
            if epoch <= before:
                raise Unusable(f"epochs of {transactional_id} do not increase beyond {before}")

    async def round_trip(self, control: AsyncClient) -> None:
        """Return when the broker has read what was sent before, also on other connections."""
        await control.call("DescribeGroups", 5, groups=("unknown",))

    async def metadata_applied(self) -> None:
        """Return when the coordinator knows the topics and configs that have just changed."""

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
                # They fail until every offsets partition is loaded.
                errors.append((await control.call("ListGroups", 4))["error_code"])
                described = await control.call("DescribeGroups", 4, groups=SOME_GROUPS)
                errors += [each["error_code"] for each in described["groups"]]
            topics = (await control.call("Metadata", 10, topics=named))["topics"]
            partitions = {each["name"]: len(each["partitions"]) for each in topics}
            # Otherwise a request of their metadata creates them, with any number of partitions.
            has_topics = partitions == TOPICS if creates else all(partitions.values())
            if set(errors) == {"none"} and has_topics:
                break
            await asyncio.sleep(0.1)
        else:
            problems = [] if has_topics else [f"it has topics {partitions}, expected {TOPICS}"]
            if failed := sorted({*errors} - {"none"}):
                problems.append(f"requests of groups fail with {', '.join(failed)}")
            raise Unusable(f"not ready within {READY_SECONDS} s: {'; '.join(problems)}")
        self.topic_ids = {topic["name"]: UUID(topic["topic_id"]) for topic in topics}
        control.close()

    async def find_first_epoch(self, group: str) -> None:
        """Set `epochs_ahead`: a member joins a new group, and leaves it."""
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
    """A broker that scripts share, in real time. `users`: host and port of a listener with
    SASL/PLAIN, where each of USERS is its own password.

    Kafka's network threads keep no order between connections, and whether a request waits cannot
    be queried: that no response comes for `quiet_ms` is the only evidence. A scenario whose
    transcript differs is played again with a longer time.
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
        self.host, self.users, self.quiet_ms = host, users, quiet_ms
        self.ports = (port,) if users is None else (port, users[1])
        self.settings: dict[str, str | None] = {}
        self._security = security
        self.versions: dict[int, range] = {}  # that it lists, by API key

    async def connect(self, client_id: str | None) -> AsyncClient:
        host, port, security = self.host, self.port, self._security
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

    async def settle(self, control: AsyncClient, pending: Callable[[], int]) -> None:
        await self.round_trip(control)
        for _ in range(self.quiet_ms // 5):
            if not pending():
                return
            await asyncio.sleep(0.005)

    async def advance(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    async def metadata_applied(self) -> None:
        # Each part of Kafka applies changes on its own; nothing shows when the coordinator has.
        await asyncio.sleep(self.quiet_ms / 1000)

    async def check_topics(self) -> None:
        """Raise Unusable if topics that `prepare` would create exist. A broker without CreateTopics
        creates them for any request of their metadata: there they may exist."""
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
        """In reports: kohort has settings of its own."""
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
            # Kafka takes keys of plug-ins, such as super.users, for secrets, and returns no value.
            self.settings = {
                each["name"]: each["value"] for each in configs if not each["is_sensitive"]
            }
        control.close()

    async def _serves_telemetry(self) -> bool:
        """Return whether the broker responds to requests of client metrics, which Kafka does not
        list without a receiver."""
        client = await self.connect(None)
        client.versions = None
        try:
            await client.call("GetTelemetrySubscriptions", 0)
        except (ConnectionError, TimeoutError):
            return False
        finally:
            client.close()
        return True
