"""AddOffsetsToTxn (key 25): adds the offsets partition of a group to a transaction.

v2 PRODUCER_FENCED · v3 flexible · v4 TRANSACTION_ABORTABLE is possible.
"""

from ...coordinator.transactions.commands import AddPartitions, PartitionsResult
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ...topics.names import OFFSETS_TOPIC
from ..cluster import Node
from ..network.request import Message, RequestContext
from .authorization import allows_group, allows_transactional_id
from .transactions import submit


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    if not allows_transactional_id(context, node, AclOperation.WRITE, request.transactional_id):
        context.respond(Message(error_code=ErrorCode.transactional_id_authorization_failed))
        return
    if not allows_group(context, node, AclOperation.READ, request.group_id):
        context.respond(Message(error_code=ErrorCode.group_authorization_failed))
        return
    partition = OFFSETS_TOPIC, node.coordinators.partition_of(request.group_id)
    command = AddPartitions(
        request.transactional_id, request.producer_id, request.producer_epoch, (partition,)
    )
    submit(node, command, _respond, context)


def _respond(context: RequestContext, result: PartitionsResult) -> None:
    error = result.error
    if error is ErrorCode.producer_fenced and context.version < 2:
        error = ErrorCode.invalid_producer_epoch
    context.respond(Message(error_code=error))
