"""A client's view of the cluster: partition leaders, coordinators, a connection per node."""

import asyncio
from typing import Any, Final, NamedTuple
from uuid import UUID

from ..client_security import Security
from ..protocol.bootstrap import Address
from ..protocol.errors import ErrorCode
from .connection import SOFTWARE, Connection, Disconnected, Fields, NotSent

GROUP, TRANSACTION = 0, 1
"""The key types of FindCoordinator."""

FINAL: Final = "final"
"""The name of the client that creates the topic, and reads everything after the run."""
BACKOFF_SECONDS: Final = 0.05

# Errors after which the leader or coordinator must be found again.
MOVED: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.kafka_storage_error,
    }
)


class UnknownTopic(NotSent):
    """A broker responded that the topic does not exist."""


class Leader(NamedTuple):
    """The leader of a partition. `epoch`: its leader epoch, -1 if the broker returns none."""

    node: int
    epoch: int


class Cluster:
    """A client's view of the cluster. Requests raise Disconnected, Unsupported, or, if nothing was
    sent, NotSent."""

    def __init__(
        self, bootstrap: list[Address], security: Security, topic: str, client: str = FINAL
    ) -> None:
        self.topic = topic
        self._client_id = f"{SOFTWARE}-{client}"
        self.topic_id: UUID | None = None
        self.features: dict[str, int] = {}
        self.versions: dict[str, int] = {}
        self._bootstrap = bootstrap
        self._security = security
        self._nodes: dict[int, Address] = {}
        self._leaders: dict[int, Leader] = {}
        self.partitions: list[int] = []
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._connections: dict[Address, Connection] = {}

    def disconnect(self) -> None:
        """Cut all connections, as happens when a process ends."""
        for each in self._connections.values():
            each.close()
        self._connections.clear()

    def forget(self) -> None:
        """Forget leaders and coordinators, so that they are looked up again."""
        self._leaders.clear()
        self._coordinators.clear()

    async def leader(self, partition: int) -> tuple[Leader, Connection]:
        """Return the leader of a partition, and a connection to it."""
        if partition not in self._leaders:
            await self.refresh()
        leader = self._leaders.get(partition)
        if leader is None or leader.node not in self._nodes:
            self._leaders.clear()
            raise NotSent(f"partition {partition} has no leader")
        return leader, await self._connect(self._nodes[leader.node])

    async def coordinator(self, kind: int, key: str) -> Connection:
        """Return a connection to the coordinator of a group or transactional id."""
        if (kind, key) not in self._coordinators:
            connection = await self.any_node()
            response = await _sent_nothing(
                connection.request("FindCoordinator", key_type=kind, coordinator_keys=(key,))
            )
            (found,) = response.coordinators
            if found.error_code is not ErrorCode.none:
                raise NotSent(f"coordinator of {key}: {found.error_code.name.upper()}")
            self._coordinators[kind, key] = Address(found.host, found.port)
        return await self._connect(self._coordinators[kind, key])

    async def refresh(self) -> None:
        """Request the metadata of the topic. Raises UnknownTopic if the topic does not exist."""
        connection = await self.any_node()
        response = await _sent_nothing(
            connection.request(
                "Metadata",
                topics=[Fields(name=self.topic, topic_id=None)],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )
        )
        self._nodes = {each.node_id: Address(each.host, each.port) for each in response.brokers}
        (topic,) = response.topics
        if topic.error_code is not ErrorCode.none:
            unknown = topic.error_code is ErrorCode.unknown_topic_or_partition
            kind = UnknownTopic if unknown else NotSent
            raise kind(f"metadata of {self.topic}: {topic.error_code.name.upper()}")
        self.topic_id = topic.topic_id
        self.partitions = sorted(each.partition_index for each in topic.partitions)
        self._leaders = {
            each.partition_index: Leader(each.leader_id, each.leader_epoch)
            for each in topic.partitions
            if each.error_code is ErrorCode.none
        }

    async def any_node(self) -> Connection:
        """Return a connection to any node."""
        problem = NotSent("no address of a broker is known")
        for each in (*self._connections, *self._nodes.values(), *self._bootstrap):
            try:
                return await self._connect(each)
            except NotSent as error:
                problem = error
        raise problem

    async def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            self._connections.pop(address, None)
            connection = await Connection.open(address, self._security, self._client_id)
            self._connections[address] = connection
            self.features, self.versions = connection.features, connection.versions
        return connection


async def _sent_nothing(request: Any) -> Any:
    """Await a request that prepares the caller's request. If it gets no response, the caller's
    request is not sent."""
    try:
        return await request
    except Disconnected as error:
        raise NotSent(str(error)) from error


async def back_off() -> None:
    await asyncio.sleep(BACKOFF_SECONDS)
