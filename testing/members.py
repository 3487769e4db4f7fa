"""The members of a group, as a test is told of them."""

from dataclasses import dataclass

from ..broker.groups.group import Group as Known
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
