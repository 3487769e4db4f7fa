"""SaslAuthenticate (key 36, KIP-152): one token of an exchange.

v1 session_lifetime (KIP-368) · v2 flexible. This module also handles the tokens without headers
that follow SaslHandshake v0.
"""

from datetime import timedelta

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..network.request import Message, RequestContext
from ..security.mechanism import AuthenticationFailed
from .common import fail_authentication


def handle(context: RequestContext, node: Node) -> None:
    sasl = context.client.sasl
    if sasl is None or sasl.is_complete:
        message = "SaslAuthenticate request received after successful authentication"
        context.respond(_response(ErrorCode.illegal_sasl_state, message))
        return
    try:
        token, lifetime_ms = sasl.authenticate(bytes(context.request.auth_bytes))
    except AuthenticationFailed as failure:
        response = _response(ErrorCode.sasl_authentication_failed, str(failure))
        fail_authentication(context, node, str(failure), response)
        return
    if sasl.principal is not None:
        context.client.principal = sasl.principal
    # The message is empty, not null, as in Kafka.
    context.respond(_response(ErrorCode.none, "", token, lifetime_ms))


def _response(error: ErrorCode, message: str, token: bytes = b"", lifetime_ms: int = 0) -> Message:
    return Message(
        error_code=error,
        error_message=message,
        auth_bytes=token,
        session_lifetime=timedelta(milliseconds=lifetime_ms),
    )
