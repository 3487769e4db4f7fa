"""RemoveRaftVoter (key 81, KIP-853). The voters are fixed (see AddRaftVoter)."""

from ..cluster import Node
from ..network.request import RequestContext
from .k80_add_raft_voter import reject


def handle(context: RequestContext, node: Node) -> None:
    reject(context, node, "Remove", "removing")
