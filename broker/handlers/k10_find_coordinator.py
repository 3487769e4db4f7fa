"""FindCoordinator (key 10).

v1 key_type, throttle_time, error_message · v3 flexible · v4 several keys (KIP-699) ·
v5 TRANSACTION_ABORTABLE is possible · v6 share coordinators (KIP-932).
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation, AclResourceType
from ...topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ..cluster import Node
from ..network.request import Message, RequestContext, run_in_slices
from .authorization import allows, allows_cluster
from .common import ERROR_MESSAGES

GROUP, TRANSACTION, SHARE = 0, 1, 2

_log: Final = logging.getLogger("kohort.requests")


class CoordinatorResponse(NamedTuple):
    """The response for one key (since v4), or the whole response (before v4)."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode
    error_message: str | None


DESCRIBED = {
    GROUP: (AclResourceType.GROUP, ErrorCode.group_authorization_failed),
    TRANSACTION: (
        AclResourceType.TRANSACTIONAL_ID,
        ErrorCode.transactional_id_authorization_failed,
    ),
}
"""The resource that the client must be allowed to describe, and the error otherwise."""


def handle(context: RequestContext, node: Node) -> None:
    key_type = getattr(context.request, "key_type", GROUP)
    error = ErrorCode.invalid_request
    if key_type == TRANSACTION:
        _find(context, node, TRANSACTION_TOPIC, node.transactions.partition_of)
    elif key_type == GROUP:
        _find(context, node, OFFSETS_TOPIC, node.coordinators.partition_of)
    elif key_type != SHARE:
        _respond(context, node, error=error, message=ERROR_MESSAGES[error])
    elif context.version >= 6 and not allows_cluster(context, node, AclOperation.CLUSTER_ACTION):
        error = ErrorCode.cluster_authorization_failed
        _respond(context, node, error=error, message=ERROR_MESSAGES[error])
    else:
        # The same error as from a Kafka broker without share groups.
        _respond(context, node, error=error)


def _find(
    context: RequestContext, node: Node, topic: str, partition_of: Callable[[str], int]
) -> None:
    """Create the coordinators' topic if it does not exist, and respond once it is durable."""
    is_new = node.topics.get(topic) is None
    if is_new and _may_create(context, node):
        try:
            node.topics.ensure_coordinator_topic(topic)
        except OSError as error:
            _log.warning("Topic %s was not created: %s", topic, error)
            _respond(context, node)
            return

    def respond(error: OSError | None) -> None:
        # Kafka creates the topic only after the response. Clients retry.
        is_early = is_new and not node.config.bool("kohort.auto.create.immediate")
        if error is not None or is_early:
            _respond(context, node)
        else:
            _respond(context, node, lambda key: node.cluster.leader_of(topic, partition_of(key)))

    node.topics.on_durable(respond)


def _may_create(context: RequestContext, node: Node) -> bool:
    """Whether the client may describe at least one key. Otherwise, Kafka does not create the
    topic."""
    request = context.request
    keys = request.coordinator_keys if context.version >= 4 else (request.key,)
    return any(_denied(context, node, key, reports=False) is None for key in keys)


def _respond(
    context: RequestContext,
    node: Node,
    coordinator: Callable[[str], Node | None] = lambda _key: None,
    error: ErrorCode = ErrorCode.coordinator_not_available,
    message: str = "",
) -> None:
    """Respond. `error` and `message` are for keys without a coordinator. Before v4, every response
    includes a message, even for NONE (upstream: FindCoordinatorResponse.prepareOldResponse)."""
    success_message = ""
    if context.version < 4:
        message, success_message = ERROR_MESSAGES[error], "NONE"

    def response(key: str) -> CoordinatorResponse:
        denied = _denied(context, node, key)
        if denied is not None:
            text = ERROR_MESSAGES[denied] if context.version < 4 else ""
            return CoordinatorResponse(key, -1, "", -1, denied, text)
        found = coordinator(key)
        address = None if found is None else found.addresses.get(context.client.listener.name)
        if found is None or address is None:
            return CoordinatorResponse(key, -1, "", -1, error, message)
        return CoordinatorResponse(key, found.node_id, *address, ErrorCode.none, success_message)

    def respond_to_all() -> Iterator[None]:
        responses = []
        for key in context.request.coordinator_keys:
            responses.append(response(key))
            yield
        context.respond(Message(coordinators=responses))

    if context.version >= 4:
        run_in_slices(context, node, respond_to_all())
    else:
        context.respond(response(context.request.key))


def _denied(
    context: RequestContext, node: Node, key: str, *, reports: bool = True
) -> ErrorCode | None:
    described = DESCRIBED.get(getattr(context.request, "key_type", GROUP))
    if described is None:
        return None
    type_, error = described
    is_allowed = allows(context, node, AclOperation.DESCRIBE, type_, key, reports=reports)
    return None if is_allowed else error
