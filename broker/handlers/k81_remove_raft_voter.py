"""RemoveRaftVoter (key 81, KIP-853). The voters are fixed: see AddRaftVoter."""

from ..cluster import Node
from ..request import Message, RequestContext
from .k80_add_raft_voter import rejection


def handle(context: RequestContext, node: Node) -> None:
    error, message = rejection(context, node, "Remove", "removing")
    context.respond(Message(error_code=error, error_message=message))
