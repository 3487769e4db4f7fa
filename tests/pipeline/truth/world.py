"""A simulated world: a broker without sockets, topics, groups and actions, drawn from one seed.

It runs on a virtual clock and leaves a data folder like that of `kohort serve` (logs, topic
registry, event log) and the expected causes of each rebalance.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from kohort.broker.event_log import EventLog, EventPublisher
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import JoinGroup, LeaveGroup, LeavingMember, OffsetCommit
from kohort.coordinator.outcome import EventType, GroupEvent
from kohort.log.batch import BatchBuilder
from kohort.log.checkpoint import cluster_id_of
from kohort.log.files import DiskFiles
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode as E
from kohort.topics.names import OFFSETS_TOPIC
from support.virtual_broker import Schedule, ScheduledBroker, Tasks, wait
from truth.oracle import Oracle

if TYPE_CHECKING:
    from truth.clients import Client

# --- settings

Commits = Literal["polls", "background-changes", "background"]
"""Java and kafka-python commit everything they own within poll(); librdkafka's timer commits only
changes; aiokafka's task commits everything, even while the application is busy."""


@dataclass(frozen=True, slots=True)
class Library:
    name: str
    software: str  # as in ApiVersions
    session_ms: int
    commits: Commits
    sends_reasons: bool  # KIP-800
    sends_poll_interval: bool  # as its rebalance timeout, instead of session.timeout.ms
    watches_partitions: Literal["leader", "all"]  # which members rejoin after partitions were added
    client_id: str  # default client id


JAVA = Library(
    "java", "apache-kafka-java/4.1.0", 45_000, "polls", True, True, "leader", "consumer-{group}-1"
)
LIBRDKAFKA = Library(
    "librdkafka", "librdkafka/2.12.1", 45_000, "background-changes", False, True, "all", "rdkafka"
)
KAFKA_PYTHON = Library(
    "kafka-python",
    "kafka-python/3.0.12",
    45_000,
    "polls",
    False,
    True,
    "leader",
    "kafka-python-3.0.12",
)
AIOKAFKA = Library(
    "aiokafka", "aiokafka/0.12.0", 10_000, "background", False, False, "leader", "aiokafka-0.12.0"
)
LIBRARIES = (JAVA, LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA)

_EAGER = ("range", "roundrobin", "sticky")
_COOPERATIVE = "cooperative-sticky"


@dataclass(frozen=True, slots=True)
class TopicSetting:
    name: str
    partitions: int
    busy: float  # share of the partitions that receive records


@dataclass(frozen=True, slots=True)
class GroupSetting:
    group_id: str
    library: Library
    assignors: tuple[str, ...]
    size: int
    is_static: bool
    topics: tuple[str, ...]
    session_ms: int
    max_poll_ms: int
    poll_ms: int
    metadata_ms: int
    client_id: str  # with {} for the member's number; without it, all share the id
    actions: int
    plan: tuple[str, ...] = ()  # names of actions; random actions if empty

    @property
    def is_cooperative(self) -> bool:
        return self.assignors == (_COOPERATIVE,)


@dataclass(frozen=True, slots=True)
class Setting:
    nodes: int
    latency_ms: int
    topics: tuple[TopicSetting, ...]
    groups: tuple[GroupSetting, ...]
    has_idle_end: bool  # all consumers close at the end, and the groups expire


def draw(seed: int) -> Setting:
    chance = Random(f"{seed} setting")
    topics = tuple(
        TopicSetting(f"topic-{n}", chance.randint(1, 8), chance.choice((1.0, 1.0, 1.0, 0.5, 0.0)))
        for n in range(chance.randint(2, 3))
    )
    names = [each.name for each in topics]
    groups = tuple(_group(chance, f"group-{n}", names) for n in range(chance.choice((1, 2, 2, 3))))
    return Setting(
        nodes=chance.choice((1, 2)),
        latency_ms=chance.choice((2, 10, 50)),
        topics=topics,
        groups=groups,
        has_idle_end=chance.random() < 0.15,
    )


def _group(chance: Random, group_id: str, topics: list[str]) -> GroupSetting:
    library = chance.choice((JAVA, JAVA, *LIBRARIES))
    cooperative = library is not AIOKAFKA and chance.random() < 0.4
    max_poll_ms = chance.choice((300_000, 60_000, 30_000))
    session_ms = library.session_ms
    if chance.random() < 0.5:
        session_ms = chance.choice((6_000, 10_000, 30_000))
    if library is LIBRDKAFKA:  # librdkafka rejects longer sessions
        session_ms = min(session_ms, max_poll_ms)
    own_ids = chance.random() < 0.5
    return GroupSetting(
        group_id=group_id,
        library=library,
        assignors=(_COOPERATIVE,) if cooperative else (chance.choice(_EAGER),),
        size=chance.choice((1, 2, 2, 3, 3, 4, 6)),
        is_static=chance.random() < 0.25,
        topics=tuple(sorted(chance.sample(topics, chance.randint(1, 2)))),
        session_ms=session_ms,
        max_poll_ms=max_poll_ms,
        poll_ms=chance.choice((500, 1_000, 3_000)),
        metadata_ms=chance.choice((5_000, 30_000)),
        client_id="worker-{}" if own_ids else library.client_id.format(group=group_id),
        actions=chance.randint(3, 8),
    )


