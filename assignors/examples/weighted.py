"""Shares to match the members' weights, which their user data tell.

twice = Weighted(2)    # by its path, my_project.assignors:twice
"""

from collections.abc import Mapping, Sequence

from ..model import Assignment, Assignor, Subscription, TopicPartition, Topics
from ..subscribers import member_order, subscribers


class Weighted(Assignor):
    """`weight` is that of the member that this one is for; one that says nothing weighs 1."""

    name = "weighted"
    cooperative = False

    def __init__(self, weight: int = 1) -> None:
        if weight < 1:
            raise ValueError(f"a member's weight is at least 1, not {weight}")
        self._weight = weight

    def user_data(
        self,
        topics: Sequence[str],  # noqa: ARG002
        owned: Sequence[TopicPartition],  # noqa: ARG002
        generation: int | None,  # noqa: ARG002
    ) -> bytes:
        """The weight in decimal digits."""
        return str(self._weight).encode()

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Raises ValueError where a member's user data are no weight."""
        weights = {member: _weight(member, said.user_data) for member, said in members.items()}
        seats = {member: seat for seat, member in enumerate(member_order(members))}
        shares: Assignment = {member: [] for member in members}

        def load_with_one_more(member: str) -> tuple[float, int]:
            return (len(shares[member]) + 1) / weights[member], seats[member]

        for topic, wanting in subscribers(topics, members).items():
            for partition in range(topics.partitions[topic]):
                shares[min(wanting, key=load_with_one_more)].append((topic, partition))
        return shares


def _weight(member: str, user_data: bytes | None) -> int:
    if not user_data:
        return 1
    if not user_data.isdigit() or int(user_data) < 1:
        raise ValueError(f"the user data of {member} are no weight: {user_data!r}")
    return int(user_data)
