"""Everything that acts in a simulation: consumers, an administrator, and faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from kohort.coordinator.commands import (
    CommitResult,
    DeleteGroup,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeavingMember,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
    SyncResult,
)
from kohort.protocol.errors import ErrorCode as E
from kohort.topics.names import OFFSETS_TOPIC
from simulation.config import RECREATED, TOPIC, TOPICS, metadata
from simulation.models import Violation
from simulation.network import Connection
from support.coordinator import offset_commit

if TYPE_CHECKING:
    from simulation.config import SlotConfig
    from simulation.simulation import Simulation

# All consumers support the first of these. The log keeps only the selected protocol, so after a
# restart a member that does not support it is rejected, as by Kafka.
PROTOCOLS = (("range", "roundrobin"), ("roundrobin", "range"), ("range", "roundrobin", "newest"))
STANDALONE_GROUP = "solo"
COORDINATOR_ERRORS = (
    E.not_coordinator,
    E.coordinator_not_available,
    E.coordinator_load_in_progress,
)


def partitions_of(assignment: bytes) -> tuple[int, ...]:
    return tuple(map(int, assignment.split(b","))) if assignment else ()


class Consumer:
    """A consumer process. It handles errors as Java's client does (AbstractCoordinator,
    ConsumerCoordinator); an error that a correct client never receives is a violation."""

    def __init__(self, simulation: Simulation, slot: SlotConfig, number: int) -> None:
        self._simulation = simulation
        self._slot = slot
        self.name = f"{slot.name}.{number}"
        self._random = Random(f"{simulation.seed} {self.name}")
        self.is_fenced = False
        self.restart_ms = 0  # how long after being fenced it is restarted
        self.member_id = ""
        self.generation = -1
        self.phase: Literal["idle", "joining", "syncing", "stable", "closed"] = "idle"
        self.owned: tuple[int, ...] = ()
        self._connection: Connection | None = None
        self._waiting_since_ms: int | None = None  # since when it cannot continue
        self._stalled_until_ms = 0
        self._unread: list[tuple[str, int, Any]] = []
        names = self._random.choice(PROTOCOLS)
        user_data = self.name.encode() if self._random.random() < 0.5 else b"same"
        self._protocols = tuple((name, metadata(slot.subscription, user_data)) for name in names)
        self._tick()

    def _tick(self) -> None:
        if self.phase == "closed":
            return
        now_ms = self._simulation.schedule.now_ms()
        self._simulation.schedule.after(self._slot.session_timeout_ms // 3, self._tick)
        if now_ms < self._stalled_until_ms:
            return
        since_ms = self._waiting_since_ms
        if since_ms is not None and now_ms > since_ms + self._request_timeout_ms():
            self._disconnect()
        if self._connection is None or not self._connection.is_open:
            node_id = self._simulation.find_coordinator(self._slot.group_id, self._random)
            self._connection = Connection(
                self._simulation, self.name, self._random, node_id, self._disconnected
            )
            if not self._connection.is_open:
                return
        if self.phase == "idle":
            self._join()
        elif self.phase == "stable":
            self._heartbeat()
            if self._random.random() < 0.5:
                self._commit()

    def _request_timeout_ms(self) -> int:
        """Return the timeout of Java's client: a join, or a sync whose leader is missing, may wait
        for a whole rebalance."""
        if self.phase in ("joining", "syncing"):
            return self._slot.rebalance_timeout_ms + 5_000
        return self._slot.session_timeout_ms

    def stall(self, ms: int) -> None:
        """Pause the process. Its first requests after it resumes are late."""
        now_ms = self._simulation.schedule.now_ms()
        if self.phase != "closed" and now_ms >= self._stalled_until_ms:
            self._simulation.record("!", self.name, "stalls for %d ms", ms)
            self._stalled_until_ms = now_ms + ms
            self._simulation.schedule.after(ms, self._resume)

    def _resume(self) -> None:
        if self.phase == "stable" and self._random.random() < 0.7:
            self._commit()
        if self.phase == "stable" and self._random.random() < 0.3:
            self._heartbeat()
        unread, self._unread = self._unread, []
        for response in unread:
            self._handle(*response)

    # --- requests

    def _send(self, command: Any, *, needs_response: bool = True) -> None:
        if self._connection is None or not self._connection.is_open:
            self._disconnected()
            return
        if needs_response:
            self._waiting_since_ms = self._simulation.schedule.now_ms()
        member_id, generation = self.member_id, self.generation
        self._connection.send(command, lambda result: self._receive(member_id, generation, result))

    def _join(self) -> None:
        slot, self.phase, self.owned = self._slot, "joining", ()
        self._send(
            JoinGroup(
                slot.group_id,
                self.member_id,
                slot.instance_id,
                slot.name,
                "/10.0.0.1",
                slot.session_timeout_ms,
                slot.rebalance_timeout_ms,
                "consumer",
                self._protocols,
                slot.join_version >= 4,
                slot.join_version >= 9,
                None,
            )
        )

    def rejoin(self) -> None:
        """Rejoin, as after a changed subscription or enforceRebalance."""
        now_ms = self._simulation.schedule.now_ms()
        if self.phase == "stable" and now_ms >= self._stalled_until_ms:
            self._join()

    def _sync(self, joined: JoinResult) -> None:
        self.phase = "syncing"
        assignments: tuple[tuple[str, bytes], ...] = ()
        if joined.leader == self.member_id and not joined.skip_assignment:
            members = sorted(joined.members, key=lambda m: m.group_instance_id or m.member_id)
            partitions = range(self._simulation.config.topic_partitions)
            assignments = tuple(
                (m.member_id, self._assignment(partitions[index :: len(members)]))
                for index, m in enumerate(members)
            )
        identity = self.generation, self.member_id, self._slot.instance_id
        self._send(
            SyncGroup(self._slot.group_id, *identity, None, joined.protocol_name, assignments)
        )

    def _assignment(self, partitions: Iterable[int]) -> bytes:
        return ",".join(map(str, partitions)).encode()

    def _partitions(self, assignment: bytes) -> tuple[int, ...]:
        return partitions_of(assignment)

    def _heartbeat(self) -> None:
        identity = self.generation, self.member_id, self._slot.instance_id
        self._send(
            Heartbeat(self._slot.group_id, *identity), needs_response=self._waiting_since_ms is None
        )

    def _commit(self) -> None:
        offsets = [(TOPIC, each, next(self._simulation.offsets)) for each in self.owned or (0,)]
        if self._random.random() < 0.2:
            offsets.append((RECREATED, 0, next(self._simulation.offsets)))
        self._send_commit(offsets)

    def _send_commit(self, offsets: list[tuple[str, int, int]], **fields: Any) -> None:
        commit = offset_commit(
            self._slot.group_id,
            offsets,
            generation=self.generation,
            member_id=self.member_id,
            instance=self._slot.instance_id,
            **fields,
        )
        self._send(commit, needs_response=False)

    def leave(self) -> None:
        if self.member_id:
            leaving = LeavingMember(self.member_id, self._slot.instance_id, None)
            self._send(LeaveGroup(self._slot.group_id, (leaving,)))
        self.close()

    def close(self) -> None:
        """End the process, without LeaveGroup."""
        self.phase = "closed"
        if self._connection is not None:
            self._connection.close()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._disconnected()

    def _disconnected(self) -> None:
        self._connection = self._waiting_since_ms = None
        if self.phase in ("joining", "syncing"):
            self.phase = "idle"

    # --- responses

    def _receive(self, member_id: str, generation: int, result: Any) -> None:
        if self._simulation.schedule.now_ms() < self._stalled_until_ms:
            self._unread.append((member_id, generation, result))
        else:
            self._handle(member_id, generation, result)

    def _handle(self, member_id: str, generation: int, result: Any) -> None:
        if self.phase == "closed" or (member_id, generation) != (self.member_id, self.generation):
            return  # the response to a request with a previous identity
        if isinstance(result, JoinResult) and self.phase == "joining":
            self._waiting_since_ms = None
            self._joined(result)
        elif isinstance(result, SyncResult) and self.phase == "syncing":
            self._waiting_since_ms = None
            if result.error_code is E.none:
                self.phase = "stable"
                self.owned = self._partitions(result.assignment)
            else:
                self._handle_error(result.error_code)
        elif isinstance(result, HeartbeatResult) and self.phase == "stable":
            self._waiting_since_ms = None
            if result.error_code is E.rebalance_in_progress and self._random.random() < 0.5:
                self._commit()  # before it revokes its partitions
            if result.error_code is not E.none:
                self._handle_error(result.error_code)
        elif isinstance(result, CommitResult) and self.phase == "stable":
            error = result.errors[0]
            if error not in (E.none, E.rebalance_in_progress):
                self._handle_error(error)

    def _joined(self, result: JoinResult) -> None:
        if result.error_code is E.none:
            self.generation = result.generation_id
            self.member_id = result.member_id
            if self._random.random() < 0.1:
                self._commit()  # too early
            self._sync(result)
        elif result.error_code is E.member_id_required:
            self.member_id = result.member_id
            self._join()
        elif result.error_code is E.group_max_size_reached:
            self.member_id, self.phase = "", "idle"
        else:
            self._handle_error(result.error_code)

    def _handle_error(self, error: E) -> None:
        if error in COORDINATOR_ERRORS:
            if error is E.not_coordinator:
                self._disconnect()
            elif self.phase in ("joining", "syncing"):
                self.phase = "idle"
        elif error is E.fenced_instance_id:
            self._simulation.record("!", self.name, "is fenced")
            self.is_fenced = True
            self.close()
        elif error is E.unknown_member_id:
            self.member_id, self.generation = "", -1
            self._join()
        elif error in (E.rebalance_in_progress, E.illegal_generation):
            self._join()
        else:
            raise Violation(f"I5: {self.name} received {error.name} while {self.phase}")


class ConsumerSlot:
    """The successive consumers of one slot, and what happens to them."""

    def __init__(self, simulation: Simulation, config: SlotConfig) -> None:
        self._simulation = simulation
        self.config = config
        self._random = Random(f"{simulation.seed} seat {config.name}")
        self._started = 0
        self._replaced: list[Consumer] = []
        self.consumer: Consumer | None = None
        simulation.schedule.after(self._random.randint(0, 5_000), self._start)
        self._schedule_fault()
        self._supervise()

    def _start(self) -> None:
        kind = self._simulation.consumer_type(self.config, self._random)
        self.consumer = kind(self._simulation, self.config, self._started)
        self._started += 1

    def _supervise(self) -> None:
        """Restart a fenced consumer; its own delayed join may have fenced it."""
        if self._simulation.clients_stopped:
            return
        self._simulation.schedule.after(1_000, self._supervise)
        if self.consumer is not None and self.consumer.is_fenced:
            self._restart(self.consumer, "is restarted", self.consumer.restart_ms)

    def _schedule_fault(self) -> None:
        ms = int(self._random.expovariate(1 / self.config.fault_interval_ms)) + 100
        self._simulation.schedule.after(ms, self._inject_fault)

    def _inject_fault(self) -> None:
        if self._simulation.faults_stopped:
            return
        self._schedule_fault()
        consumer, random = self.consumer, self._random
        kind, ms = random.random(), random.randint(200, 2 * self.config.session_timeout_ms)
        if consumer is None:
            return  # another consumer is about to be started
        if kind < 0.15:
            self._restart(consumer, "is killed", ms)
        elif kind < 0.5:
            consumer.stall(ms)
        elif kind < 0.65:
            consumer.leave()
            self._restart(consumer, "leaves", ms)
        elif kind < 0.8:
            # Another consumer is started while this one stalls; a static member is replaced.
            consumer.stall(ms)
            self._replaced.append(consumer)
            self.consumer = None
            self._simulation.schedule.after(ms // 2, self._start)
        else:
            consumer.rejoin()

    def _restart(self, consumer: Consumer, reason: str, ms: int) -> None:
        self._simulation.record("!", consumer.name, reason)
        consumer.close()
        self.consumer = None
        self._simulation.schedule.after(ms, self._start)

    def stop_faults(self) -> None:
        for consumer in self._replaced:
            consumer.close()


class BackgroundActor:
    """Acts at random intervals until faults stop."""

    def __init__(self, simulation: Simulation, name: str, interval_ms: int) -> None:
        self.simulation = simulation
        self.random = Random(f"{simulation.seed} {name}")
        self._name = name
        self._interval_ms = interval_ms
        self._connections: dict[int, Connection] = {}  # keyed by node
        self._schedule()

    def _schedule(self) -> None:
        ms = int(self.random.expovariate(1 / self._interval_ms)) + 1
        self.simulation.schedule.after(ms, self._run)

    def _run(self) -> None:
        if not self.simulation.faults_stopped:
            self._schedule()
            self.act()

    def act(self) -> None:
        raise NotImplementedError

    def send(self, command: Any) -> None:
        node_id = self.simulation.find_coordinator(command.group_id, self.random)
        connection = self._connections.get(node_id)
        if connection is None or not connection.is_open:
            connection = Connection(self.simulation, self._name, self.random, node_id, lambda: None)
            self._connections[node_id] = connection
        connection.send(command, lambda _result: None)


class StandaloneConsumer(BackgroundActor):
    """Commits and fetches offsets without group membership."""

    def act(self) -> None:
        partitions = range(self.simulation.config.topic_partitions)
        if self.random.random() < 0.3:
            self.send(OffsetFetch(STANDALONE_GROUP, None, False, None, -1))
            return
        topic = self.random.choice(TOPICS)
        chosen = self.random.sample(partitions, self.random.randint(1, len(partitions)))
        offsets = [(topic, partition, next(self.simulation.offsets)) for partition in chosen]
        longest_ms = 2 * self.simulation.config.group_config.offsets_retention_ms
        retention_ms = self.random.choice([None, None, self.random.randint(0, longest_ms)])
        self.send(offset_commit(STANDALONE_GROUP, offsets, retention_ms=retention_ms))


class Administrator(BackgroundActor):
    """Fetches committed offsets, and sometimes deletes them or their group."""

    def act(self) -> None:
        group_id = self.random.choice([*self.simulation.group_ids, STANDALONE_GROUP])
        action = self.random.random()
        if action < 0.6:
            self.send(OffsetFetch(group_id, None, False, None, -1))
        elif action < 0.85:
            partition = self.random.randrange(self.simulation.config.topic_partitions)
            self.send(OffsetDelete(group_id, ((self.random.choice(TOPICS), (partition,)),)))
        else:
            self.simulation.deleted_groups.add(group_id)
            self.send(DeleteGroup(group_id))


class BrokerCrashes(BackgroundActor):
    """Kills the broker or turns off the power, sometimes in the middle of a write."""

    def act(self) -> None:
        simulation, random = self.simulation, self.random
        if simulation.broker is None:
            return
        simulation.loses_power = simulation.config.durability == "fsync" and random.random() < 0.6
        simulation.down_ms = random.choice([1, 300, 4_000])
        if random.random() < 0.5:
            simulation.files.crash_at = simulation.files.count + random.randint(0, 5)
        else:
            simulation.crash_broker()


class DiskFaults(BackgroundActor):
    """Makes operations on files fail for a while."""

    def act(self) -> None:
        random, files = self.random, self.simulation.files
        operation = random.choice(["sync", "sync", "append", "append", "truncate", "open"])
        times, written = random.choice([1, 1, 3, 1_000]), random.choice([0, 0, 30])
        self.simulation.record("!", "disk", "%s fails %d times", operation, times)
        files.fail(operation, after=random.randint(0, 3), written=written, times=times)
        self.simulation.schedule.after(random.choice([100, 3_000]), files.heal)


class NetworkFaults(BackgroundActor):
    """Closes connections, and makes others stop delivering without notice."""

    def act(self) -> None:
        connections = list(self.simulation.connections)
        if not connections:
            return
        connection = self.random.choice(connections)
        if self.random.random() < 0.7:
            self.simulation.record("!", "network", "closes a connection of %s", connection.client)
            connection.cut()
        else:
            self.simulation.record("!", "network", "drops everything of %s", connection.client)
            connection.is_silent = True


class NodeFailovers(BackgroundActor):
    """Moves leaders, stops nodes and starts them again."""

    def act(self) -> None:
        simulation, random = self.simulation, self.random
        broker, action = simulation.broker, random.random()
        if broker is None or simulation.config.nodes == 1:
            return
        nodes = broker.topics.nodes
        node_id = random.choice(nodes.ids)
        if node_id not in nodes.up:
            broker.start_node(node_id)
        elif action < 0.3:
            simulation.record("!", f"node {node_id}", "stops")
            broker.stop_node(node_id)
            delay_ms = random.choice([1, 3_000, 20_000])
            simulation.schedule.after(delay_ms, lambda: broker.start_node(node_id))
        else:
            topic = random.choice([OFFSETS_TOPIC, OFFSETS_TOPIC, TOPIC])
            index = random.randrange(len(broker.topics.get(topic).partitions))
            simulation.record("!", f"node {node_id}", "leads %s-%d", topic, index)
            broker.move_leader(topic, index, node_id)


class TopicRecreation(BackgroundActor):
    """Deletes a topic, and creates it again."""

    def act(self) -> None:
        broker = self.simulation.broker
        if broker is None or broker.topics.is_being_deleted(RECREATED):
            return
        topic = broker.topics.get(RECREATED)
        if topic is None:
            with suppress(OSError):  # the files of the old topic cannot be deleted yet
                broker.create_topic(RECREATED)
        else:
            self.simulation.record("!", "topic", "%s is deleted", RECREATED)
            on_failure = self.simulation.invariants.commits.topic_deleted(RECREATED)
            broker.topics.delete(topic, lambda error: error and on_failure())


# The names seed the actors' random generators: another name changes what every seed does.
BACKGROUND_ACTORS: dict[str, Callable[[Simulation], BackgroundActor]] = {
    "loner": lambda s: StandaloneConsumer(s, "loner", 1_000),
    "admin": lambda s: Administrator(s, "admin", 3_000),
    "killer": lambda s: BrokerCrashes(s, "killer", 2 * s.config.fault_interval_ms),
    "saboteur": lambda s: DiskFaults(s, "saboteur", 2 * s.config.fault_interval_ms),
    "operator": lambda s: NodeFailovers(s, "operator", s.config.fault_interval_ms),
    "owner": lambda s: TopicRecreation(s, "owner", s.config.fault_interval_ms),
    "cutter": lambda s: NetworkFaults(s, "cutter", s.config.fault_interval_ms),
}
