"""Two assignors that Kafka lacks, as a user would write them.

Use them by their paths, such as `kohort.assignors.examples:Weighted`, or as a starting point.
"""

from collections.abc import Mapping, Sequence

from .model import Assignment, Assignor, Subscription, TopicPartition, Topics
from .ordering import member_order, subscribers_by_topic
from .racks import member_racks, partition_racks


class Weighted(Assignor):
    """Assigns partitions in proportion to the members' weights, which they send as user data.
    An object's path also works: `my_project.assignors:twice` for `twice = Weighted(2)`."""

    name = "weighted"
    cooperative = False

    def __init__(self, weight: int = 1) -> None:
        """`weight` is the weight of the member that uses this object. Raises ValueError if it is
        below 1."""
        if weight < 1:
            raise ValueError(f"invalid weight {weight}: must be at least 1")
        self._weight = weight

    def subscription_user_data(
        self,
        topics: Sequence[str],  # noqa: ARG002
        owned_partitions: Sequence[TopicPartition],  # noqa: ARG002
        generation_id: int | None,  # noqa: ARG002
    ) -> bytes:
        """Return the weight in decimal digits."""
        return str(self._weight).encode()

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Return the assignment. Raises ValueError if a member's user data is not a weight."""
        weights = {name: _weight(name, member.user_data) for name, member in members.items()}
        index = {member: number for number, member in enumerate(member_order(members))}
        assignment: Assignment = {member: [] for member in members}

        def load_with_one_more(member: str) -> tuple[float, int]:
            return (len(assignment[member]) + 1) / weights[member], index[member]

        for topic, subscribers in subscribers_by_topic(topics, members).items():
            for partition in range(topics.partitions[topic]):
                assignment[min(subscribers, key=load_with_one_more)].append((topic, partition))
        return assignment


def _weight(member: str, user_data: bytes | None) -> int:
    """Return the weight in a member's user data, or 1 without user data."""
    if not user_data:
        return 1
    if not user_data.isdigit() or int(user_data) < 1:
        found = f"invalid weight {user_data!r} in the user data of {member}"
        raise ValueError(f"{found}: expected a positive integer")
    return int(user_data)


class InRack(Assignor):
    """Assigns each partition to a member in a rack with a replica, if there is one, so that fetches
    stay within the rack. Unlike in Kafka's range assignor, locality takes precedence over balance,
    so members in other racks do not relieve an overloaded rack."""

    name = "in-rack"
    cooperative = False

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        index = {member: number for number, member in enumerate(member_order(members))}
        assignment: Assignment = {member: [] for member in members}
        rack_of = member_racks(members)
        candidates: dict[TopicPartition, list[str]] = {}
        for topic, subscribers in subscribers_by_topic(topics, members).items():
            for partition, racks in enumerate(partition_racks(topics, topic)):
                in_rack = [member for member in subscribers if rack_of.get(member) in racks]
                # If no member is in a rack with a replica, all subscribers are candidates.
                candidates[topic, partition] = in_rack or subscribers
        # Partitions with the fewest candidates come first, so that the remaining partitions can
        # even out the load.
        for at in sorted(candidates, key=lambda at: len(candidates[at])):
            owner = min(candidates[at], key=lambda member: (len(assignment[member]), index[member]))
            assignment[owner].append(at)
        return {member: sorted(partitions) for member, partitions in assignment.items()}