# --- the broker

# In proportion to a few groups; Kafka's default of 50 is meant for hundreds.
OFFSETS_PARTITIONS = 3


class SimulatedBroker(ScheduledBroker):
    """`on_event` is called while the coordinators decide."""

    def __init__(
        self,
        folder: Path,
        schedule: Schedule,
        chance: Random,
        on_event: Callable[[GroupEvent], None],
        *,
        nodes: int,
    ) -> None:
        self._chance, self._on_event = chance, on_event
        files = DiskFiles()
        folder.mkdir(parents=True, exist_ok=True)
        cluster_id = cluster_id_of(folder, files, 1)
        self._events = EventLog(
            folder,
            files,
            cluster_id=cluster_id,
            now_ms=schedule.now_ms,
            call_soon=partial(schedule.after, 0),
            files_max=0,
        )
        super().__init__(
            folder,
            files,
            schedule,
            cluster_id=cluster_id,
            nodes=nodes,
            offsets_partitions=OFFSETS_PARTITIONS,
            durability="none",
        )
        self.topics.create(OFFSETS_TOPIC, OFFSETS_PARTITIONS, {})
        # Loading the coordinators starts the cleanup of expired offsets.
        for node in self.cluster.nodes.values():
            node.coordinators.load(range(OFFSETS_PARTITIONS))

    def close(self) -> None:
        for node in self.cluster.nodes.values():
            node.coordinators.close()
        self._events.close()
        self.topics.close()

    def new_id(self) -> uuid.UUID:
        return uuid.UUID(int=self._chance.getrandbits(128), version=4)

    def publisher(self, node_id: int, _partition: int) -> EventPublisher:
        return EventPublisher("", [self._events.listener(node_id), self._on_event])

    def submit(self, node_id: int, command: Any, respond: Callable[[Any], None]) -> int:
        groups = self.cluster.nodes[node_id].coordinators
        return groups.submit(command, lambda _context, result: respond(result), None)

    def forget(self, node_id: int, ticket: int) -> None:
        """Drop the reply to a disconnected client."""
        self.cluster.nodes[node_id].coordinators.forget(ticket)

    def move_coordinator(self, group_id: str) -> None:
        """Move the coordinator to the next node."""
        at, index = self.leader_of(group_id), self.partition_of(group_id)
        self.cluster.move(OFFSETS_TOPIC, index, at % len(self.cluster.nodes) + 1)

    def group(self, group_id: str) -> Any:
        """Return the coordinator's group, or None."""
        context = self.context_of(group_id)
        return None if context is None else context.coordinator.groups.get(group_id)

    def produce(self, topic: str, partition: int, count: int) -> None:
        """Append `count` records with the current time."""
        found = self.topics.partition(topic, partition)
        assert found is not None, f"{topic}-{partition} does not exist"
        batch = BatchBuilder()
        batch.add_all([(b"k", b"v")] * count, self.now_ms())
        found.log.append(batch.finish(found.log.end_offset))

    def end(self, topic: str, partition: int) -> int:
        found = self.topics.partition(topic, partition)
        return 0 if found is None else found.log.end_offset


# --- the world

PRODUCE_MS = 5_000
# Limit on virtual time, so that a world that waits for an impossible event fails.
LIMIT_MS = 48 * 3_600_000
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
IDLE_MS = 8 * DAY_MS  # beyond offsets.retention.minutes


