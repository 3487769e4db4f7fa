"""SaslHandshake (key 17, KIP-43): the client chooses a mechanism.

v1: the tokens are in SaslAuthenticate requests (KIP-152). Before v1, tokens are sent without
headers.
"""

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..network.request import Message, RequestContext
from ..security.mechanism import AuthenticationFailed
from .common import fail_authentication, is_illegal_in_exchange


def handle(context: RequestContext, node: Node) -> None:
    sasl = context.client.sasl
    illegal = Message(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
    if is_illegal_in_exchange(context, node, illegal):
        return
    if sasl is None or sasl.is_complete:
        context.respond(illegal)
        return
    mechanisms = tuple(sasl.listener.mechanisms)
    try:
        sasl.begin(context.request.mechanism, bare_tokens=context.version == 0)
    except AuthenticationFailed as failure:
        if sasl.principal is not None:
            # As in Kafka, an unsupported mechanism in a re-authentication closes the connection
            # immediately, without a response.
            context.close_connection(str(sasl.failure(str(failure))))
            return
        error = ErrorCode.unsupported_sasl_mechanism
        response = Message(error_code=error, mechanisms=mechanisms)
        fail_authentication(context, node, str(failure), response)
    else:
        context.respond(Message(error_code=ErrorCode.none, mechanisms=mechanisms))
