"""Which protocol? Candidates are those that every member lists."""

from .group import Group
from .states import EMPTY


def supports(group: Group, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
    """Whether who joins with these can understand the group."""
    if group.state is EMPTY:
        return bool(protocol_type and protocols)
    everybody = len(group.members)
    counts = group.protocol_counts
    return protocol_type == group.protocol_type and any(
        counts.get(name, 0) == everybody for name, _ in protocols
    )


def elect(group: Group) -> str:
    """Each member votes for the first candidate of its list; most votes win.

    A tie goes to what the leader would rather have (upstream leaves it to its hash order).
    """
    everybody = len(group.members)
    candidates = {name for name, count in group.protocol_counts.items() if count == everybody}
    votes: dict[str, int] = {}
    for member in group.members.values():
        choice = next(name for name, _ in member.protocols if name in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    most = max(votes.values())
    assert group.leader is not None
    leader = group.members[group.leader]
    return next(name for name, _ in leader.protocols if votes.get(name) == most)
