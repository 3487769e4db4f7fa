"""Run the groups of a world: scripted actions, each of which records its expected causes."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from kohort.assignors.resolve import BUILTIN
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import DeleteGroup
from kohort.offsets.causes import Cause
from truth.clients import BY_ADMIN, Client
from truth.world import GroupSetting, World

Action = Callable[[], Coroutine[Any, Any, None]]

# A rebalance may wait for the slowest poll before the group settles.
SETTLE_TIMEOUT_MS = 30 * 60_000
# Probability that an action starts before the previous one has taken effect.
OVERLAP_PROBABILITY = 0.12


class Slot:
    """A host and client id of a group, and the process that uses them, if any."""

    def __init__(self, number: int, client_id: str, host: str, instance_id: str | None) -> None:
        self.number = number
        self.place = (host, client_id)
        self.instance_id = instance_id
        self.client: Client | None = None


class GroupScript:
    def __init__(self, world: World, setting: GroupSetting) -> None:
        self.world, self.setting = world, setting
        self.group_id = setting.group_id
        self.oracle = world.oracle(self.group_id)
        self.chance = Random(f"{world.seed} {self.group_id}")
        self.topics = setting.topics
        self.assignors = setting.assignors
        self._slots: list[Slot] = []
        self.done: list[str] = []
        """The names of the actions run so far."""

    # --- the script

    async def run(self) -> None:
        for _ in range(self.setting.size):
            await self._pause(0, 5)
            self._start(self._new_slot())
        await self._settled()
        for name in self.setting.plan or [None] * self.setting.actions:
            await self._pause(15, 90)
            action = self.chance.choice(self._possible()) if name is None else getattr(self, name)
            self.done.append(action.__name__)
            await action()
            if not self.setting.plan and self.chance.random() < OVERLAP_PROBABILITY:
                await self._pause(0, 5)
            else:
                await self._settled()
        await self._settled()
        await self._pause(15, 90)

    async def close_all(self) -> None:
        for slot in self._running():
            await self._close(slot)
            await self._pause(0, 5)

    def _possible(self) -> list[Action]:
        running = len(self._running())
        if not running:
            return [self.start_all]
        actions = 2 * [self.slow_poll, self.crash, self.stall] + [self.grow, self.scale_out]
        actions += [self.subscribe, self.enforce, self.all_leave, self.roll_protocol]
        if self.setting.is_static:
            actions += [self.static_restart, self.static_restart, self.static_restart]
        else:
            actions += [self.leave, self.leave, self.restart, self.restart, self.deploy]
            actions += [self.remove, self.crash_and_back, self.storm, self.slow_poll]
        if self.world.setting.nodes > 1:
            actions.append(self.move)
        return actions

    # --- actions

    async def slow_poll(self) -> None:
        """Process records for longer than max.poll.interval.ms."""
        client = self._client(self._choose())
        # Often only slightly longer, so that the member rejoins during the rebalance.
        longer = self.chance.choice((1.0, 1.05, self.chance.uniform(1.05, 2.0)))
        client.slow_ms = round(client.max_poll_ms * longer) + self.chance.randint(1_000, 5_000)
        # During a rebalance the coordinator waits no longer than the rebalance timeout.
        causes = {Cause.SLOW_POLL, Cause.REBALANCE_TIMEOUT}
        back = set[Cause]()
        if client.instance_id is not None:
            # It sends no LeaveGroup, only stops its heartbeats; if it rejoins before its session
            # expires, it gets a new member id.
            causes.add(Cause.SESSION_TIMEOUT)
            back.add(Cause.STATIC_REPLACED)
        self.oracle.expect_exit(client.member_id, client.place, causes, causes | back)

    async def crash(self) -> None:
        self._kill(self._choose())

    async def crash_and_back(self) -> None:
        slot = self._choose()
        self._kill(slot)
        await self._pause(1, 20)
        self._start(slot)

    async def stall(self) -> None:
        client = self._client(self._choose())
        timeout = {Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT}
        self.oracle.expect_exit(client.member_id, client.place, timeout)
        client.stall(round(client.session_ms * self.chance.uniform(1.5, 3)))

    async def leave(self) -> None:
        await self._close(self._choose())

    async def restart(self) -> None:
        await self._restart(self._choose(), 12)

    async def deploy(self) -> None:
        for slot in self._running():
            await self._restart(slot, 8)
            await self._pause(3, 25)

    async def static_restart(self) -> None:
        """Restart a static member before its session expires: no rebalance."""
        slot = self._choose()
        if self.chance.random() < 0.5:
            await self._close(slot)
        else:
            self._kill(slot)
        await self._pause(0.2, self.setting.session_ms / 1_000 / 2)
        self._start(slot)

    async def scale_out(self) -> None:
        for _ in range(self.chance.choice((1, 1, 2))):
            self._start(self._new_slot())

    async def subscribe(self) -> None:
        """Subscribe one process to other topics, as a new version of a program does."""
        names = [each.name for each in self.world.setting.topics]
        client = self._client(self._choose())
        topics = sorted(self.chance.sample(names, self.chance.randint(1, len(names))))
        if set(topics) != set(client.role.topics):
            client.subscribe(topics)

    async def grow(self) -> None:
        topic = self.world.broker.topics.get(self.chance.choice(self.topics))
        assert topic is not None
        self.world.broker.topics.add_partitions(
            topic, len(topic.partitions) + self.chance.randint(1, 3)
        )
        await self.world.tasks.sleep(self.setting.metadata_ms + 10_000)

    async def enforce(self) -> None:
        """Have the leader request a rebalance."""
        for slot in self._running():
            if self._client(slot).leads:
                self._client(slot).enforce_rebalance()

    async def remove(self) -> None:
        """Remove a member as an admin client does; it rejoins immediately."""
        client = self._client(self._choose())
        self.oracle.expect_exit(client.member_id, client.place, {Cause.REMOVED_BY_ADMIN})
        self.world.send_leave(self.group_id, client.member_id, BY_ADMIN)

    async def storm(self) -> None:
        """Make the leader slow to assign, while members join and leave."""
        for slot in self._running():
            self._client(slot).lead_ms = self.chance.randint(1_000, 4_000)
        for _ in range(self.chance.randint(3, 6)):
            slot = self._new_slot()
            self._start(slot)
            await self._pause(2, 9)
            await self._close(slot)
            await self._pause(0, 3)
        for slot in self._running():
            self._client(slot).lead_ms = 0

    async def all_leave(self) -> None:
        for slot in self._running():
            await self._close(slot)
            await self._pause(0, 2)
        await self._settled()
        await self._pause(5, 60)
        if self.chance.random() < 0.4:
            self.world.deleting.add(self.group_id)
            node_id = self.world.broker.leader_of(self.group_id)
            self.world.broker.submit(node_id, DeleteGroup(self.group_id), lambda _result: None)
            await self._pause(5, 60)

    async def start_all(self) -> None:
        for _ in range(self.setting.size):
            self._start(self._new_slot())
            await self._pause(0, 3)

    async def roll_protocol(self) -> None:
        """Restart one process after another with a new preferred assignor."""
        new = self.chance.choice(("range", "roundrobin", "sticky"))
        if self.setting.is_cooperative or new in self.assignors:
            await self.scale_out()
        else:
            self.assignors = (new, *self.assignors)
            await self.deploy()

    async def move(self) -> None:
        """Move the coordinator to another node, which must have no effect."""
        self.world.broker.move_coordinator(self.group_id)

    # --- processes

    def _new_slot(self) -> Slot:
        number = len(self._slots) + 1
        group = sum(self.group_id.encode()) % 200
        instance_id = f"{self.group_id}-i{number}" if self.setting.is_static else None
        client_id = self.setting.client_id.format(number)
        slot = Slot(number, client_id, f"/10.0.{group}.{number}", instance_id)
        self._slots.append(slot)
        return slot

    def _start(self, slot: Slot) -> None:
        assignors = [BUILTIN[name] for name in self.assignors]
        slot.client = Client(self.world, self.setting, slot.place, assignors, slot.instance_id)

    async def _restart(self, slot: Slot, most_s: float) -> None:
        await self._close(slot)
        await self._pause(0.2, most_s)
        self._start(slot)

    def _running(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.client is not None]

    def _choose(self) -> Slot:
        return self.chance.choice(self._running())

    def _client(self, slot: Slot) -> Client:
        assert slot.client is not None
        return slot.client

    def _kill(self, slot: Slot) -> None:
        client, slot.client = self._client(slot), None
        # During a rebalance the coordinator waits for the member until the rebalance timeout.
        timeout = {Cause.SESSION_TIMEOUT, Cause.REBALANCE_TIMEOUT}
        back = {*timeout, Cause.RESTARTED}
        if client.instance_id is not None:
            back.add(Cause.STATIC_REPLACED)
        client.kill()
        self._expect_exit(client, client.member_id, timeout, back)

    async def _close(self, slot: Slot) -> None:
        """Close a consumer. A static member sends no LeaveGroup: its session expires."""
        client, slot.client = self._client(slot), None
        if client.instance_id is None:
            causes, back = {Cause.LEFT_CLEANLY}, {Cause.RESTARTED}
        else:
            causes = {Cause.SESSION_TIMEOUT}
            back = {Cause.SESSION_TIMEOUT, Cause.RESTARTED, Cause.STATIC_REPLACED}
        member_id = client.member_id
        await client.close()
        self._expect_exit(client, member_id, causes, back)

    def _expect_exit(
        self, client: Client, member_id: str, causes: set[Cause], back: set[Cause]
    ) -> None:
        group = self.world.broker.group(self.group_id)
        if group is not None and member_id in group.members:
            self.oracle.expect_exit(member_id, client.place, causes, back)
        else:
            self.oracle.cancel_join(client.place)

    # --- time

    async def _pause(self, least_s: float, most_s: float) -> None:
        await self.world.tasks.sleep(self.chance.uniform(least_s, most_s) * 1_000)

    async def _settled(self) -> None:
        """Wait until all actions have taken effect and all members are idle."""
        limit_ms = self.world.now_ms() + SETTLE_TIMEOUT_MS
        while (reason := self._unsettled_reason()) is not None:
            assert self.world.now_ms() < limit_ms, f"{self.group_id}, {self.done}: {reason}"
            await self.world.tasks.sleep(1_000)

    def _unsettled_reason(self) -> str | None:
        if self.oracle.pending is not None:
            return self.oracle.pending
        group = self.world.broker.group(self.group_id)
        if group is not None and group.state not in (State.STABLE, State.EMPTY):
            return f"the group is in state {group.state}"
        for slot in self._running():
            client = self._client(slot)
            if not client.is_settled or group is None or client.generation != group.generation:
                return f"{client} is in generation {client.generation}"
        return None


def run_world(world: World) -> None:
    """Run all scripts to their ends. Raises any exception of a client or a script."""
    scripts = [GroupScript(world, each) for each in world.setting.groups]
    world.start_producers()
    running = [world.tasks.start_task(script.run()) for script in scripts]
    world.run_until(lambda: all(task.is_over for task in running))
    if world.setting.has_idle_end:
        for script in scripts:
            world.tasks.start_task(script.close_all())
        world.idle()
