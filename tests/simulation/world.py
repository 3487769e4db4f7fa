"""A whole world from one seed: consumers, a network, a disk and a broker that is the real one but
for its files, clock, ids and sockets. The same seed gives the same story, event for event.

    World(seed).run()       raises Violation, whose last lines are what led to it: `World.story`

First comes chaos, then calm: the disk is well, the network too, on each seat sits one good
consumer. Then everything must have come to rest within a bound, and stay so. At last all go home,
days pass, and nothing may be left.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kohort.coordinator.classic.states import State
from kohort.log.errors import LogError
from kohort.offsets.partitioner import partition_for
from kohort.testing.faulty_files import Crashed, FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC
from kohort.topics.topic import NO_LEADER
from simulation.invariants import Invariants
from simulation.network import Link, Request
from simulation.outsiders import OUTSIDERS
from simulation.schedule import Schedule
from simulation.seats import SeatHolder
from simulation.server import DATA, Life
from simulation.setting import FLEETING, TOPICS, draw
from simulation.violation import Violation

SETTLE_MS = 1_000  # for whatever a broker does at its start, if nothing disturbs it


class World:
    """`without` leaves out actors (seats and outsiders, by name); `chaos_ms` ends chaos early."""

    def __init__(
        self, seed: int, *, without: frozenset[str] = frozenset(), chaos_ms: int | None = None
    ) -> None:
        self.seed = seed
        self.setting = draw(seed)
        self.chaos_ms = self.setting.chaos_ms if chaos_ms is None else chaos_ms
        self.schedule = Schedule()
        self.files = FaultyFiles()
        self.files.make_folder(DATA)
        self.files.sync_folder(DATA.parent)
        self.trace: list[tuple[int, str, str, str, tuple[Any, ...]]] = []
        self.links: dict[Link, None] = {}  # those that the broker knows of
        self.is_calm = False
        self.is_night = False  # everybody has gone home
        self.latency_ms = self.setting.latency_ms
        self.power_goes = False  # with the next crash, not just the process
        self.down_ms = 0
        self.deleted: set[str] = set()  # groups that somebody asked to delete
        self._chance = Random(f"{seed} world")
        self._numbers = {"id": 0, "offset": 0, "request": 0, "life": 0}
        self.invariants = Invariants(self)
        self.life: Life | None = None
        self._start_broker()
        self._make_topics()
        self.actors = [name for name in self._actor_names() if name not in without]
        self.seats = [
            SeatHolder(self, seat) for seat in self.setting.seats if seat.name in self.actors
        ]
        self._outsiders = [make(self) for name, make in OUTSIDERS.items() if name in self.actors]

    def _actor_names(self) -> list[str]:
        return [*OUTSIDERS, *(seat.name for seat in self.setting.seats)]

    # --- what actors ask for

    @property
    def group_ids(self) -> list[str]:
        return sorted({seat.group_id for seat in self.setting.seats})

    def session_ms(self, who: str) -> int:
        """Of the seat of a consumer, by the consumer's name."""
        return next(s.session_ms for s in self.setting.seats if who.startswith(f"{s.name}."))

    def partition_of(self, group_id: str) -> int:
        return partition_for(group_id, self.setting.offsets_partitions)

    def coordinator_of(self, group_id: str, chance: Random) -> int:
        """The node that FindCoordinator names, or, sometimes, one that it named long ago."""
        if self.life is None:
            return NO_LEADER
        nodes = self.setting.nodes
        if nodes > 1 and chance.random() < 0.1:
            return chance.randint(1, nodes)
        return self.life.leader_of(group_id)

    def new_id(self) -> str:
        return str(self._number("id"))

    def new_offset(self) -> int:
        """One of its own for each commit, so that what is read tells who wrote it."""
        return self._number("offset")

    def new_request(self, who: str, link: Link, command: Any, on_answer: Any) -> Request:
        return Request(self._number("request"), who, link, command, on_answer)

    def _number(self, of: str) -> int:
        self._numbers[of] += 1
        return self._numbers[of]

    def note(self, sign: str, who: str, text: str, *details: Any) -> None:
        """A line of the story: `<` asked, `>` answered, `=` state, `!` trouble."""
        self.trace.append((self.schedule.now_ms(), sign, who, text, details))

    def story(self) -> list[str]:
        start_ms = self.schedule.start_ms
        return [
            f"{ms - start_ms:>6} {sign} {who}: {text % details if details else text}"
            for ms, sign, who, text, details in self.trace
        ]

    # --- the broker's lives

    def _start_broker(self) -> None:
        if self.life is not None:
            return
        number = self._number("life")
        self.note("=", "broker", "starts for the %d. time", number)
        try:
            self.life = Life(self, number)
        except (OSError, LogError) as error:
            self.note("!", "broker", "cannot start: %s", error)
            self.schedule.after(SETTLE_MS, self._start_broker)
        else:
            self.invariants.broker_started(self.life)

    def _make_topics(self) -> None:
        """Before anybody comes: who asks for a coordinator is answered when there is one."""
        assert self.life is not None
        topics = self.life.topics
        topics.create(OFFSETS_TOPIC, self.setting.offsets_partitions, {})
        for name in TOPICS:
            topics.create(name, self.setting.topic_partitions, {})
        self._run_until(self.schedule.now_ms() + SETTLE_MS)

    def kill_broker(self) -> None:
        """Or the attempt to start it."""
        life, self.life = self.life, None
        self.note("!", "broker", "dies, with the power" if self.power_goes else "is killed")
        if life is not None:
            life.is_over = True
        if self.power_goes:
            self.files.crash(self._chance)
        else:
            self.files.crash_at = None
        self.power_goes = False
        self.invariants.broker_died()
        for link in list(self.links):
            link.broker_died()
        self.schedule.after(self.down_ms, self._start_broker)

    # --- the story

    def run(self) -> None:
        start_ms = self.schedule.now_ms()
        self._run_until(start_ms + self.chaos_ms)
        self._calm_down()
        self._come_to_rest(self.schedule.now_ms() + self.setting.bound_ms)
        self._check_owners()
        self._days_pass()

    def _come_to_rest(self, bound_ms: int) -> None:
        """By then all is as it will stay. Before, groups may rest and stir again: a debt that
        nobody can pay (replacing.py), the last session of somebody who is gone."""
        quiet_ms = 2 * max((seat.seat.session_ms for seat in self.seats), default=1_000)
        while True:
            since_ms, generations = self.schedule.now_ms(), self._generations()
            unrest = self._unrest()
            self._run_until(since_ms + (quiet_ms if unrest is None else 500))
            if unrest is None:
                unrest = self._unrest()
                if unrest is None and self._generations() == generations:
                    self.invariants.check_nobody_waits(since_ms)
                    return
            if since_ms >= bound_ms:
                raise Violation(
                    f"I5: no rest {self.setting.bound_ms} ms after the last fault: "
                    f"{unrest or generations}"
                )

    def _generations(self) -> list[int | None]:
        return [seat.consumer and seat.consumer.generation for seat in self.seats]

    def _run_until(self, ms: int) -> None:
        while (event := self.schedule.next_due(ms)) is not None:
            try:
                event()
            except Crashed:
                self.kill_broker()
            except Violation:
                raise
            except Exception as error:
                raise Violation(f"I5: {type(error).__name__}: {error}") from error

    def _calm_down(self) -> None:
        self.note("=", "world", "calms down")
        self.is_calm = True
        self.latency_ms = min(self.latency_ms, 10)
        self.files.heal()
        self.files.crash_at = None
        self._start_broker()
        assert self.life is not None
        for node_id in self.life.topics.nodes.ids:
            self.life.start_node(node_id)
        for link in list(self.links):
            if link.is_silent:
                link.cut()
        for seat in self.seats:
            seat.calm_down()

    def _unrest(self) -> str | None:
        """Why the groups are not at rest; None when they are."""
        assert self.life is not None
        topics = self.life.topics
        if topics.is_being_deleted(FLEETING) and topics._registry_log.failed is None:
            return f"{FLEETING} is still being deleted"
        for group_id in self.group_ids:
            shard = self.life.shard_of(group_id)
            group = None if shard is None else shard.coordinator.groups.get(group_id)
            seats = [seat for seat in self.seats if seat.seat.group_id == group_id]
            if not seats:
                if group is not None and group.state is not State.EMPTY:
                    return f"{group_id} is {group.state}, and has nobody"
                continue
            consumers = [seat.consumer for seat in seats]
            if group is None or group.state is not State.STABLE:
                return f"{group_id} is {None if group is None else group.state}"
            for consumer in consumers:
                if consumer is None or consumer.phase != "stable":
                    return f"{group_id}: {consumer and (consumer.name, consumer.phase)}"
                if consumer.generation != group.generation:
                    return f"{consumer.name} is at {consumer.generation} of {group.generation}"
            if group.members.keys() != {c.member_id for c in consumers if c is not None}:
                return f"{group_id} has members {list(group.members)}"
        return None

    def _check_owners(self) -> None:
        for group_id in self.group_ids:
            consumers = [s.consumer for s in self.seats if s.seat.group_id == group_id]
            owned = sorted(p for c in consumers if c is not None for p in c.owned)
            if consumers and owned != list(range(self.setting.topic_partitions)):
                raise Violation(f"I1: of {group_id} are owned {owned}, once all is calm")

    def _restart(self) -> None:
        """What the broker leaves on the disk is all there, even if the power goes."""
        self.power_goes = self.setting.durability == "fsync"
        self.down_ms = 0
        self.kill_broker()
        self._run_until(self.schedule.now_ms() + SETTLE_MS)

    def _days_pass(self) -> None:
        """Nobody is there any more: in the end the broker knows of no group, and so does the disk,
        whatever happened meanwhile."""
        self.note("=", "world", "goes home")
        self.is_night = True
        for seat in self.seats:
            seat.go_home()
        self._run_until(self.schedule.now_ms() + self.setting.night_ms)
        self._restart()
        config = self.setting.config
        # What brought a retention time of its own may have brought twice the usual.
        ms = 2 * config.offsets_retention_ms + 3 * self.setting.retention_check_interval_ms
        self._run_until(self.schedule.now_ms() + self.setting.bound_ms + ms)
        self._check_nothing_is_left()
        self._restart()
        self._check_nothing_is_left()

    def _check_nothing_is_left(self) -> None:
        assert self.life is not None
        self.invariants.check_nothing_is_left(self.life)
