"""EndTxn (key 26): commits or aborts a transaction.

v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE is possible ·
v5 producer_id, producer_epoch of the next transaction (KIP-890).
"""

from ...coordinator.transactions.commands import EndTransaction, ProducerResult
from ...coordinator.transactions.states import EPOCH_BUMP_VERSION
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import RequestContext
from .authorization import allows_transactional_id
from .k22_init_producer_id import InitProducerIdResponse
from .transactions import submit


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    if not allows_transactional_id(context, node, AclOperation.WRITE, request.transactional_id):
        error = ErrorCode.transactional_id_authorization_failed
        context.respond(InitProducerIdResponse(error))
        return
    command = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        EPOCH_BUMP_VERSION if context.version >= 5 else 0,
    )
    submit(node, command, _respond, context)


def _respond(context: RequestContext, result: ProducerResult) -> None:
    error, producer_id, producer_epoch = result
    if error is ErrorCode.producer_fenced and context.version < 2:
        error = ErrorCode.invalid_producer_epoch
    context.respond(InitProducerIdResponse(error, producer_id, producer_epoch))
