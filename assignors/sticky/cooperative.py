"""`cooperative-sticky` (CooperativeStickyAssignor, KIP-429): nothing stops that need not.

What changes hands is given to nobody in the first round. Its owner sees that it is gone, gives it
back and joins again, and the second round gives it to its new owner.
"""

from collections.abc import Mapping, Sequence

from ..model import Assignment, Assignor, Subscription, TopicPartition, Topics
from .round import sticky_round
from .user_data import cooperative_bytes, read_cooperative


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
        target = sticky_round(topics, members, told)
        return {
            member: [partition for partition in partitions if partition not in target.moving]
            for member, partitions in target.assignment().items()
        }
