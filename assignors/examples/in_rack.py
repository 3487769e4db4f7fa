"""Each partition to a member in a rack that has a replica of it, so that nothing is read from afar.

Near goes before even, the other way round than in Kafka's range: where all members of a rack
are busy, no member of another one helps.
"""

from collections.abc import Mapping

from ..model import Assignment, Assignor, Subscription, TopicPartition, Topics
from ..subscribers import member_order, subscribers


class InRack(Assignor):
    name = "in-rack"
    cooperative = False

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        seats = {member: seat for seat, member in enumerate(member_order(members))}
        shares: Assignment = {member: [] for member in members}
        near: dict[TopicPartition, list[str]] = {}
        for topic, wanting in subscribers(topics, members).items():
            for partition in range(topics.partitions[topic]):
                racks = _racks(topics, topic, partition)
                # One without a replica near any member goes to whoever has least.
                near[topic, partition] = [m for m in wanting if members[m].rack in racks] or wanting
        # Those with the least choice first: the others can still even it out.
        for place in sorted(near, key=lambda place: len(near[place])):
            owner = min(near[place], key=lambda member: (len(shares[member]), seats[member]))
            shares[owner].append(place)
        return {member: sorted(share) for member, share in shares.items()}


def _racks(topics: Topics, topic: str, partition: int) -> set[str | None]:
    racks = topics.replica_racks.get(topic, ())
    return set(racks[partition]) - {None, ""} if partition < len(racks) else set()
