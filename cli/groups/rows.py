"""What is known of a group: the lines of the tables, named as Kafka names the columns.

None stands where Kafka prints `-`.
"""

from typing import NamedTuple


class Partition(NamedTuple):
    """A partition of a topic; sorts by topic, then by number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Committed(NamedTuple):
    """What a group has committed for a partition."""

    offset: int
    leader_epoch: int | None


class Member(NamedTuple):
    """The last three are of members of KIP-848 groups."""

    consumer_id: str
    group_instance_id: str | None
    host: str
    client_id: str
    partitions: tuple[Partition, ...]
    epoch: int | None = None
    target: tuple[Partition, ...] = ()
    """The partitions that it is to have."""
    upgraded: bool | None = None
    """Whether it speaks KIP-848's protocol itself, where the coordinator says."""


class Group(NamedTuple):
    """A group as its coordinator describes it."""

    group: str
    state: str
    protocol: str
    """Of the assignment: `range`; empty while there is none."""
    members: tuple[Member, ...]
    epoch: int | None = None
    """Of a KIP-848 group, as the next."""
    assignment_epoch: int | None = None


class ListedRow(NamedTuple):
    group: str
    type: str
    state: str


class OffsetRow(NamedTuple):
    group: str
    topic: str
    partition: int
    leader_epoch: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


class MemberRow(NamedTuple):
    group: str
    consumer_id: str
    group_instance_id: str | None
    host: str
    client_id: str
    partitions: int
    current_epoch: int | None
    assignment: str
    """`orders:0,1;payments:0`; empty while there is none."""
    target_epoch: int | None
    target_assignment: str
    upgraded: bool | None


class StateRow(NamedTuple):
    group: str
    coordinator_host: str
    coordinator_port: int
    coordinator_id: int
    assignment_strategy: str | None
    state: str
    group_epoch: int | None
    target_assignment_epoch: int | None
    members: int


class ResetRow(NamedTuple):
    group: str
    topic: str
    partition: int
    new_offset: int


class DeletedGroupRow(NamedTuple):
    group: str
    error: str | None


class DeletedOffsetRow(NamedTuple):
    topic: str
    partition: int | None
    """None where the topic is unknown, and so are its partitions."""
    error: str | None


def offset_rows(
    group: Group,
    committed: dict[Partition, Committed],
    ends: dict[Partition, int],
) -> list[OffsetRow]:
    """One line for each partition that a member has or that the group has committed.

    Members come with the most partitions first, as with Kafka; partitions without a member last.
    """
    rows: list[OffsetRow] = []
    owned: set[Partition] = set()
    for member in sorted(group.members, key=lambda member: -len(member.partitions)):
        owned.update(member.partitions)
        holder = (member.consumer_id, member.host, member.client_id)
        rows += (
            _offset_row(group, at, committed, ends, holder) for at in sorted(member.partitions)
        )
    free = sorted(committed.keys() - owned)
    return rows + [_offset_row(group, at, committed, ends, (None, None, None)) for at in free]


def _offset_row(
    group: Group,
    at: Partition,
    committed: dict[Partition, Committed],
    ends: dict[Partition, int],
    holder: tuple[str | None, str | None, str | None],
) -> OffsetRow:
    offset, epoch = committed.get(at, (None, None))
    end = ends.get(at)
    lag = None if offset is None or end is None else end - offset
    return OffsetRow(group.group, at.topic, at.partition, epoch, offset, end, lag, *holder)


def member_rows(group: Group) -> list[MemberRow]:
    """One line for each member, in the coordinator's order."""
    return [
        MemberRow(
            group.group,
            member.consumer_id,
            member.group_instance_id,
            member.host,
            member.client_id,
            len(member.partitions),
            member.epoch,
            assignment(member.partitions),
            group.assignment_epoch,
            assignment(member.target),
            member.upgraded,
        )
        for member in group.members
    ]


def assignment(partitions: tuple[Partition, ...]) -> str:
    """`orders:0,1;payments:0`."""
    topics: dict[str, list[str]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(str(partition))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())


def state_row(group: Group, host: str, port: int, node_id: int) -> StateRow:
    """The group with its coordinator."""
    return StateRow(
        group.group,
        host,
        port,
        node_id,
        group.protocol or None,
        group.state,
        group.epoch,
        group.assignment_epoch,
        len(group.members),
    )
