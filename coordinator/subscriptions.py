"""Which topics does a group read? Asked when offsets are to be deleted, or to expire.

Known at the beginning of each generation and after a load, and not looked at again before the
next (upstream: ClassicGroup.computeSubscribedTopics). Only groups of consumers can be understood.
"""

from ..protocol.consumer_protocol import decode_subscribed_topics
from ..protocol.errors import DecodeError
from .group import Group

CONSUMER = "consumer"  # the protocol type whose metadata a broker can read


def keep_subscriptions(group: Group) -> None:
    """Keep what the members of this generation say; it is parsed when somebody asks, not while
    a thousand members wait for their round to close."""
    name = group.protocol_name
    if group.protocol_type != CONSUMER or (group.members and name is None):
        group.subscriptions = None
    else:
        members = group.members.values()
        group.subscriptions = tuple(member.metadata(name or "") for member in members)


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics of all members together; None: nobody can say."""
    if group.subscriptions is None:
        return None
    topics: set[str] = set()
    try:
        # Most members of a group say the same, so each saying is read once.
        for said in set(group.subscriptions):
            topics.update(decode_subscribed_topics(said))
    except DecodeError as error:
        group.voice.warning(
            "Failed to parse Consumer Protocol %s:%s of group %s. Consumer group coordinator is "
            "not aware of the subscribed topics: %s",
            group.protocol_type,
            group.protocol_name,
            group.group_id,
            error,
        )
        return None
    return frozenset(topics)


def may_read(group: Group, topics: frozenset[str] | None, topic: str) -> bool:
    """Whether the group is subscribed to `topic`, given its `subscribed_topics`. Consumers that
    cannot be understood may read anything (upstream: ClassicGroup.isSubscribedToTopic)."""
    return group.protocol_type == CONSUMER if topics is None else topic in topics
