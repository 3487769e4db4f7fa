"""Those who are no members: an administrator, a consumer that assigns itself, and bad luck."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

from kohort.coordinator.commands import (
    DeleteGroup,
    OffsetDelete,
    OffsetFetch,
)
from kohort.topics.names import OFFSETS_TOPIC
from simulation.network import Link
from simulation.setting import FLEETING, TOPIC, TOPICS
from support.coordinator import offset_commit

if TYPE_CHECKING:
    from simulation.world import World

SOLO = "solo"  # the group of who assigns itself


class Outsider:
    """Does something every now and then, until all is calm."""

    def __init__(self, world: World, name: str, every_ms: int) -> None:
        self.world = world
        self.name = name
        self.chance = Random(f"{world.seed} {name}")
        self._every_ms = every_ms
        self._links: dict[int, Link] = {}  # of each node
        self._next()

    def _next(self) -> None:
        ms = int(self.chance.expovariate(1 / self._every_ms)) + 1
        self.world.schedule.after(ms, self._act)

    def _act(self) -> None:
        if not self.world.is_calm:
            self._next()
            self.act()

    def act(self) -> None:
        raise NotImplementedError

    def ask(self, command: Any) -> None:
        node_id = self.world.coordinator_of(command.group_id, self.chance)
        link = self._links.get(node_id)
        if link is None or not link.is_open:
            link = Link(self.world, self.name, self.chance, node_id, lambda: None)
            self._links[node_id] = link
        link.send(command, lambda _result: None)


class Loner(Outsider):
    """Commits without being a member, and reads what is committed."""

    def act(self) -> None:
        count = self.world.setting.topic_partitions
        if self.chance.random() < 0.3:
            self.ask(OffsetFetch(SOLO, None, False, None, -1))
            return
        topic = self.chance.choice(TOPICS)
        chosen = self.chance.sample(range(count), self.chance.randint(1, count))
        offsets = [(topic, partition, self.world.new_offset()) for partition in chosen]
        longest_ms = 2 * self.world.setting.config.offsets_retention_ms
        retention_ms = self.chance.choice([None, None, self.chance.randint(0, longest_ms)])
        self.ask(offset_commit(SOLO, offsets, retention_ms=retention_ms))


class Administrator(Outsider):
    """Looks at what is committed, and sometimes deletes it."""

    def act(self) -> None:
        group_id = self.chance.choice([*self.world.group_ids, SOLO])
        what = self.chance.random()
        if what < 0.6:
            self.ask(OffsetFetch(group_id, None, False, None, -1))
        elif what < 0.85:
            partition = self.chance.randrange(self.world.setting.topic_partitions)
            self.ask(OffsetDelete(group_id, ((self.chance.choice(TOPICS), (partition,)),)))
        else:
            self.world.deleted.add(group_id)
            self.ask(DeleteGroup(group_id))


class Killer(Outsider):
    """Ends lives of the broker: the process is killed, or the power goes, even in mid-write."""

    def act(self) -> None:
        world, chance = self.world, self.chance
        if world.life is None:
            return
        world.power_goes = world.setting.durability == "fsync" and chance.random() < 0.6
        world.down_ms = chance.choice([1, 300, 4_000])
        if chance.random() < 0.5:
            world.files.crash_at = world.files.count + chance.randint(0, 5)
        else:
            world.kill_broker()


class Saboteur(Outsider):
    """Lets the disk refuse for a while."""

    def act(self) -> None:
        world, chance = self.world, self.chance
        operation = chance.choice(["sync", "sync", "append", "append", "truncate", "open"])
        times, written = chance.choice([1, 1, 3, 1_000]), chance.choice([0, 0, 30])
        world.note("!", "disk", "fails %d times to %s", times, operation)
        world.files.fail(operation, after=chance.randint(0, 3), written=written, times=times)
        world.schedule.after(chance.choice([100, 3_000]), world.files.heal)


class Cutter(Outsider):
    """Cuts connections, and lets some fall silent without anybody being told."""

    def act(self) -> None:
        links = list(self.world.links)
        if not links:
            return
        link = self.chance.choice(links)
        if self.chance.random() < 0.7:
            self.world.note("!", "network", "cuts %s", link.who)
            link.cut()
        else:
            self.world.note("!", "network", "lets %s fall silent", link.who)
            link.is_silent = True


class Operator(Outsider):
    """Lets other nodes lead, stops nodes and starts them again; with one node, there and back."""

    def act(self) -> None:
        world, chance = self.world, self.chance
        life, what = world.life, chance.random()
        if life is None or world.setting.nodes == 1:
            return
        nodes = life.topics.nodes
        node_id = chance.choice(nodes.ids)
        if node_id not in nodes.up:
            life.start_node(node_id)
        elif what < 0.3:
            world.note("!", f"node {node_id}", "stops")
            life.stop_node(node_id)
            world.schedule.after(
                chance.choice([1, 3_000, 20_000]), lambda: life.start_node(node_id)
            )
        else:
            topic = chance.choice([OFFSETS_TOPIC, OFFSETS_TOPIC, TOPIC])
            index = chance.randrange(len(life.topics.get(topic).partitions))
            world.note("!", f"node {node_id}", "is to lead %s-%d", topic, index)
            life.move(topic, index, node_id)


class Owner(Outsider):
    """Deletes a topic, and makes one of the same name."""

    def act(self) -> None:
        life = self.world.life
        if life is None or life.topics.is_being_deleted(FLEETING):
            return
        topic = life.topics.get(FLEETING)
        if topic is None:
            with suppress(OSError):  # the disk does not let go of the old one: another time
                life.make_topic(FLEETING)
        else:
            self.world.note("!", "owner", "deletes %s", FLEETING)
            it_stays = self.world.invariants.commits.topic_deleted(FLEETING)
            life.topics.delete(topic, lambda error: error and it_stays())


OUTSIDERS: dict[str, Callable[[World], Outsider]] = {
    "loner": lambda world: Loner(world, "loner", 1_000),
    "admin": lambda world: Administrator(world, "admin", 3_000),
    "killer": lambda world: Killer(world, "killer", 2 * world.setting.faults_ms),
    "saboteur": lambda world: Saboteur(world, "saboteur", 2 * world.setting.faults_ms),
    "operator": lambda world: Operator(world, "operator", world.setting.faults_ms),
    "owner": lambda world: Owner(world, "owner", world.setting.faults_ms),
    "cutter": lambda world: Cutter(world, "cutter", world.setting.faults_ms),
}
