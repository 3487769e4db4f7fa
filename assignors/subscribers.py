"""The subscribers of each topic, in the order of Kafka's AbstractPartitionAssignor.MemberInfo."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain

from .java_order import java_order
from .model import Subscription, Topics


def member_order(members: Mapping[str, Subscription]) -> list[str]:
    """Static members by instance id, then dynamic members by member id (KIP-345)."""

    def key(member: str) -> tuple[bool, bytes, bytes]:
        instance_id = members[member].group_instance_id
        return instance_id is None, java_order(instance_id or ""), java_order(member)

    return sorted(members, key=key)


def subscribers_by_topic(
    topics: Topics, members: Mapping[str, Subscription]
) -> dict[str, list[str]]:
    """Topics in order, each with its subscribers in order.

    Topics without partitions or without metadata are left out. Topics with the same subscribers
    share one list object.
    """
    ordered = member_order(members)
    # By subscription, the indexes of its members: often all members have the same one.
    indexes_by_subscription: dict[tuple[str, ...], list[int]] = {}
    for index, member in enumerate(ordered):
        indexes_by_subscription.setdefault(members[member].topics, []).append(index)
    subscriptions: defaultdict[str, list[int]] = defaultdict(list)
    for number, subscribed in enumerate(indexes_by_subscription):
        for topic in dict.fromkeys(subscribed):
            subscriptions[topic].append(number)
    indexes = list(indexes_by_subscription.values())
    merged: dict[tuple[int, ...], list[str]] = {}
    by_topic: dict[str, list[str]] = {}
    for topic in sorted(subscriptions, key=java_order):
        if topics.partitions.get(topic, 0) > 0:
            numbers = tuple(subscriptions[topic])
            if numbers not in merged:
                chained = chain.from_iterable(map(indexes.__getitem__, numbers))
                merged[numbers] = [ordered[index] for index in sorted(chained)]
            by_topic[topic] = merged[numbers]
    return by_topic
