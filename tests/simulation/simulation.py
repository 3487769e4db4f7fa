"""Deterministic simulation: the real broker with simulated files, clock, ids and connections, model
clients, and faults, all driven by one seed.

    Simulation(seed).run()       raises Violation if an invariant is violated; see trace_lines()

A run has three phases. Faults happen; then they stop, and every group must become stable within a
bound and stay stable; then all clients stop, and every group and offset must expire.
"""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

from kohort.coordinator.classic.states import State
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.log.errors import LogError
from kohort.offsets.coordinator_topic import partition_for
from kohort.testing.faults.files import Crashed, FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC
from kohort.topics.topic import NO_LEADER
from simulation.actors import BACKGROUND_ACTORS, Consumer, ConsumerSlot
from simulation.broker import DATA_DIR, SimulatedBroker
from simulation.config import RECREATED, TOPIC, TOPICS, SlotConfig, draw, is_mixed
from simulation.invariants import Invariants
from simulation.mixed_actors import MixedClassicConsumer, NewConsumer, partitions_in
from simulation.models import Violation
from simulation.network import Connection
from support.virtual_broker import Schedule

TRACE_LINES = 30
START_MS = 1_000  # enough for everything that a broker does at its start without faults


class Simulation:
    """`without`: names of actors to leave out; `chaos_ms`: stop the faults earlier."""

    def __init__(
        self, seed: int, *, without: frozenset[str] = frozenset(), chaos_ms: int | None = None
    ) -> None:
        self.seed = seed
        self.config = draw(seed)
        self.chaos_ms = self.config.chaos_ms if chaos_ms is None else chaos_ms
        self.schedule = Schedule()
        self.files = FaultyFiles()
        self.files.make_folder(DATA_DIR)
        self.files.sync_folder(DATA_DIR.parent)
        self.trace: list[tuple[int, str, str, str, tuple[Any, ...]]] = []
        self.connections: dict[Connection, None] = {}  # the connections that the broker has
        self.faults_stopped = False
        self.clients_stopped = False
        self.latency_max_ms = self.config.latency_max_ms
        self.loses_power = False  # the next crash is a power failure, not just a killed process
        self.down_ms = 0  # how long the broker stays down after a crash
        self.deleted_groups: set[str] = set()  # groups in DeleteGroups requests, successful or not
        self._random = Random(f"{seed} world")
        self.ids, self.request_numbers = count(1), count(1)
        self.offsets = count(1)  # distinct, so that an offset identifies its commit
        self._start_numbers = count(1)
        self.invariants = Invariants(self)
        self.broker: SimulatedBroker | None = None
        self._start_broker()
        self._create_topics()
        slots = {slot.name: slot for slot in self.config.slots}
        self.actors = [name for name in (*BACKGROUND_ACTORS, *slots) if name not in without]
        self.slots = [ConsumerSlot(self, slots[name]) for name in slots if name in self.actors]
        for name, new_actor in BACKGROUND_ACTORS.items():
            if name in self.actors:
                new_actor(self)

    @property
    def group_ids(self) -> list[str]:
        return sorted({slot.group_id for slot in self.config.slots})

    def partition_of(self, group_id: str) -> int:
        return partition_for(group_id, self.config.offsets_partitions)

    def find_coordinator(self, group_id: str, random: Random) -> int:
        """Return the group's coordinator node, or sometimes another node, as after an outdated
        response."""
        if self.broker is None:
            return NO_LEADER
        nodes = self.config.nodes
        if nodes > 1 and random.random() < 0.1:
            return random.randint(1, nodes)
        return self.broker.leader_of(group_id)

    def record(self, sign: str, source: str, text: str, *arguments: Any) -> None:
        """Add a line to the trace: `<` request, `>` response, `=` state change, `!` fault."""
        self.trace.append((self.schedule.now_ms(), sign, source, text, arguments))

    def trace_lines(self) -> list[str]:
        return [
            f"{ms - self.schedule.start_ms:>6} {sign} {source}: "
            f"{text % arguments if arguments else text}"
            for ms, sign, source, text, arguments in self.trace
        ]

    def consumer_type(self, slot: SlotConfig, random: Random) -> type[Consumer]:
        if slot.new_protocol is None:
            return Consumer
        return NewConsumer if random.random() < slot.new_protocol else MixedClassicConsumer

    # --- starts and crashes of the broker

    def _start_broker(self) -> None:
        if self.broker is not None:
            return
        number = next(self._start_numbers)
        self.record("=", "broker", "start %d", number)
        try:
            self.broker = SimulatedBroker(self, number)
        except (OSError, LogError) as error:
            self.record("!", "broker", "start failed: %s", error)
            self.schedule.after(START_MS, self._start_broker)
        else:
            self.invariants.broker_started(self.broker)

    def _create_topics(self) -> None:
        assert self.broker is not None
        self.broker.topics.create(OFFSETS_TOPIC, self.config.offsets_partitions, {})
        for name in TOPICS:
            self.broker.topics.create(name, self.config.topic_partitions, {})
        self.topic_id = self.broker.topics.get(TOPIC).id
        self._run_until(self.schedule.now_ms() + START_MS)

    def crash_broker(self) -> None:
        """Crash the broker, even while it is starting."""
        broker, self.broker = self.broker, None
        self.record("!", "broker", "power failure" if self.loses_power else "killed")
        if broker is not None:
            broker.is_stopped = True
        if self.loses_power:
            self.files.crash(self._random)
        else:
            self.files.crash_at = None
        self.loses_power = False
        self.invariants.broker_crashed()
        for connection in list(self.connections):
            connection.broker_crashed()
        self.schedule.after(self.down_ms, self._start_broker)

    def _restart_broker(self) -> None:
        """Restart the broker. With fsync, everything must be on the disk, even after a power
        failure."""
        self.loses_power = self.config.durability == "fsync"
        self.down_ms = 0
        self.crash_broker()
        self._run_until(self.schedule.now_ms() + START_MS)

    # --- the phases of a run

    def run(self) -> None:
        self._run_until(self.schedule.now_ms() + self.chaos_ms)
        self._stop_faults()
        self._settle(self.schedule.now_ms() + self.config.settle_max_ms)
        self._check_owners()
        self._expire_everything()

    def _run_until(self, ms: int) -> None:
        while (callback := self.schedule.next_due(ms)) is not None:
            try:
                callback()
            except Crashed:
                self.crash_broker()
            except Violation:
                raise
            except Exception as error:
                raise Violation(f"I5: {type(error).__name__}: {error}") from error

    def _stop_faults(self) -> None:
        self.record("=", "simulation", "faults stop")
        self.faults_stopped = True
        self.latency_max_ms = min(self.latency_max_ms, 10)
        self.files.heal()
        self.files.crash_at = None
        self._start_broker()
        assert self.broker is not None
        for node_id in self.broker.topics.nodes.ids:
            self.broker.start_node(node_id)
        for connection in list(self.connections):
            if connection.is_silent:
                connection.cut()
        for slot in self.slots:
            slot.stop_faults()

    def _settle(self, until_ms: int) -> None:
        """Run until all groups are stable for two session timeouts. Before that, a stable group may
        rebalance again: for a sync still due from a replaced member, or a session that expires."""
        quiet_ms = 2 * max((slot.config.session_timeout_ms for slot in self.slots), default=1_000)
        while True:
            since_ms, generations = self.schedule.now_ms(), self._generations()
            unsettled = self._unsettled()
            self._run_until(since_ms + (500 if unsettled else quiet_ms))
            if unsettled is None:
                unsettled = self._unsettled()
                if unsettled is None and self._generations() == generations:
                    self.invariants.check_responses(since_ms)
                    return
            if since_ms >= until_ms:
                raise Violation(
                    f"I5: not settled {self.config.settle_max_ms} ms after the last fault: "
                    f"{unsettled or generations}"
                )

    def _generations(self) -> list[int | None]:
        return [slot.consumer and slot.consumer.generation for slot in self.slots]

    def _unsettled(self) -> str | None:
        """Why the groups are not settled; None if they are."""
        assert self.broker is not None
        topics = self.broker.topics
        if topics.is_being_deleted(RECREATED) and topics._registry_log.failed is None:
            return f"{RECREATED} is still being deleted"
        for group_id in self.group_ids:
            context = self.broker.context_of(group_id)
            group = None if context is None else context.coordinator.groups.get(group_id)
            if group is None and context is not None:
                group = context.coordinator.consumer_groups.get(group_id)
            state = None if group is None else group.state
            consumers = self._consumers_of(group_id)
            if not consumers:
                if state is not None and state != State.EMPTY:
                    return f"{group_id} is {state} without consumers"
                continue
            if group is None or state != State.STABLE:
                return f"{group_id} is {state}"
            for consumer in consumers:
                if consumer is None or consumer.phase != "stable":
                    return f"{group_id}: {consumer and (consumer.name, consumer.phase)}"
                generation = group.epoch if isinstance(group, ConsumerGroup) else group.generation
                if consumer.generation != generation:
                    return f"{consumer.name} is at {consumer.generation} of {generation}"
            if unresolved := _unresolved(group):
                return f"{group_id} has not resolved {unresolved}"
            if group.members.keys() != {c.member_id for c in consumers if c is not None}:
                return f"{group_id} has members {list(group.members)}"
        return None

    def _consumers_of(self, group_id: str) -> list[Any]:
        return [slot.consumer for slot in self.slots if slot.config.group_id == group_id]

    def _check_owners(self) -> None:
        for group_id in self.group_ids:
            consumers = self._consumers_of(group_id)
            owned = sorted(p for c in consumers if c is not None for p in c.owned)
            expected = list(range(self.config.topic_partitions))
            if is_mixed(group_id):
                expected = self._assigned(group_id, owned)
            if consumers and owned != expected:
                raise Violation(f"I1: partitions {owned} of {group_id} are owned after settling")

    def _assigned(self, group_id: str, owned: list[int]) -> list[int]:
        """Return the partitions in the target assignment of a group of both protocols. Kafka leaves
        partitions without an owner until the next change in two cases: a static member takes the
        place of one that left a group in PreparingRebalance, and so converts it without a new
        epoch; or it converts the group back while others wait for partitions, and nothing makes
        them rejoin."""
        assert self.broker is not None
        coordinator = self.broker.context_of(group_id).coordinator
        group = coordinator.consumer_groups.get(group_id)
        if group is not None:
            targets = group.targets.values()
            return sorted(p for target in targets for p in target.get(self.topic_id, ()))
        group = coordinator.groups.get(group_id)
        members = () if group is None else group.members.values()
        stored = {partition for each in members for partition in partitions_in(each.assignment)}
        return sorted(stored.intersection(owned))

    def _expire_everything(self) -> None:
        """With no clients left, every group and offset expires, in memory and on disk."""
        self.record("=", "simulation", "clients stop")
        self.clients_stopped = True
        for slot in self.slots:
            if slot.consumer is not None:
                slot.consumer.close()
        self._run_until(self.schedule.now_ms() + self.config.idle_ms)
        self._restart_broker()
        # Commits with their own retention time may keep offsets for twice the default.
        ms = 2 * self.config.group_config.offsets_retention_ms
        ms += 3 * self.config.retention_check_interval_ms
        self._run_until(self.schedule.now_ms() + self.config.settle_max_ms + ms)
        for is_last in (False, True):
            assert self.broker is not None
            self.invariants.check_all_expired(self.broker)
            if not is_last:
                self._restart_broker()


