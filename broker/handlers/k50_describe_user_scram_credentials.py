"""DescribeUserScramCredentials (key 50, KIP-554). Always flexible.

Upstream: ScramImage.describe.
"""

from collections import Counter
from collections.abc import Iterator

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_cluster


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    if not allows_cluster(context, node, AclOperation.DESCRIBE):
        context.respond(_unauthorized(context))
        return
    # Null and an empty list both request all users.
    requested = context.request.users
    stored = node.topics.security.scram_credentials
    names = (user.name for user in requested) if requested else stored.keys()
    counts = Counter(names)
    responses = []
    for name, count in counts.items():
        responses.append(_response(node, name, count))
        yield
    # Kafka's message is empty, not null.
    context.respond(Message(results=responses, error_code=ErrorCode.none, error_message=""))


def _unauthorized(context: RequestContext) -> Message:
    """Return the response to an unauthorized client, without user names, as in Kafka. (Kafka sends
    no response if all users are requested.)"""
    failed = {"error_code": ErrorCode.cluster_authorization_failed, "error_message": None}
    result = Message(user="", **failed, credential_infos=())
    return Message(results=[result] * len(context.request.users or ()), **failed)


def _response(node: Node, name: str, count: int) -> Message:
    credentials = node.topics.security.scram_credentials.get(name, {})
    error, message = ErrorCode.none, ""
    if count > 1:
        error, credentials = ErrorCode.duplicate_resource, {}
        message = "Cannot describe SCRAM credentials for the same user twice in a single request"
    elif not credentials:
        error = ErrorCode.resource_not_found
        message = "Attempt to describe a user credential that does not exist"
    infos = [
        Message(mechanism=mechanism, iterations=credential.iterations)
        for mechanism, credential in sorted(credentials.items())
    ]
    message = f"{message}: {name}" if message else ""
    return Message(user=name, error_code=error, error_message=message, credential_infos=infos)
