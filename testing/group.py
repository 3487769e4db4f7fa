"""One consumer group, as a test asks about it and waits for it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from ..broker.cluster import Node
from ..broker.context import CoordinatorContext
from ..coordinator.classic.group import Group as Known
from ..coordinator.classic.states import STABLE
from ..coordinator.coordinator import Coordinator
from ..topics.names import OFFSETS_TOPIC
from .asked import Asked, TopicPartition, nearest
from .choreography import Hold, Loading, evict, expire, rebalance
from .happened import Commit, Exit, Generation
from .members import Member, given_back, members_of, there_is
from .progress import Progress
from .story import explain, tell
from .waiting import TIMEOUT_SECONDS, BarrierTimeout, may_wait

if TYPE_CHECKING:
    from .kafka import Kafka

T = TypeVar("T")


class Group(Progress):
    """`kafka.group("billing")`. It need not exist yet, and one such object may be kept.

    Every wait takes a `timeout` in seconds of wall time and raises BarrierTimeout, whose message
    is the group's story."""

    def __init__(self, kafka: "Kafka", group_id: str) -> None:
        self.kafka = kafka
        self.group_id = group_id

    def __repr__(self) -> str:
        # Not asked on the broker's loop: a debugger may want it where that stands still.
        if not self.kafka.broker.is_running:
            return f"<group {self.group_id}>"
        return f"<group {self.group_id}: {self._state()}, generation {self._generation()}>"

    # --- what it is

    @property
    def state(self) -> str:
        """Kafka's name: Empty, PreparingRebalance, CompletingRebalance, Stable, or Dead for a group
        that does not exist."""
        return self._look(self._state)

    @property
    def generation(self) -> int:
        """0 before the first."""
        return self._look(self._generation)

    @property
    def members(self) -> list[Member]:
        """In the order in which they came."""
        return self._look(self._members)

    @property
    def node_id(self) -> int:
        """The node that coordinates it."""
        return self._look(lambda: self.node.node_id)

    def owner(self, topic: str, partition: int) -> Member | None:
        """Who was assigned this partition."""
        wanted = (topic, partition)
        return next((each for each in self.members if wanted in each.partitions), None)

    @property
    def commits(self) -> list[Commit]:
        """Every accepted commit since the broker was started."""
        return self.kafka.history.commits(self.group_id)

    @property
    def generations(self) -> list[Generation]:
        """Every round that came to its end since the broker was started, with its cause."""
        return self.kafka.history.generations(self.group_id)

    @property
    def exits(self) -> list[Exit]:
        """Every member that is out, and why."""
        return self.kafka.history.exits(self.group_id)

    def explain(self) -> str:
        """One sentence: what the group waits for, which timer runs, how long it still does; and
        one each on requests of it that the test holds, and on members that its faults have cost."""
        return self._look(lambda: self._said(explain))

    def story(self) -> str:
        """All that can be said of it, over several lines."""
        return self._look(self._tell)

    # --- waiting

    def wait_stable(self, members: int | None = None, timeout: float = TIMEOUT_SECONDS) -> Self:
        """Until it is Stable (with so many members), each of them has its assignment, and none has
        to join again for having given something up: cooperative rebalancing takes two rounds."""
        with_members = "" if members is None else f" with {members} member{'s' * (members != 1)}"
        self._wait(lambda: self._is_stable(members), f"to be Stable{with_members}", timeout)
        return self

    def wait_generation(self, generation: int, timeout: float = TIMEOUT_SECONDS) -> Self:
        """Until it is in this generation or a later one."""
        self._wait(
            lambda: self._generation() >= generation,
            f"to reach generation {generation}",
            timeout,
        )
        return self

    def wait_owner(
        self, topic: str, partition: int, who: str | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> Member:
        """Until the group is Stable and the partition belongs to `who`: a member id, an instance
        id, a client id (None: anybody)."""

        def owner() -> Member | None:
            if self._state() != STABLE:
                return None
            for member in self._members():
                if (topic, partition) in member.partitions:
                    return member if who is None or member.is_called(who) else None
            return None

        what = f"to give {topic}-{partition} to {who or 'somebody'}"
        return self._wait(owner, what, timeout, (topic, partition), who)

    def wait_committed(
        self,
        topic: str,
        partition: int,
        offset: int | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> int:
        """Until this offset, or a later one, is committed (None: any); returns what is."""

        def committed() -> tuple[int] | None:
            found = None if self._is_being_written() else self._committed(topic, partition)
            return None if found is None or (offset is not None and found < offset) else (found,)

        what = "any offset" if offset is None else f"offset {offset}"
        what = f"to have {what} of {topic}-{partition} committed"
        return self._wait(committed, what, timeout, (topic, partition))[0]

    def wait_empty(self, timeout: float = TIMEOUT_SECONDS) -> Self:
        """Until it has no members."""
        self._wait(lambda: self._state() in ("Empty", "Dead"), "to be Empty", timeout)
        return self

    def wait_gone(self, timeout: float = TIMEOUT_SECONDS) -> None:
        """Until there is no such group: deleted, or expired with the last of its offsets."""
        self._wait(lambda: self._state() == "Dead", "to be gone", timeout)

    # --- making it do something

    def rebalance(self, reason: str = "requested by a test") -> None:
        """Open a round: members find out with their next heartbeat. Nothing, where one is open."""
        rebalance(self, reason, None)

    def lead(self, who: str) -> None:
        """Open a round that `who` leads: a member id, an instance id, a client id. Raises
        ValueError unless it is one member's, here and below."""
        rebalance(self, f"{who} is to lead", self._one(who))

    def expire(self, who: str) -> None:
        """End its session now; it finds out as it would from Kafka, if it is still alive."""
        expire(self, self._one(who))

    def evict(self, who: str, reason: str = "requested by a test") -> None:
        """Remove it as an administrator does. Raises ValueError, too, where that is refused."""
        evict(self, self._one(who), reason)

    def hold_joins(self) -> Hold:
        """Keep the round open: who joins waits at the door until the hold is released. It opens no
        round: of a group that is stable `rebalance` does."""
        return Hold(self.kafka, "JoinGroup", self.group_id)

    def hold_syncs(self) -> Hold:
        """Keep the members without their assignment: the leader's SyncGroup waits, too."""
        return Hold(self.kafka, "SyncGroup", self.group_id)

    def loading(self) -> Loading:
        """Let its coordinator read its log anew, until `finish`; clients are refused meanwhile."""
        return Loading(self)

    def move_to(self, node_id: int) -> None:
        """Let another node coordinate it; the old one answers NOT_COORDINATOR."""

        def move() -> None:
            self.kafka.broker.node.topics.ensure_offsets_topic()
            index = self.node.coordinators.partition_of(self.group_id)
            self.kafka.broker.cluster.move(OFFSETS_TOPIC, index, node_id)

        self.kafka.change(move)

    def _one(self, who: str) -> Member:
        members = self.members
        found = [member for member in members if member.is_called(who)]
        if len(found) != 1:
            many = "more than one" if found else "no"
            raise ValueError(f"{self.group_id} has {many} member {who}{there_is(members)}")
        return found[0]

    def _wait(
        self,
        check: Callable[[], T | None],
        what: str,
        timeout: float,
        place: TopicPartition | None = None,
        who: str | None = None,
    ) -> T:
        """`check` is asked on the broker's loop after whatever happens there. `place` and `who`:
        what it is about."""
        may_wait()
        found, story = self.kafka.run(self._until(check, timeout), timeout + TIMEOUT_SECONDS)
        if found is None:
            missing = "" if place is None else self._look(lambda: self._missing(*place, who))
            raise BarrierTimeout(
                f"{self.group_id} was waited for {timeout:g} s {what}, in vain.{missing}\n{story}"
            )
        return found

    async def _until(self, check: Callable[[], T | None], timeout: float) -> tuple[T | None, str]:
        found = await self.kafka.once(check, timeout)
        await self.kafka.there()
        return (found, "") if found is not None else (None, self._tell())

    # --- on the broker's loop

    def _look(self, what: Callable[[], T]) -> T:
        return self.kafka.ask(lambda _broker: what())

    @property
    def node(self) -> Node:
        """Its coordinator's; the first one where the group's partition was never used. On the
        broker's loop."""
        node = self.kafka.broker.node
        index = node.coordinators.partition_of(self.group_id)
        return self.kafka.broker.cluster.leader_of(OFFSETS_TOPIC, index) or node

    @property
    def _context(self) -> CoordinatorContext | None:
        groups = self.node.coordinators
        return groups.contexts.get(groups.partition_of(self.group_id))

    @property
    def _coordinator(self) -> Coordinator | None:
        context = self._context
        return None if context is None else context.coordinator

    @property
    def known(self) -> Known | None:
        coordinator = self._coordinator
        return None if coordinator is None else coordinator.groups.get(self.group_id)

    def _state(self) -> str:
        known, coordinator = self.known, self._coordinator
        if known is not None:
            return str(known.state)
        has_offsets = coordinator is not None and coordinator.offsets.has_group(self.group_id)
        return "Empty" if has_offsets else "Dead"

    def _generation(self) -> int:
        return 0 if (known := self.known) is None else known.generation

    def _is_stable(self, members: int | None) -> bool:
        known = self.known
        return (
            known is not None
            and known.state is STABLE
            and not known.pending_syncs
            and members in (None, len(known.members))
            and not given_back(known)
        )

    def _members(self) -> list[Member]:
        return [] if (known := self.known) is None else members_of(known)

    def _missing(self, topic: str, partition: int, who: str | None) -> str:
        """A sentence where there is no such partition or member, and so nothing to come of it."""
        topics = self.kafka.broker.node.topics
        found = topics.get(topic)
        if found is None:
            return f" There is no topic {topic}{nearest(topic, (each.name for each in topics))}"
        if found.partition(partition) is None:
            return f" There is no partition {topic}-{partition}: they count from 0."
        members = self._members()
        if who is not None and not any(each.is_called(who) for each in members):
            return f" {self.group_id} has no member {who}{there_is(members)}."
        return ""

    def _tell(self) -> str:
        return self._said(tell)

    def _said(self, say: Callable[[Coordinator | None, str, int, Sequence[Asked]], str]) -> str:
        requests = [each for each in self.kafka.history.requests if self.group_id in each.groups]
        return say(self._coordinator, self.group_id, self.kafka.clock.now_ms, requests)
