"""Which protocol? Candidates are those that every member lists."""

from .group import Group
from .states import EMPTY


def supports(group: Group, protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
    """Whether who joins with these can understand the group."""
    if group.state is EMPTY:
        return bool(protocol_type and protocols)
    everybody = len(group.members)
    counts = group.protocol_counts
    if protocol_type != group.protocol_type:
        return False
    for name, _ in protocols:  # noqa: SIM110 (a thousand ask in one round: no generator for each)
        if counts.get(name, 0) == everybody:
            return True
    return False


def elect(group: Group) -> str:
    """Each member votes for the first candidate of its list; most votes win.

    A tie goes to what the leader would rather have (upstream leaves it to its hash order).
    """
    everybody = len(group.members)
    candidates = {name for name, count in group.protocol_counts.items() if count == everybody}
    if len(candidates) == 1:
        return candidates.pop()
    votes: dict[str, int] = {}
    for member in group.members.values():
        choice = next(name for name, _ in member.protocols if name in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    most = max(votes.values())
    assert group.leader is not None
    leader = group.members[group.leader]
    return next(name for name, _ in leader.protocols if votes.get(name) == most)
