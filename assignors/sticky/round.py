"""One round of a sticky group: claims, then shares by the way that fits the subscriptions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..model import Assignment, Subscription, TopicPartition, Topics
from ..subscribers import subscribers
from .claims import claims, earlier_owners
from .equal import equal_shares
from .exchanges import exchange
from .near import Near
from .unequal import unequal_shares
from .user_data import Owned


@dataclass(frozen=True, slots=True)
class Round:
    given: Assignment
    moving: frozenset[TopicPartition]
    """Given to a member while another one may still have it."""
    final: bool
    """Members that join again with what they were given, less what is moving, are given the rest
    and lose nothing. Otherwise that is likely, not certain."""


def sticky_round(
    topics: Topics,
    members: Mapping[str, Subscription],
    told: Mapping[str, Owned],
    *,
    exchanging: bool = True,
) -> Round:
    """`told` is what each member says it owns; `exchanging` is more than upstream does."""
    wanting = subscribers(topics, members)
    sizes = {topic: topics.partitions[topic] for topic in wanting}
    near = Near(topics, list(wanting), members)
    merged = claims(sizes, members, told)
    final = merged.alike and not near.matters
    given: dict[str, list[TopicPartition]] = {member: [] for member in members}
    if not merged.alike:
        earlier = earlier_owners(merged.generation, told)
        given = unequal_shares(wanting, sizes, merged, earlier, near)
    elif wanting:
        # Members without a topic, which upstream takes for equals of the others, get nothing.
        equals = {member: owned for member, owned in merged.owned.items() if members[member].topics}
        given |= equal_shares(sizes, replace(merged, owned=equals), near)
    lost = _lost(merged.owned, given)
    if lost and exchanging and not final:
        exchange(given, merged.owned, members, near)
        lost = _lost(merged.owned, given)
    assignment = {member: sorted(partitions) for member, partitions in given.items()}
    return Round(assignment, frozenset(lost | merged.contested), final)


def _lost(
    owned: Mapping[str, Sequence[TopicPartition]], given: Mapping[str, Sequence[TopicPartition]]
) -> set[TopicPartition]:
    return {p for member, had in owned.items() for p in set(had).difference(given[member])}
