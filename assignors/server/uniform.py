"""`uniform`, the default assignor of the broker (UniformAssignor)."""

from .heterogeneous import assign_heterogeneous
from .homogeneous import assign_homogeneous
from .model import Members, Target, Topics


def assign_uniform(members: Members, topics: Topics, homogeneous: bool) -> dict[str, Target]:
    """A ServerAssignor."""
    if homogeneous and members:
        return assign_homogeneous(members, topics)
    return assign_heterogeneous(members, topics)
