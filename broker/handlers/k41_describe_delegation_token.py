"""DescribeDelegationToken (key 41, KIP-48). v2 flexible · v3 tokens for others (KIP-373)."""

from ..cluster import Node
from ..network.request import Message, RequestContext
from .k38_create_delegation_token import token_error


def handle(context: RequestContext, _node: Node) -> None:
    context.respond(Message(error_code=token_error(context), tokens=()))