def _unresolved(group: object) -> list[str]:
    """The regular expressions whose topics are not known yet. A member that changes its expression
    gives up its other partitions immediately, and the group is stable without an owner for them:
    only the resolution of the new expression, up to ten seconds later, changes the target
    assignment."""
    if not isinstance(group, ConsumerGroup):
        return []
    return sorted(group.regex_counts.keys() - group.regexes.keys())


# --- runs of seeds


def run_seed(
    seed: int, without: frozenset[str] = frozenset(), chaos_ms: int | None = None
) -> tuple[Simulation, Violation | None]:
    simulation = Simulation(seed, without=without, chaos_ms=chaos_ms)
    try:
        simulation.run()
    except Violation as violation:
        return simulation, violation
    return simulation, None


def shrink(seed: int, invariant: str) -> tuple[Simulation, Violation]:
    """Leave out actors and stop faults earlier as long as the same invariant is violated."""
    simulation, violation = run_seed(seed)
    assert violation is not None
    without: frozenset[str] = frozenset()
    for name in simulation.actors:
        shorter, found = run_seed(seed, without | {name}, simulation.chaos_ms)
        if found is not None and found.invariant == invariant:
            simulation, violation, without = shorter, found, without | {name}
    for divisor in (8, 4, 2, 2, 2):
        chaos_ms = simulation.chaos_ms - simulation.chaos_ms // divisor
        shorter, found = run_seed(seed, without, chaos_ms)
        if found is not None and found.invariant == invariant:
            simulation, violation = shorter, found
    return simulation, violation


def report(seed: int, violation: Violation) -> str:
    simulation, shortest = shrink(seed, violation.invariant)
    lines = simulation.trace_lines()
    return "\n".join(
        [
            f"seed {seed}: {violation}",
            f"shortest run: {len(lines)} lines, {simulation.chaos_ms} ms of faults: {shortest}",
            f"actors: {', '.join(simulation.actors)}",
            *lines[-TRACE_LINES:],
        ]
    )
