"""UnregisterBroker (key 64, KIP-631): removes a permanently stopped broker from a cluster.

The process's nodes are fixed and cannot be unregistered.
"""

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import Message, RequestContext
from .authorization import cluster_denial


def handle(context: RequestContext, node: Node) -> None:
    broker_id = context.request.broker_id
    if (denial := cluster_denial(context, node, AclOperation.ALTER)) is not None:
        error, message = denial
    elif broker_id in node.topics.nodes.ids:
        error = ErrorCode.invalid_request
        message = f"Broker ID {broker_id} is a node of this process and cannot be unregistered"
    else:
        error = ErrorCode.broker_id_not_registered
        message = f"Broker ID {broker_id} is not currently registered"
    context.respond(Message(error_code=error, error_message=message))
