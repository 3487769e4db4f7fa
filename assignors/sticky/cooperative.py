"""`cooperative-sticky` (CooperativeStickyAssignor, KIP-429): nothing stops that need not.

What changes hands is given to nobody in the first round. Its owner sees that it is gone, gives it
back and joins again, and the second round gives it to its new owner.

Seen from what is left then, a group with racks or unequal subscriptions may be balanced better by
yet another move: upstream makes it, and a third round, and so on. Here the first round looks ahead
to the second, and takes back at once what would be taken back then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..model import Assignment, Assignor, Subscription, TopicPartition, Topics
from .round import Round, sticky_round
from .user_data import Owned, cooperative_bytes, read_cooperative


class CooperativeSticky(Assignor):
    name = "cooperative-sticky"
    cooperative = True

    def user_data(
        self,
        topics: Sequence[str],  # noqa: ARG002
        owned: Sequence[TopicPartition],  # noqa: ARG002
        generation: int | None,
    ) -> bytes:
        return cooperative_bytes(generation)

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        told = {member: read_cooperative(subscription) for member, subscription in members.items()}
        members = {name: _dated(member, told[name].generation) for name, member in members.items()}
        target = sticky_round(topics, members, told)
        kept = _without_moving(target)
        if target.final or not _gives_back(told, kept) or _taken_next(topics, members, kept) == 0:
            return kept
        # An exchange may be what spoils the next round; upstream's own shares are the other way.
        kept = _without_moving(sticky_round(topics, members, told, exchanging=False))
        while _taken_next(topics, members, kept, exchanging=False):
            pass
        return kept


def _dated(member: Subscription, generation: int | None) -> Subscription:
    """Disputes go by the generation in the subscription. Upstream finds none there of members that
    speak version 1, lets an old claim win, and the partition has two owners.
    """
    return member if member.generation == generation else replace(member, generation=generation)


def _gives_back(told: Mapping[str, Owned], kept: Assignment) -> bool:
    """Whether a second round follows, be it for what is of no use to others, as of a topic that is
    gone."""
    return any(set(owned.partitions).difference(kept[name]) for name, owned in told.items())


def _without_moving(target: Round) -> Assignment:
    return {
        member: [partition for partition in partitions if partition not in target.moving]
        for member, partitions in target.given.items()
    }


def _taken_next(
    topics: Topics,
    members: Mapping[str, Subscription],
    kept: Assignment,
    *,
    exchanging: bool = True,
) -> int:
    """Takes out of `kept` what the next round would take away, and returns how much that is."""
    told = {member: Owned(partitions, 0) for member, partitions in kept.items()}
    following = sticky_round(topics, members, told, exchanging=exchanging)
    for member, partitions in kept.items():
        stays = set(following.given[member])
        kept[member] = [partition for partition in partitions if partition in stays]
    return sum(len(owned.partitions) for owned in told.values()) - sum(map(len, kept.values()))
