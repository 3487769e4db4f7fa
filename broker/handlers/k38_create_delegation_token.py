"""CreateDelegationToken (key 38, KIP-48). v2 flexible · v3 tokens for other users (KIP-373).

Delegation tokens are disabled, so the broker responds like a Kafka broker without
`delegation.token.secret.key`.
"""

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation, AclResourceType
from ..cluster import Node
from ..config.listeners import SecurityProtocol
from ..network.request import Message, RequestContext
from ..security.principal import ANONYMOUS, Principal
from .authorization import allows


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


def token_error(context: RequestContext) -> ErrorCode:
    """Return why the client gets no token (upstream: KafkaApis.allowTokenRequests)."""
    client = context.client
    protocol = client.listener.protocol
    is_anonymous = protocol is SecurityProtocol.SSL and client.principal == ANONYMOUS
    if protocol is SecurityProtocol.PLAINTEXT or is_anonymous:
        return ErrorCode.delegation_token_request_not_allowed
    return ErrorCode.delegation_token_auth_disabled


def no_time(error: ErrorCode) -> int:
    """Return the time in a response without a token. Kafka's controller sends 0, and a broker that
    does not forward the request sends -1."""
    is_forwarded = error is ErrorCode.delegation_token_auth_disabled
    return 0 if is_forwarded else -1