class World:
    """`with World(seed, folder) as world: run_world(world)` (actions.py)"""

    def __init__(self, seed: int, folder: Path, setting: Setting | None = None) -> None:
        self.seed, self.folder = seed, folder
        self.setting = setting or draw(seed)
        self.chance = Random(f"{seed} world")
        self.schedule = Schedule()
        self.tasks = Tasks(self.schedule)
        self.broker = SimulatedBroker(
            folder, self.schedule, Random(f"{seed} ids"), self._on_event, nodes=self.setting.nodes
        )
        self.oracles = {each.group_id: Oracle() for each in self.setting.groups}
        self.deleting: set[str] = set()  # groups whose deletion was requested
        self.committed: dict[tuple[str, tuple[str, int]], int] = {}  # by group and partition
        self._is_idle = False
        for topic in self.setting.topics:
            self.broker.topics.create(topic.name, topic.partitions, {})

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.close()

    def now_ms(self) -> int:
        return self.schedule.now_ms()

    def oracle(self, group_id: str) -> Oracle:
        return self.oracles[group_id]

    def start_producers(self) -> None:
        for topic in self.setting.topics:
            self.tasks.start_task(self._produce(topic.name, topic.busy))

    def idle(self) -> None:
        """Stop the producers and run until the offsets of empty groups have expired."""
        self._is_idle = True
        until_ms = self.now_ms() + IDLE_MS
        self.run_until(lambda: self.now_ms() >= until_ms, IDLE_MS)

    def run_until(self, is_over: Callable[[], bool], longest_ms: int = LIMIT_MS) -> None:
        limit_ms = self.now_ms() + longest_ms
        while not is_over():
            event = self.schedule.next_due(limit_ms)
            if event is None:
                assert is_over(), f"world {self.seed} does not end"
                return
            event()
            if self.tasks.failure is not None:
                raise self.tasks.failure

    # --- topics

    async def _produce(self, topic: str, busy: float) -> None:
        """Write records. `busy`: share of the partitions that are written to."""
        chance = Random(f"{self.seed} {topic}")
        while not self._is_idle:
            count = self.count_partitions([topic]).get(topic, 0)
            for partition in range(round(count * busy)):
                self.broker.produce(topic, partition, chance.randint(1, 3))
            await self.tasks.sleep(PRODUCE_MS)

    def count_partitions(self, topics: Any) -> dict[str, int]:
        found = ((name, self.broker.topics.get(name)) for name in topics)
        return {name: len(topic.partitions) for name, topic in found if topic is not None}

    # --- the network

    async def request(self, client: "Client", command: Any, why: Cause | None) -> Any:
        """Return the result after the latency in both directions; never for a dead client."""
        await self.tasks.sleep(self._latency_ms())
        result = await wait(lambda wake: self._submit(client, command, why, wake))
        await self.tasks.sleep(self._latency_ms())
        return result

    def send_leave(self, group_id: str, member_id: str, reason: str | None) -> None:
        """Send LeaveGroup as the member or an admin client, without waiting for the response."""
        leaving = LeaveGroup(group_id, (LeavingMember(member_id, None, reason),))

        def arrive() -> None:
            node_id = self.broker.leader_of(group_id)
            self.broker.submit(node_id, leaving, lambda _result: None)

        self.schedule.after(self._latency_ms(), arrive)

    def _submit(self, client: "Client", command: Any, why: Cause | None, wake: Any) -> None:
        if client.is_dead:
            return

        def respond(result: Any) -> None:
            client.pending_request = None
            if type(command) is OffsetCommit and result.errors[0] is E.none:
                for entry, (offset,) in zip(command.entries, command.offsets, strict=True):
                    place = entry.topic, entry.partition
                    self.committed[command.group_id, place] = offset
            # Not during the decision, because the woken client may send another request.
            self.schedule.after(0, lambda: wake(result))

        if type(command) is JoinGroup:
            self._join(client, command, why, respond)
        else:
            self.broker.submit(client.node_id, command, respond)

    def _join(self, client: "Client", command: JoinGroup, why: Cause | None, respond: Any) -> None:
        oracle, group = self.oracle(command.group_id), self.broker.group(command.group_id)
        causes = {why} if why is not None else set()
        if why is Cause.METADATA_CHANGED:  # for followers; a leader's rejoin has its own cause
            causes.add(Cause.LEADER_REJOINED)
        is_in = group is not None and command.member_id in group.members
        if not is_in:
            oracle.expect_join(client.place)
        elif why is not None:
            oracle.expect_rebalance(*causes)
        generation = group.generation if group is not None else -1
        results: list[Any] = []
        client.pending_request = None

        def on_result(result: Any) -> None:
            results.append(result)
            respond(result)

        ticket = self.broker.submit(client.node_id, command, on_result)
        if not results:
            client.pending_request = client.node_id, ticket
        is_unmoved = group is not None and group.state is State.STABLE
        if is_in and why is not None and is_unmoved and group.generation == generation:
            oracle.cancel_rebalance(*causes)

    def _latency_ms(self) -> int:
        return self.chance.randint(1, self.setting.latency_ms)

    # --- events of the coordinators

    def _on_event(self, event: GroupEvent) -> None:
        oracle = self.oracles.get(event.group_id)
        if oracle is None:
            return
        if event.type in (EventType.JOIN_COMPLETED, EventType.GROUP_EMPTIED):
            group = self.broker.group(event.group_id)
            members = [
                (each.member_id, (each.client_host, each.client_id))
                for each in group.members.values()
            ]
            oracle.complete_rebalance(group.generation, group.protocol_name, members)
        elif event.type is EventType.MEMBER_REPLACED:
            place = str(event.client_host), str(event.client_id)
            successor = event.detail["successor"]
            oracle.replace_static_member(
                event.generation or 0, event.member_id or "", successor, place
            )
        elif event.type is EventType.GROUP_DELETED:
            is_requested = event.group_id in self.deleting
            self.deleting.discard(event.group_id)
            oracle.delete_group(Cause.GROUP_DELETED if is_requested else Cause.GROUP_EXPIRED)
