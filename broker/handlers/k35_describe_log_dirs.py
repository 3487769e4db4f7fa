"""DescribeLogDirs (key 35, KIP-113): the data folder and the sizes of partitions.

v1 nothing new · v2 flexible · v3 error_code · v4 total_bytes, usable_bytes (KIP-827) ·
v5 is_cordoned (KIP-1066).
"""

from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ...topics.topic import Partition
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_cluster

UNKNOWN_BYTES = -1


class LogDirResponse(NamedTuple):
    error_code: ErrorCode
    log_dir: str
    topics: list[Message]
    total_bytes: int = UNKNOWN_BYTES
    usable_bytes: int = UNKNOWN_BYTES
    is_cordoned: bool = False


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    if not allows_cluster(context, node, AclOperation.DESCRIBE):
        context.respond(Message(results=(), error_code=ErrorCode.cluster_authorization_failed))
        return
    folder = node.topics.log_dir
    try:
        topics = []
        requested = yield from _requested(context, node)
        for name, partitions in requested:
            responses = []
            for each in partitions:
                responses.append(_response(each))
                yield  # reading the file sizes of a log that is not open is slow
            topics.append(Message(name=name, partitions=responses))
        response = LogDirResponse(ErrorCode.none, folder, topics, *node.topics.disk_space())
    except OSError:
        response = LogDirResponse(ErrorCode.kafka_storage_error, folder, [])
    response = response._replace(is_cordoned=node.topics.is_cordoned(node.configs))
    context.respond(Message(results=[response], error_code=ErrorCode.none))


def _response(partition: Partition) -> Message:
    # All replicas share the data, so none of them lags or is moved.
    lag = {"offset_lag": 0, "is_future_key": False}
    return Message(partition_index=partition.index, partition_size=partition.size, **lag)


def _requested(
    context: RequestContext, node: Node
) -> Generator[None, None, list[tuple[str, list[Partition]]]]:
    """Return the requested partitions that have a replica at this node, by topic."""
    topics = context.request.topics
    if topics is None:
        of_topics = ((topic.name, _replicas(node, topic.partitions)) for topic in node.topics)
        return [(name, partitions) for name, partitions in of_topics if partitions]
    indexes: dict[str, set[int]] = {}
    for topic in topics:
        indexes.setdefault(topic.topic, set()).update(topic.partitions)
        yield
    found = []
    for name, numbers in indexes.items():
        partitions = [node.topics.partition(name, index) for index in sorted(numbers)]
        if replicas := _replicas(node, partitions):
            found.append((name, replicas))
        yield
    return found


def _replicas(node: Node, partitions: Iterable[Partition | None]) -> list[Partition]:
    return [each for each in partitions if each is not None and node.node_id in each.replicas]
