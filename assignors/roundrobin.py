"""`roundrobin`: assigns the partitions of all topics in turn, skipping members that are not
subscribed to a topic (RoundRobinAssignor)."""

from bisect import bisect_left
from collections.abc import Mapping

from .model import Assignment, Assignor, Subscription, Topics
from .ordering import member_order, subscribers_by_topic


class RoundRobinAssignor(Assignor):
    name = "roundrobin"
    cooperative = False

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        assignment: Assignment = {member: [] for member in members}
        index = {member: number for number, member in enumerate(member_order(members))}
        next_index = 0  # continues across topics
        for topic, subscribers in subscribers_by_topic(topics, members).items():
            size, count = topics.partitions[topic], len(subscribers)
            first = bisect_left(subscribers, next_index, key=index.__getitem__)
            for start in range(min(size, count)):
                member = subscribers[(first + start) % count]
                assignment[member] += [(topic, p) for p in range(start, size, count)]
            next_index = index[subscribers[(first + size - 1) % count]] + 1
        return assignment
