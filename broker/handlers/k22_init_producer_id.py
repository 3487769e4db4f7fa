"""InitProducerId (key 22).

v1 no throttling before the response · v2 flexible · v3 producer_id, producer_epoch (KIP-360) ·
v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE is possible.
"""

from functools import partial
from typing import NamedTuple

from ...log.tasks import CooperativeTask
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..request import RequestContext, in_slices
from .authorization import allows_any_topic, allows_cluster, allows_transactional_id
from .common import warn_once

NO_PRODUCER_ID = -1
NO_EPOCH = -1
FIRST_EPOCH = 0


class InitProducerIdResponse(NamedTuple):
    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@in_slices
def handle(context: RequestContext, node: Node) -> CooperativeTask[None]:
    denied = yield from _denied(context, node)
    if denied is not None:
        context.respond(InitProducerIdResponse(denied))
        return
    error = _validate(context)
    if error is ErrorCode.transactional_id_authorization_failed:
        warn_once(
            context,
            node,
            "has a transactional id, but transactions are not supported: InitProducerId returns "
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED (docs/not-implemented.md)",
        )
    if error is not ErrorCode.none:
        context.respond(InitProducerIdResponse(error))
        return
    # Idempotent producers always get a new id; the previous one is ignored.
    producer_id = node.topics.allocate_producer_id()
    node.topics.on_durable(partial(_respond, context, producer_id))


def _denied(context: RequestContext, node: Node) -> CooperativeTask[ErrorCode | None]:
    """A producer without a transactional id may write idempotently if it may write to any topic
    (KIP-679)."""
    transactional_id = context.request.transactional_id
    if transactional_id is not None:
        if not allows_transactional_id(context, node, AclOperation.WRITE, transactional_id):
            return ErrorCode.transactional_id_authorization_failed
        return None
    if (yield from allows_any_topic(context, node, AclOperation.WRITE)):
        return None
    if allows_cluster(context, node, AclOperation.IDEMPOTENT_WRITE):
        return None
    return ErrorCode.cluster_authorization_failed


def _validate(context: RequestContext) -> ErrorCode:
    request = context.request
    producer_id = getattr(request, "producer_id", NO_PRODUCER_ID)
    producer_epoch = getattr(request, "producer_epoch", NO_EPOCH)
    if request.transactional_id == "":
        return ErrorCode.invalid_request
    if (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_EPOCH):
        return ErrorCode.invalid_request
    if request.transactional_id is not None:
        # Transactions are not supported (docs/not-implemented.md). All clients treat this error as
        # fatal; librdkafka would retry UNSUPPORTED_VERSION until its timeout.
        return ErrorCode.transactional_id_authorization_failed
    return ErrorCode.none


def _respond(context: RequestContext, producer_id: int, error: OSError | None) -> None:
    if error is None:
        context.respond(InitProducerIdResponse(ErrorCode.none, producer_id, FIRST_EPOCH))
    else:
        # Retriable for every client (upstream: while no block of ids has been allocated).
        context.respond(InitProducerIdResponse(ErrorCode.coordinator_load_in_progress))
