"""AlterReplicaLogDirs (key 34, KIP-113): moves replicas between log directories of a broker. v2
flexible.

There is only one data folder, so a replica can only be "moved" to its current folder.
"""

from collections.abc import Iterator
from typing import Final

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_cluster
from .common import PartitionResponse

FILE_NAME_MAX: Final = 255
# Upstream: UnifiedLog.logFutureDirName.
FUTURE_SUFFIX_LENGTH: Final = len(".") + 32 + len("-future")


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    dirs = context.request.dirs
    if not allows_cluster(context, node, AclOperation.ALTER):
        denied = ErrorCode.cluster_authorization_failed
        results = []
        for topic in (topic for each in dirs for topic in each.topics):
            responses = []
            for index in topic.partitions:
                responses.append(PartitionResponse(index, denied))
                yield
            results.append(Message(topic_name=topic.name, partitions=responses))
            yield
        context.respond(Message(results=results))
        return
    # If a partition is listed in several directories, the last directory counts.
    paths: dict[str, dict[int, str]] = {}
    for each in dirs:
        for topic in each.topics:
            for index in topic.partitions:
                paths.setdefault(topic.name, {})[index] = each.path
                yield
            yield
        yield
    results = []
    for name, path_of in paths.items():
        responses = []
        for index, path in path_of.items():
            responses.append(PartitionResponse(index, _move(node, name, index, path)))
            yield
        results.append(Message(topic_name=name, partitions=responses))
    context.respond(Message(results=results))


def _move(node: Node, topic: str, index: int, path: str) -> ErrorCode:
    """Return the error, if any (upstream: ReplicaManager.alterReplicaLogDirs)."""
    if len(f"{topic}-{index}") + FUTURE_SUFFIX_LENGTH > FILE_NAME_MAX:
        return ErrorCode.invalid_topic_exception
    if path != node.topics.log_dir:
        return ErrorCode.log_dir_not_found
    partition = node.topics.partition(topic, index)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    is_replica = node.node_id in partition.replicas
    return ErrorCode.none if is_replica else ErrorCode.replica_not_available
