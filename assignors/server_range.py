"""Ranges as the broker gives them to groups of the new protocol (RangeAssignor of KIP-848).

On the wire it is called `range` as the consumers' own; that one looks at racks, this one does not.
"""

from collections.abc import Mapping

from .model import Assignment, Assignor, Subscription, Topics
from .subscribers import subscribers


class ServerRange(Assignor):
    name = "server-range"
    cooperative = False

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        shares: Assignment = {member: [] for member in members}
        for topic, wanting in subscribers(topics, members).items():
            least, extras = divmod(topics.partitions[topic], len(wanting))
            start = 0
            for seat, member in enumerate(wanting):
                end = start + least + (seat < extras)
                shares[member] += [(topic, partition) for partition in range(start, end)]
                start = end
        return shares
