"""The role of a fake member in its group: it consumes topics or runs connectors. Both roles use the
same group protocol, with different subscriptions and assignments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ...assignors.client_adapter import ClientAdapter, by_topic
from ...assignors.connect import protocol as connect
from ...assignors.connect.assignor import ConnectAssignor, work_after, worker_assignments
from ...assignors.model import Assignor, Subscription, TopicPartition, Topics
from ...protocol import consumer_protocol
from ...topics.registry import TopicRegistry

# All workers have read the same configuration.
_CONFIG_OFFSET: Final = 1


@dataclass(frozen=True, slots=True)
class JoinResult:
    """A JoinGroup response. `members` is empty unless this member is the leader."""

    generation: int
    previous_generation: int
    """The last generation in which this member got an assignment; -1 before the first."""
    protocol: str
    leader: str
    members: Sequence[Any]
    """Objects with member_id, group_instance_id, metadata."""
    now_ms: int


class Consumer:
    """A consumer, with its assignors in order of preference. In the consumer protocol, it has no
    assignors, but may prefer a server assignor."""

    protocol_type: Final = "consumer"
    rejoin_reason: Final = "need to revoke partitions and re-join"  # Java's ConsumerCoordinator
    """The reason for a rejoin that the coordinator did not request (KIP-800)."""

    def __init__(
        self,
        assignors: Sequence[Assignor],
        topics: Iterable[str],
        server_assignor: str | None = None,
    ) -> None:
        self._assignors = assignors
        self.topics = tuple(topics)
        self.server_assignor = server_assignor
        self.forget()

    def forget(self) -> None:
        """Reset to the state of a new process."""
        self._adapters = {each.name: ClientAdapter(each, None) for each in self._assignors}
        self.owned: tuple[TopicPartition, ...] = ()
        """The partitions or tasks that the member believes it owns."""
        self._owned_generation = -1

    @property
    def is_cooperative(self) -> bool:
        """Whether the member keeps its partitions during a rebalance."""
        # Only if all assignors are cooperative, as in Java (ConsumerCoordinator, KIP-429).
        return all(adapter.assignor.cooperative for adapter in self._adapters.values())

    def revoke_all(self) -> None:
        self.owned = ()

    def protocols(self) -> list[tuple[str, bytes]]:
        """Return (name, metadata) of each supported protocol, in order of preference."""
        return [
            (name, _encode(adapter.subscription(self.topics, self.owned, self._owned_generation)))
            for name, adapter in self._adapters.items()
        ]

    def assign(self, joined: JoinResult, topics: TopicRegistry) -> dict[str, bytes]:
        """Compute the assignment of each member, by member id, as the leader."""
        members = {
            each.member_id: _decode(each.metadata, each.group_instance_id)
            for each in joined.members
        }
        names = sorted({topic for member in members.values() for topic in member.topics})
        found = ((name, topics.get(name)) for name in names)
        counts = {name: len(topic.partitions) for name, topic in found if topic is not None}
        shares = self._adapters[joined.protocol].assign(Topics(counts), members)
        return {
            member_id: consumer_protocol.encode_assignment(
                consumer_protocol.Assignment(_topic_partitions(share))
            )
            for member_id, share in shares.items()
        }

    def apply(self, joined: JoinResult, assignment: bytes) -> int | None:
        """Take over the assigned partitions or tasks. Return the delay in milliseconds after which
        the member must rejoin (0 after a revocation); None if it need not."""
        topics = (
            consumer_protocol.decode_assignment(assignment).assigned_partitions
            if assignment
            else ()
        )
        assigned = tuple(sorted((topic, index) for topic, indexes in topics for index in indexes))
        revokes = self.is_cooperative and not set(self.owned) <= set(assigned)
        self.owned, self._owned_generation = assigned, joined.generation
        for adapter in self._adapters.values():
            adapter.on_assignment(assigned, joined.generation)
        return 0 if revokes else None


def _encode(subscription: Subscription) -> bytes:
    generation = -1 if subscription.generation_id is None else subscription.generation_id
    return consumer_protocol.encode_subscription(
        consumer_protocol.Subscription(
            subscription.topics,
            subscription.user_data,
            _topic_partitions(by_topic(subscription.owned_partitions)),
            generation,
        )
    )


def _decode(metadata: bytes, instance_id: str | None) -> Subscription:
    subscription = consumer_protocol.decode_subscription(metadata)
    owned = subscription.owned_partitions
    return Subscription(
        topics=subscription.topics,
        owned_partitions=tuple((topic, index) for topic, indexes in owned for index in indexes),
        generation_id=None if subscription.generation_id < 0 else subscription.generation_id,
        rack_id=subscription.rack_id,
        user_data=subscription.user_data,
        group_instance_id=instance_id,
    )


def _topic_partitions(
    share: Iterable[tuple[str, list[int]]],
) -> tuple[consumer_protocol.TopicPartitions, ...]:
    return tuple(consumer_protocol.TopicPartitions(name, tuple(indexes)) for name, indexes in share)


class ConnectWorker:
    """A Connect worker, with the same methods as a Consumer. `connectors` maps each connector to
    its configured number of tasks."""

    protocol_type: Final = connect.PROTOCOL_TYPE
    rejoin_reason: Final = None
    is_cooperative: Final = True

    def __init__(self, connectors: Mapping[str, int], url: str) -> None:
        self._connectors = dict(connectors)
        self._url = url
        self.forget()

    def forget(self) -> None:
        self._assignor = ConnectAssignor()
        self.owned: tuple[connect.WorkItem, ...] = ()
        """(connector, task), and (connector, -1) for the connector itself."""

    def revoke_all(self) -> None:
        self.owned = ()

    def protocols(self) -> list[tuple[str, bytes]]:
        running = (
            connect.WorkerAssignment("", "", _CONFIG_OFFSET, self.owned) if self.owned else None
        )
        state = connect.WorkerState(self._url, _CONFIG_OFFSET, running)
        return [
            (name, connect.write_metadata(state, version))
            for name, version in connect.PROTOCOLS.items()
            if version > 0  # the eager protocol is not implemented
        ]

    def assign(self, joined: JoinResult, _topics: TopicRegistry) -> dict[str, bytes]:
        assignments = worker_assignments(
            self._assignor,
            joined.leader,
            {each.member_id: connect.read_metadata(each.metadata) for each in joined.members},
            self._connectors,
            config_offset=_CONFIG_OFFSET,
            now_ms=joined.now_ms,
            generation=joined.generation,
            last_completed_generation=joined.previous_generation,
        )
        version = connect.PROTOCOLS[joined.protocol]
        return {
            worker: connect.write_assignment(each, version) for worker, each in assignments.items()
        }

    def apply(self, _joined: JoinResult, assignment: bytes) -> int | None:
        assigned = connect.read_assignment(assignment)
        self.owned = tuple(work_after(self.owned, assigned.assigned, assigned.revoked))
        if assigned.revoked:
            return 0  # other workers can now start the work that this worker has stopped
        return assigned.delay_ms or None


Role: TypeAlias = Consumer | ConnectWorker
