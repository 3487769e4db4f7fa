"""All partitions of all topics dealt out like cards, past who does not want one
(RoundRobinAssignor)."""

from bisect import bisect_left
from collections.abc import Mapping

from .model import Assignment, Assignor, Subscription, Topics
from .subscribers import member_order, subscribers


class RoundRobin(Assignor):
    name = "roundrobin"
    cooperative = False

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        shares: Assignment = {member: [] for member in members}
        seats = {member: seat for seat, member in enumerate(member_order(members))}
        turn = 0  # the seat to be asked next; it goes on from topic to topic
        for topic, wanting in subscribers(topics, members).items():
            size = topics.partitions[topic]
            first = bisect_left(wanting, turn, key=seats.__getitem__)
            for position in range(min(size, len(wanting))):
                member = wanting[(first + position) % len(wanting)]
                shares[member] += [(topic, p) for p in range(position, size, len(wanting))]
            turn = seats[wanting[(first + size - 1) % len(wanting)]] + 1
        return shares
