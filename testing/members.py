"""The members of a group, as a test is told of them."""

from dataclasses import dataclass

from ..coordinator.classic.group import Group as Known
from ..protocol.consumer_protocol import decode_subscription
from ..protocol.errors import ProtocolError
from .asked import TopicPartition, partitions_in


@dataclass(frozen=True, slots=True)
class Member:
    """Who is in a group, as its coordinator knows it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    is_leader: bool
    partitions: tuple[TopicPartition, ...]
    """What it was assigned, by the last SyncGroup of the group's leader; () where that is no
    ConsumerProtocol assignment."""

    def is_called(self, who: str) -> bool:
        """Whether `who` is its member id, its instance id or its client id."""
        return who in (self.member_id, self.instance_id, self.client_id)


def given_back(known: Known) -> dict[str, set[TopicPartition]]:
    """Member id -> what it came with, and nobody has been assigned. In cooperative rebalancing its
    client gives that up now and joins again, so that another round follows (KIP-429)."""
    if known.protocol_name is None:
        return {}
    assigned = {place for each in members_of(known) for place in each.partitions}
    came_with = {
        each.member_id: owned_in(each.metadata(known.protocol_name))
        for each in known.members.values()
    }
    return {who: rest for who, owned in came_with.items() if (rest := owned - assigned)}


def owned_in(subscription: bytes) -> set[TopicPartition]:
    """What a ConsumerProtocol subscription says that its member owns; nothing where it is none."""
    try:
        read = decode_subscription(subscription)
    except ProtocolError:
        return set()
    return {(topic, index) for topic, indexes in read.owned_partitions for index in indexes}


def there_is(members: list[Member]) -> str:
    """The end of a sentence that has named one who is not among them."""
    named = ", ".join(f"{each.client_id} ({each.member_id})" for each in members)
    return f"; there is: {named or 'nobody'}"


def members_of(known: Known) -> list[Member]:
    return [
        Member(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            each.member_id == known.leader,
            partitions_in(each.assignment),
        )
        for each in known.members.values()
    ]
