"""AddRaftVoter (key 80, KIP-853). v1 ack_when_committed.

The only voter is the process. As in Kafka with `controller.quorum.voters`, voters are fixed.
"""

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import Message, RequestContext
from .authorization import cluster_denial
from .common import ERROR_MESSAGES, fits


def handle(context: RequestContext, node: Node) -> None:
    reject(context, node, "Add", "adding")


def reject(context: RequestContext, node: Node, verb: str, participle: str) -> None:
    """Respond with the error for a voter change. Upstream:
    KafkaRaftClient.handleAddVoterRequest, handleRemoveVoterRequest."""
    error, message = _rejection(context, node, verb, participle)
    if not fits(message):
        error = ErrorCode.unknown_server_error
        message = ERROR_MESSAGES[error]
    context.respond(Message(error_code=error, error_message=message))


def _rejection(
    context: RequestContext, node: Node, verb: str, participle: str
) -> tuple[ErrorCode, str]:
    request = context.request
    if (denial := cluster_denial(context, node, AclOperation.ALTER)) is not None:
        return denial
    if request.cluster_id not in (None, node.cluster.id):
        message = (
            f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{node.cluster.id}"'
        )
        return ErrorCode.inconsistent_cluster_id, message
    if request.voter_id < 0 or request.voter_directory_id is None:
        message = f"{verb} voter request didn't include a valid voter"
        return ErrorCode.invalid_request, message
    message = f"Cluster doesn't support {participle} voter because the kraft.version feature is 0"
    return ErrorCode.unsupported_version, message
