"""InitProducerId (key 22).

v1 no throttling before the response · v2 flexible · v3 producer_id, producer_epoch (KIP-360) ·
v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE is possible.
"""

from functools import partial
from typing import NamedTuple

from ...coordinator.transactions.commands import InitProducerId, ProducerResult
from ...log.tasks import CooperativeTask
from ...offsets.records import NO_EPOCH, NO_PRODUCER_ID
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import RequestContext, in_slices, milliseconds
from .authorization import allows_any_topic, allows_cluster, allows_transactional_id
from .transactions import submit

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
    request = context.request
    producer_id = getattr(request, "producer_id", NO_PRODUCER_ID)
    producer_epoch = getattr(request, "producer_epoch", NO_EPOCH)
    if (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_EPOCH):
        context.respond(InitProducerIdResponse(ErrorCode.invalid_request))
        return
    if request.transactional_id is not None:
        command = InitProducerId(
            request.transactional_id,
            milliseconds(request.transaction_timeout),
            producer_id,
            producer_epoch,
        )
        submit(node, command, _respond_with_producer, context)
        return
    # Idempotent producers always get a new id. The previous id is ignored.
    producer_id = node.topics.allocate_producer_id()
    node.topics.on_durable(partial(_respond, context, producer_id))


def _denied(context: RequestContext, node: Node) -> CooperativeTask[ErrorCode | None]:
    """Return the error if the client is not authorized. A producer without a transactional id may
    write idempotently if it may write to any topic (KIP-679)."""
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


def _respond_with_producer(context: RequestContext, result: ProducerResult) -> None:
    error, producer_id, producer_epoch = result
    if error is ErrorCode.producer_fenced and context.version < 4:
        error = ErrorCode.invalid_producer_epoch
    context.respond(InitProducerIdResponse(error, producer_id, producer_epoch))


def _respond(context: RequestContext, producer_id: int, error: OSError | None) -> None:
    if error is None:
        context.respond(InitProducerIdResponse(ErrorCode.none, producer_id, FIRST_EPOCH))
    else:
        # Every client retries this error (upstream: no block of ids is allocated yet).
        context.respond(InitProducerIdResponse(ErrorCode.coordinator_load_in_progress))
