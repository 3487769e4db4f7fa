"""DescribeCluster (key 60). v1 endpoint_type (KIP-919) · v2 fenced brokers (KIP-1073)."""

from datetime import timedelta
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import NO_THROTTLE, RequestContext
from .k03_metadata import CLUSTER_OPERATIONS, NOT_ASKED

BROKERS = 1
CONTROLLERS = 2


class BrokerResponse(NamedTuple):
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
    brokers: tuple[BrokerResponse, ...] = ()
    cluster_authorized_operations: int = NOT_ASKED
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    endpoint_type = getattr(request, "endpoint_type", BROKERS)
    if endpoint_type == CONTROLLERS:
        complaint = (
            "The request was sent to an endpoint of type BROKER, "
            "but we wanted an endpoint of type CONTROLLER"
        )
        context.respond(DescribeClusterResponse(ErrorCode.mismatched_endpoint_type, complaint))
        return
    if endpoint_type != BROKERS:
        complaint = f"Unsupported endpoint type {endpoint_type}"
        context.respond(DescribeClusterResponse(ErrorCode.unsupported_endpoint_type, complaint))
        return
    rack = node.config.str("broker.rack") or None
    asked = request.include_cluster_authorized_operations
    context.respond(
        DescribeClusterResponse(
            cluster_id=node.cluster.id,
            controller_id=node.cluster.controller_id,
            brokers=tuple(
                BrokerResponse(each.node_id, *each.address, rack) for each in node.cluster.up
            ),
            cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
        )
    )
