"""A world: a broker, topics that are written to, groups and what is done to them; one seed, one
story. It leaves a data folder, and the true cause of each of its rebalances."""

from pathlib import Path
from random import Random
from typing import Any

from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import JoinGroup, LeaveGroup, LeavingMember, OffsetCommit
from kohort.coordinator.outcome import EventType, GroupEvent
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode as E
from support.virtual_time import Schedule
from truth.broker import TruthBroker
from truth.client import Client
from truth.deeds import GroupScript
from truth.ledger import Ledger
from truth.setting import Setting, draw
from truth.tasks import Tasks, wait

PRODUCE_MS = 5_000
# A story that has not come to its end by then waits for something that never comes.
LONGEST_MS = 48 * 3_600_000
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
NIGHT_MS = 8 * DAY_MS  # beyond offsets.retention.minutes


class World:
    """`with World(seed, folder) as world: world.run()`"""

    def __init__(self, seed: int, folder: Path, setting: Setting | None = None) -> None:
        self.seed, self.folder = seed, folder
        self.setting = setting or draw(seed)
        self.chance = Random(f"{seed} world")
        self.schedule = Schedule()
        self.tasks = Tasks(self.schedule)
        self.broker = TruthBroker(
            folder, self.schedule, Random(f"{seed} ids"), self._hear, nodes=self.setting.nodes
        )
        self.ledgers = {each.group_id: Ledger() for each in self.setting.groups}
        self.deleting: set[str] = set()  # groups that somebody asked to delete
        self._offsets: dict[tuple[str, tuple[str, int]], int] = {}
        self._is_night = False
        self.scripts = [GroupScript(self, each) for each in self.setting.groups]
        for topic in self.setting.topics:
            self.broker.topics.create(topic.name, topic.partitions, {})

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.close()

    def now_ms(self) -> int:
        return self.schedule.now_ms()

    def ledger(self, group_id: str) -> Ledger:
        return self.ledgers[group_id]

    def run(self) -> None:
        """All scripts to their ends. Raises what a client or a script does."""
        for topic in self.setting.topics:
            self.tasks.begin(self._produce(topic.name, topic.busy))
        running = [self.tasks.begin(script.run()) for script in self.scripts]
        self._go_on(lambda: all(task.is_over for task in running))
        if self.setting.has_night:
            for script in self.scripts:
                self.tasks.begin(script.go_home())
            self._is_night = True
            until_ms = self.now_ms() + NIGHT_MS
            self._go_on(lambda: self.now_ms() >= until_ms, NIGHT_MS)

    def _go_on(self, is_over: Any, longest_ms: int = LONGEST_MS) -> None:
        limit_ms = self.now_ms() + longest_ms
        while not is_over():
            event = self.schedule.next_due(limit_ms)
            if event is None:
                assert is_over(), f"world {self.seed} does not come to its end"
                return
            event()
            if self.tasks.failure is not None:
                raise self.tasks.failure

    # --- topics

    async def _produce(self, topic: str, busy: float) -> None:
        """`busy`: the share of its partitions that anything is written to."""
        chance = Random(f"{self.seed} {topic}")
        while not self._is_night:
            count = self.count_partitions([topic]).get(topic, 0)
            for partition in range(round(count * busy)):
                self.broker.produce(topic, partition, chance.randint(1, 3))
            await self.tasks.sleep(PRODUCE_MS)

    def count_partitions(self, topics: Any) -> dict[str, int]:
        found = ((name, self.broker.topics.get(name)) for name in topics)
        return {name: len(topic.partitions) for name, topic in found if topic is not None}

    def end(self, place: tuple[str, int]) -> int:
        return self.broker.end(*place)

    def committed(self, group_id: str, place: tuple[str, int]) -> int:
        return self._offsets.get((group_id, place), 0)

    # --- the network

    async def ask(self, client: Client, command: Any, why: Cause | None) -> Any:
        """Its answer, after the way there and back. The one who is dead waits for ever."""
        await self.tasks.sleep(self._latency_ms())
        answer = await wait(lambda wake: self._submit(client, command, why, wake))
        await self.tasks.sleep(self._latency_ms())
        return answer

    def send_leave(self, group_id: str, member_id: str, reason: str | None) -> None:
        """By the member or by an administrator, without waiting for the answer."""
        leaving = LeaveGroup(group_id, (LeavingMember(member_id, None, reason),))

        def arrive() -> None:
            node_id = self.broker.coordinator_of(group_id)
            self.broker.submit(node_id, leaving, lambda _result: None)

        self.schedule.after(self._latency_ms(), arrive)

    def _submit(self, client: Client, command: Any, why: Cause | None, wake: Any) -> None:
        if client.is_dead:
            return
        heard: list[Any] = []

        def respond(result: Any) -> None:
            client.parked = None
            heard.append(result)
            if type(command) is OffsetCommit and result.errors[0] is E.none:
                for entry, (offset,) in zip(command.entries, command.offsets, strict=True):
                    place = entry.topic, entry.partition
                    self._offsets[command.group_id, place] = offset
            # Never within the decision: what is woken may ask again.
            self.schedule.after(0, lambda: wake(result))

        if type(command) is JoinGroup:
            self._join(client, command, why, respond)
        else:
            self.broker.submit(client.node_id, command, respond)

    def _join(self, client: Client, command: JoinGroup, why: Cause | None, respond: Any) -> None:
        ledger, group = self.ledger(command.group_id), self.broker.group(command.group_id)
        asked = {why} if why is not None else set()
        if why is Cause.METADATA_CHANGED:  # as Kafka says of followers; of its leader otherwise
            asked.add(Cause.LEADER_REJOINED)
        is_in = group is not None and command.member_id in group.members
        if not is_in:
            ledger.came(client.place)
        elif why is not None:
            ledger.asked(*asked)
        generation = group.generation if group is not None else -1
        answers: list[Any] = []
        client.parked = None

        def answered(result: Any) -> None:
            answers.append(result)
            respond(result)

        ticket = self.broker.submit(client.node_id, command, answered)
        if not answers:
            client.parked = client.node_id, ticket
        is_unmoved = group is not None and group.state is State.STABLE
        if is_in and why is not None and is_unmoved and group.generation == generation:
            ledger.unasked(*asked)

    def _latency_ms(self) -> int:
        return self.chance.randint(1, self.setting.latency_ms)

    # --- what the coordinator decides

    def _hear(self, event: GroupEvent) -> None:
        ledger = self.ledgers.get(event.group_id)
        if ledger is None:
            return
        if event.type in (EventType.JOIN_COMPLETED, EventType.GROUP_EMPTIED):
            group = self.broker.group(event.group_id)
            members = [
                (each.member_id, (each.client_host, each.client_id))
                for each in group.members.values()
            ]
            ledger.completed(group.generation, group.protocol_name, members)
        elif event.type is EventType.MEMBER_REPLACED:
            place = str(event.client_host), str(event.client_id)
            successor = event.detail["successor"]
            ledger.took_place(event.generation or 0, event.member_id or "", successor, place)
        elif event.type is EventType.GROUP_DELETED:
            is_asked = event.group_id in self.deleting
            self.deleting.discard(event.group_id)
            ledger.ended(Cause.GROUP_DELETED if is_asked else Cause.GROUP_EXPIRED)
