"""`sticky` (StickyAssignor)."""

from collections.abc import Mapping, Sequence

from ..model import Assignment, Assignor, Subscription, TopicPartition, Topics
from .round import sticky_round
from .user_data import read_sticky, sticky_bytes


class Sticky(Assignor):
    name = "sticky"
    cooperative = False

    def user_data(
        self,
        topics: Sequence[str],  # noqa: ARG002
        owned: Sequence[TopicPartition],
        generation: int | None,
    ) -> bytes | None:
        return None if generation is None else sticky_bytes(owned, generation)

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        told = {member: read_sticky(subscription) for member, subscription in members.items()}
        return sticky_round(topics, members, told).given
