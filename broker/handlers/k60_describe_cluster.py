"""DescribeCluster (key 60). v1 endpoint_type (KIP-919) · v2 fenced brokers (KIP-1073)."""

from collections.abc import Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..network.request import RequestContext
from .authorization import NOT_REQUESTED, cluster_operations
from .common import brokers

BROKERS = 1
CONTROLLERS = 2


class DescribedBroker(NamedTuple):
    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False


class DescribeClusterResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    endpoint_type: int = BROKERS
    cluster_id: str = ""
    controller_id: int = -1
    brokers: Sequence[DescribedBroker] = ()
    cluster_authorized_operations: int = NOT_REQUESTED


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    endpoint_type = getattr(request, "endpoint_type", BROKERS)
    if endpoint_type == CONTROLLERS:
        message = (
            "The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER"
        )
        context.respond(DescribeClusterResponse(ErrorCode.mismatched_endpoint_type, message))
        return
    if endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {endpoint_type}"
        context.respond(DescribeClusterResponse(ErrorCode.unsupported_endpoint_type, message))
        return
    cluster = node.cluster
    includes_fenced = getattr(request, "include_fenced_brokers", False)
    nodes = cluster.nodes.values() if includes_fenced else cluster.up
    operations = NOT_REQUESTED
    if request.include_cluster_authorized_operations:
        operations = cluster_operations(context, node)
    context.respond(
        DescribeClusterResponse(
            cluster_id=cluster.id,
            controller_id=cluster.controller_id,
            brokers=[
                DescribedBroker(*broker, is_fenced=broker.node_id not in node.topics.nodes.up)
                for broker in brokers(context, nodes)
            ],
            cluster_authorized_operations=operations,
        )
    )
