"""What a test holds of a scripted member."""

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, TypeVar

from ..waiting import TIMEOUT_SECONDS, BarrierTimeout
from .asking import Refusal
from .consumer import Consumer
from .member import Member

if TYPE_CHECKING:
    from ..kafka import Kafka

T = TypeVar("T")

TopicPartition = tuple[str, int]


class Puppet:
    """`kafka.puppet("billing", topics=["orders"])`: a member with no process behind it.

    It does what a client does, at once: joins, leads if it is the leader, rejoins when the group
    rebalances, finds its coordinator again, keeps its session as long as the broker's clock goes on
    or is advanced. Each method is one deviation from that."""

    def __init__(self, kafka: "Kafka", member: Member) -> None:
        self._kafka = kafka
        self._member = member
        self.client_id = member.identity.client_id
        self.instance_id = member.identity.instance_id

    # --- what it believes, once all that is under way has reached it

    @property
    def owned(self) -> list[TopicPartition]:
        """What it believes to own, sorted. Of a Connect worker (connector, task), with -1 for the
        connector itself."""
        return self._look(lambda: sorted(self._member.role.owned))

    @property
    def generation(self) -> int:
        """The last that it was in; -1: none yet."""
        return self._look(lambda: self._member.generation)

    @property
    def member_id(self) -> str:
        """The last that it was given; "": none yet, or it was told that it is no member."""
        return self._look(lambda: self._member.member_id)

    @property
    def errors(self) -> list[Refusal]:
        """Every error that it was answered: `("Heartbeat", "REBALANCE_IN_PROGRESS")`. (But
        MEMBER_ID_REQUIRED, which is half of a join.)"""
        return self._look(lambda: list(self._member.asking.errors))

    def wait_owned(
        self,
        what: int | Collection[TopicPartition] | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> list[TopicPartition]:
        """Until it owns so many partitions, or exactly these, or (None) any; returns which. Raises
        BarrierTimeout with the group's story, and what its assignor or a fatal error raised."""
        member, role = self._member, self._member.role
        owned: list[TopicPartition] = []

        def is_owned() -> bool:
            if member.failure is not None:
                return True
            # Kept as it is now: a moment later the group may be in its next round.
            owned[:] = role.owned
            if what is None:
                return bool(owned)
            if isinstance(what, int):
                return len(owned) == what
            return sorted(owned) == sorted(what)

        if not self._kafka.until(is_owned, timeout):
            wanted = "anything" if what is None else what
            story = self._kafka.group(member.identity.group_id).story()
            raise BarrierTimeout(
                f"{self} was waited for {timeout:g} s to own {wanted}, in vain.\n{story}"
            )
        if member.failure is not None:
            raise member.failure
        return sorted(owned)

    # --- the script

    def subscribe(self, topics: Iterable[str]) -> None:
        """Want these topics instead, and join again."""
        role = self._member.role
        if not isinstance(role, Consumer):
            raise TypeError("a Connect worker subscribes to nothing")
        wanted = tuple(topics)

        def subscribe() -> None:
            role.topics = wanted
            self._member.rejoin()

        self._do(subscribe)

    def commit(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        generation: int | None = None,
        member_id: str | None = None,
    ) -> str | None:
        """Returns None, or the error that it was answered: `ILLEGAL_GENERATION`. `generation` and
        `member_id`: other ones than it believes in."""
        if not self._member.is_present:
            raise RuntimeError(f"{self} is gone, and commits nothing")
        offsets = {(topic, partition): offset}
        return self._kafka.run(self._member.commit(offsets, generation, member_id))

    def slow(self) -> None:
        """From now on it does not rejoin, as a consumer that does not poll; it goes on sending
        heartbeats and believes to own what it owned."""
        self._do(lambda: setattr(self._member, "is_slow", True))

    def quick(self) -> None:
        """No longer `slow`: what it owes is done at once."""

        def quick() -> None:
            self._member.is_slow = False
            self._member.nudge()

        self._do(quick)

    def silence(self) -> None:
        """No heartbeats and no joins, as a process that is paused: a zombie, once its session is
        over. It can still `commit`."""
        self._do(self._member.pause)

    def speak(self) -> None:
        """The end of its silence: it goes on where it was, and is told what it has missed."""

        def speak() -> None:
            if self._member.is_present:
                self._member.nudge()
                self._member.live()

        self._do(speak)

    def die(self) -> None:
        """Its process is killed: its connection is gone, and it has not left the group."""
        self._do(self._member.vanish)

    def leave(self, reason: str | None = None) -> None:
        """Leave the group (LeaveGroup) and end; a static member, too."""

        async def leave() -> None:
            await self._member.leave(reason)
            await self._kafka.settled()

        self._kafka.run(leave())

    def come_back(self) -> None:
        """A new process, which knows nothing: as a static member it takes its old one's place under
        a new member id, else it is a new member. What still lives is killed first."""
        self._do(self._member.reborn)

    def close(self) -> None:
        """End as a consumer that is closed: one without instance id leaves the group."""
        if self.instance_id is None and self._look(lambda: self._member.is_alive):
            self.leave("the consumer is being closed")  # Java's words
        else:
            self.die()

    def __str__(self) -> str:
        return f"puppet {self.client_id} of {self._member.identity.group_id}"

    def __repr__(self) -> str:
        # Not asked on the broker's loop: a debugger may want it where that stands still.
        member = self._member
        owned = ", ".join(f"{topic}-{index}" for topic, index in sorted(member.role.owned))
        life = f"{_life_of(member)}, generation {member.generation}"
        return f"<{self}: {life}, owns {owned or 'nothing'}>"

    def _look(self, what: Callable[[], T]) -> T:
        async def look() -> T:
            await self._kafka.settled()
            return what()

        return self._kafka.run(look())

    def _do(self, what: Callable[[], object]) -> None:
        """And let what the broker makes of that happen: what a test asks next, of the group or of
        the history, is as if the member had done so long ago."""

        async def do() -> None:
            what()
            await self._kafka.settled()

        self._kafka.run(do())


def _life_of(member: Member) -> str:
    if not member.is_present:
        return "gone"
    if not member.is_alive:
        return "silent"
    return "slow" if member.is_slow else "alive"
