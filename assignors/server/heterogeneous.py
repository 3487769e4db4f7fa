"""`uniform` if subscriptions differ (UniformHeterogeneousAssignmentBuilder).

Members keep partitions of topics to which they subscribe. Unassigned partitions go to the least
loaded subscriber. Then partitions of each topic move from the most to the least loaded subscriber.
Topics with the most partitions per subscriber come first, so that others can even out the load.
"""

from typing import Final

from ..ordering import table_size
from .hashing import TopicHashes, id_order
from .model import Members, Target, Topic, TopicId, Topics, check_partitions
from .targets import TargetCopy

MAX_ITERATION_COUNT: Final = 16  # as in Kafka, because later iterations move almost nothing
NOBODY: Final = -1


def assign_heterogeneous(members: Members, topics: Topics) -> dict[str, Target]:
    """Return the targets of all members."""
    builder = _Builder(members, topics)
    builder.assign_remaining()
    builder.balance()
    return builder.targets()


class _Topic:
    """A topic with its subscribers and the owners of its partitions. Members are numbers."""

    __slots__ = ("id", "owners", "subscribers")

    def __init__(self, topic: Topic) -> None:
        self.id = topic.id
        self.owners = [NOBODY] * topic.partitions
        self.subscribers: list[int] = []

    def weight(self) -> tuple[float, int, int]:
        subscribers = len(self.subscribers)
        return -len(self.owners) / subscribers, subscribers, id_order(self.id)

    def set_buckets(self) -> int:
        """Return the initial size of a member's set, with room for an equal share of partitions."""
        return table_size(-(-len(self.owners) // len(self.subscribers)))


class _Builder:
    def __init__(self, members: Members, topics: Topics) -> None:
        self._members = members
        self._targets = [member.target for member in members.values()]
        self._copies: dict[int, TargetCopy] = {}
        """The changed targets."""
        self._hashes = TopicHashes()
        self._loads = [0] * len(members)
        by_name = {name: _Topic(topic) for name, topic in topics.items()}
        by_id = {topic.id: topic for topic in by_name.values()}
        for number, member in enumerate(members.values()):
            for name in member.topics:
                if name in by_name:
                    by_name[name].subscribers.append(number)
            self._keep(number, member.target, by_id)
        subscribed = [topic for topic in by_name.values() if topic.subscribers]
        self._topics = sorted(subscribed, key=_Topic.weight)

    def _keep(self, number: int, target: Target, by_id: dict[TopicId, _Topic]) -> None:
        """Keep the partitions of topics to which the member still subscribes."""
        for topic_id, partitions in target.items():
            topic = by_id.get(topic_id)
            if topic is not None and topic.subscribers[-1:] == [number]:
                self._loads[number] += len(partitions)
                owners = topic.owners
                check_partitions(partitions, len(owners))
                for partition in partitions:
                    owners[partition] = number
            else:
                self._copy(number).remove_topic(topic_id)

    def _copy(self, number: int) -> TargetCopy:
        if number not in self._copies:
            self._copies[number] = TargetCopy(self._targets[number], self._hashes)
        return self._copies[number]

    def targets(self) -> dict[str, Target]:
        for number, copy in self._copies.items():
            self._targets[number] = copy.target()
        return dict(zip(self._members, self._targets, strict=True))

    def assign_remaining(self) -> None:
        """Assign partitions without an owner."""
        loads = self._loads
        for topic in self._topics:
            owners = topic.owners
            unassigned = [n for n, owner in enumerate(owners) if owner == NOBODY]
            if not unassigned:
                continue
            receivers = _LeastLoaded(_by_load(topic, loads), loads)
            received: dict[int, list[int]] = {}
            for partition in unassigned:
                owners[partition] = receiver = receivers.next()
                loads[receiver] += 1
                received.setdefault(receiver, []).append(partition)
            self._add(topic, received)

    def _add(self, topic: _Topic, received: dict[int, list[int]]) -> None:
        buckets = topic.set_buckets()
        for receiver, partitions in received.items():
            self._copy(receiver).add(topic.id, partitions, buckets)

    def balance(self) -> None:
        shared = [topic for topic in self._topics if len(topic.subscribers) > 1]
        last_moved: _Topic | None = None
        for topic in shared * MAX_ITERATION_COUNT:
            if topic is last_moved:
                return  # no topic has changed since this topic was balanced
            if self._balance(topic) or last_moved is None:
                last_moved = topic

    def _balance(self, topic: _Topic) -> bool:
        """Balance one topic. Return whether partitions have moved."""
        loads, owners = self._loads, topic.owners
        by_load = _by_load(topic, loads)
        if loads[by_load[-1]] - loads[by_load[0]] <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        givers, receivers = _MostLoaded(by_load, loads), _LeastLoaded(by_load, loads)
        given: dict[int, list[int]] = {}
        received: dict[int, list[int]] = {}
        while givers.load - receivers.load > 1:
            giver = givers.next(owned)
            if giver == NOBODY:
                break
            receiver = receivers.next()
            if givers.load - receivers.load <= 1:
                break
            partition = owned[giver].pop()
            owners[partition] = receiver
            loads[giver] -= 1
            loads[receiver] += 1
            given.setdefault(giver, []).append(partition)
            received.setdefault(receiver, []).append(partition)
        for giver, partitions in given.items():
            self._copy(giver).remove(topic.id, partitions)
        self._add(topic, received)
        return bool(given)


def _by_load(topic: _Topic, loads: list[int]) -> list[int]:
    return sorted(topic.subscribers, key=loads.__getitem__)


class _LeastLoaded:
    """The subscribers of one topic by increasing load. The caller assigns one partition to each
    member that `next` returns."""

    __slots__ = ("_by_load", "_end", "_loads", "_next", "load")

    def __init__(self, by_load: list[int], loads: list[int]) -> None:
        self._by_load, self._loads = by_load, loads
        self._next = self._end = 0
        self.load = loads[by_load[0]] - 1

    def next(self) -> int:
        if self._next == self._end:
            self.load += 1
            self._next = 0
            while (
                self._end < len(self._by_load)
                and self._loads[self._by_load[self._end]] == self.load
            ):
                self._end += 1
        member = self._by_load[self._next]
        self._next += 1
        return member


class _MostLoaded:
    """The subscribers of one topic by decreasing load. The caller takes one partition from each
    member that `next` returns."""

    __slots__ = ("_by_load", "_end", "_loads", "_next", "_start", "load")

    def __init__(self, by_load: list[int], loads: list[int]) -> None:
        self._by_load, self._loads = by_load, loads
        self._start = self._end = len(by_load)
        self._next = self._start - 1
        self.load = loads[by_load[-1]] + 1

    def next(self, owned: dict[int, list[int]]) -> int:
        """Return the next member that owns partitions, or NOBODY. Members without partitions are
        dropped from the level. As in Kafka, the last member of the level takes their place."""
        members = self._by_load
        while True:
            if self._next < self._start:
                self._next_level()
            if self._next < 0:
                return NOBODY
            member = members[self._next]
            self._next -= 1
            if owned.get(member):
                return member
            self._end -= 1
            members[self._next + 1], members[self._end] = members[self._end], member

    def _next_level(self) -> None:
        """Move to the next lower load. The level includes the members of the previous level, which
        now have one partition fewer, and the members that had this load before."""
        if self._start == self._end and self._start > 0:
            self.load = self._loads[self._by_load[self._start - 1]]
        else:
            self.load -= 1
        while self._start > 0 and self._loads[self._by_load[self._start - 1]] == self.load:
            self._start -= 1
        self._next = self._end - 1
