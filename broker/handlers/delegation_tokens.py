"""Shared by the APIs of delegation tokens (KIP-48): Kafka's responses without
`delegation.token.secret.key`, which kohort does not use: tokens are disabled."""

from datetime import UTC, datetime, timedelta
from typing import Final

from ...protocol.errors import ErrorCode
from ..config.listeners import SecurityProtocol
from ..network.request import RequestContext
from ..security.principal import ANONYMOUS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def token_error(context: RequestContext) -> ErrorCode:
    """Return why the client gets no token (upstream: KafkaApis.allowTokenRequests)."""
    client = context.client
    protocol = client.listener.protocol
    is_anonymous = protocol is SecurityProtocol.SSL and client.principal == ANONYMOUS
    if protocol is SecurityProtocol.PLAINTEXT or is_anonymous:
        return ErrorCode.delegation_token_request_not_allowed
    return ErrorCode.delegation_token_auth_disabled


def no_time(error: ErrorCode) -> datetime:
    """Return the time in a response without a token: 0 from Kafka's controller, -1 from the broker
    if it does not forward the request. kio does not allow null here."""
    is_forwarded = error is ErrorCode.delegation_token_auth_disabled
    return _EPOCH if is_forwarded else _EPOCH - timedelta(milliseconds=1)
