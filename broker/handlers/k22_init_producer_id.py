"""InitProducerId (key 22).

v1 no throttling before the answer · v2 flexible · v3 producer_id, producer_epoch (KIP-360) ·
v4 PRODUCER_FENCED · v5 TRANSACTION_ABORTABLE may be answered.
"""

from datetime import timedelta
from functools import partial
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import NO_THROTTLE, RequestContext

NO_PRODUCER_ID = -1
NO_EPOCH = -1
FIRST_EPOCH = 0


class InitProducerIdResponse(NamedTuple):
    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    error = _refusal(context)
    if error is not ErrorCode.none:
        context.respond(InitProducerIdResponse(error))
        return
    # A producer that is only idempotent gets a new id each time, whatever it had before.
    producer_id = node.topics.take_producer_id()
    node.topics.on_durable(partial(_settled, context, producer_id))


def _refusal(context: RequestContext) -> ErrorCode:
    request = context.request
    given_id = getattr(request, "producer_id", NO_PRODUCER_ID)
    given_epoch = getattr(request, "producer_epoch", NO_EPOCH)
    if request.transactional_id == "":
        return ErrorCode.invalid_request
    if (given_id == NO_PRODUCER_ID) != (given_epoch == NO_EPOCH):
        return ErrorCode.invalid_request
    if request.transactional_id is not None:
        # There are no transactions here (docs/not-implemented.md): nobody may begin one. Every
        # client takes this for final at once; librdkafka would retry UNSUPPORTED_VERSION until
        # its time is up.
        return ErrorCode.transactional_id_authorization_failed
    return ErrorCode.none


def _settled(context: RequestContext, producer_id: int, error: OSError | None) -> None:
    if error is None:
        context.respond(InitProducerIdResponse(ErrorCode.none, producer_id, FIRST_EPOCH))
    else:
        # Retried by every client (upstream: the controller's block of ids did not come in time).
        context.respond(InitProducerIdResponse(ErrorCode.coordinator_load_in_progress))
