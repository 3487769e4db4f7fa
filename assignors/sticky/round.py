"""One round of a sticky group: claims, then shares by the way that fits the subscriptions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..model import Assignment, Subscription, TopicPartition, Topics
from ..subscribers import subscribers
from .claims import claims, earlier_owners
from .equal import equal_shares
from .near import Near
from .unequal import unequal_shares
from .user_data import Owned


@dataclass(frozen=True, slots=True)
class Round:
    given: dict[str, list[TopicPartition]]
    moving: frozenset[TopicPartition]
    """Given to a member while another one may still have it."""

    def assignment(self) -> Assignment:
        return {member: sorted(partitions) for member, partitions in self.given.items()}


def sticky_round(
    topics: Topics, members: Mapping[str, Subscription], told: Mapping[str, Owned]
) -> Round:
    """`told` is what each member says it owns."""
    wanting = subscribers(topics, members)
    sizes = {topic: topics.partitions[topic] for topic in wanting}
    near = Near(topics, list(wanting), members)
    merged = claims(sizes, members, told)
    if not merged.alike:
        earlier = earlier_owners(merged.generation, told)
        given = unequal_shares(wanting, sizes, merged, earlier, near)
        return Round(given, _changing_hands(given, members))
    given = {member: [] for member in members}
    if not wanting:
        return Round(given, frozenset())
    # Members without a topic, which upstream takes for equals of the others, get nothing.
    equals = {member: owned for member, owned in merged.owned.items() if members[member].topics}
    shares = equal_shares(sizes, replace(merged, owned=equals), near)
    return Round(given | shares.given, frozenset(shares.moving))


def _changing_hands(
    given: Mapping[str, list[TopicPartition]], members: Mapping[str, Subscription]
) -> frozenset[TopicPartition]:
    """New to a member, and no longer of one that owned it."""
    added: set[TopicPartition] = set()
    lost: set[TopicPartition] = set()
    for member, partitions in given.items():
        owned = set(members[member].owned)
        added.update(p for p in partitions if p not in owned)
        lost.update(owned.difference(partitions))
    return frozenset(added & lost)
