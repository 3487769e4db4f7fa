"""RenewDelegationToken (key 39, KIP-48). v2 flexible."""

from ..cluster import Node
from ..network.request import Message, RequestContext
from .k38_create_delegation_token import no_time, token_error


def handle(context: RequestContext, _node: Node) -> None:
    error = token_error(context)
    context.respond(Message(error_code=error, expiry_timestamp=no_time(error)))
