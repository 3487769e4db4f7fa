"""CreateDelegationToken (key 38, KIP-48). v2 flexible · v3 tokens for others (KIP-373)."""

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation, AclResourceType
from ..cluster import Node
from ..network.request import Message, RequestContext
from ..security.principal import Principal
from .authorization import allows
from .delegation_tokens import no_time, token_error


def handle(context: RequestContext, node: Node) -> None:
    request, requester = context.request, context.client.principal
    owner = requester
    if name := getattr(request, "owner_principal_name", None):
        owner = Principal(request.owner_principal_type or "", name)
    error = token_error(context)
    create = AclOperation.CREATE_TOKENS
    if error is not ErrorCode.delegation_token_request_not_allowed:
        if owner != requester and not allows(
            context, node, create, AclResourceType.USER, str(owner)
        ):
            error = ErrorCode.delegation_token_authorization_failed
        elif any(each.principal_type != "User" for each in request.renewers):
            error = ErrorCode.invalid_principal_type
    context.respond(
        Message(
            error_code=error,
            principal_type=owner.type,
            principal_name=owner.name,
            token_requester_principal_type=requester.type,
            token_requester_principal_name=requester.name,
            issue_timestamp=no_time(error),
            expiry_timestamp=no_time(error),
            max_timestamp=no_time(error),
            token_id="",
            hmac=b"",
        )
    )
