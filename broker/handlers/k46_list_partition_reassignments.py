"""ListPartitionReassignments (key 46, KIP-455). No partition is ever being reassigned (see
AlterPartitionReassignments).
"""

from collections.abc import Iterator

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import cluster_denial


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    denial = cluster_denial(context, node, AclOperation.DESCRIBE)
    if denial is None:
        context.respond(Message(error_code=ErrorCode.none, error_message=None, topics=()))
        return
    # Kafka returns the requested partitions, without replicas.
    error, message = denial
    topics = []
    for topic in context.request.topics or ():
        partitions = []
        for index in topic.partition_indexes:
            partitions.append(
                Message(
                    partition_index=index, replicas=(), adding_replicas=(), removing_replicas=()
                )
            )
            yield
        topics.append(Message(name=topic.name, partitions=partitions))
        yield
    context.respond(Message(error_code=error, error_message=message, topics=topics))
