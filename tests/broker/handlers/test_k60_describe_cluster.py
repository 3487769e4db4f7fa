"""DescribeCluster: one broker that is also the controller."""

import pytest
from kio.schema.errors import ErrorCode
from support.broker import BrokerHarness


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("asked", "operations"), [(True, 8096), (False, -(2**31))])
def test_the_cluster_is_described_in_every_version(
    version: int, asked: bool, operations: int
) -> None:
    response = BrokerHarness({"broker.rack": "r1"}).call(
        "DescribeCluster", version, include_cluster_authorized_operations=asked
    )
    (broker,) = response.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack) == (
        1,
        "broker.test",
        9092,
        "r1",
    )
    assert (response.cluster_id, response.controller_id) == ("kqTQaMhSSk2QIGlhVrdiyw", 1)
    assert response.cluster_authorized_operations == operations


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)],
)
def test_the_controller_endpoint_type_is_rejected(endpoint_type: int, error: ErrorCode) -> None:
    response = BrokerHarness().call(
        "DescribeCluster",
        1,
        include_cluster_authorized_operations=False,
        endpoint_type=endpoint_type,
    )
    assert (response.error_code, response.brokers, response.cluster_id) == (error, (), "")


@pytest.mark.parametrize(
    ("include_fenced_brokers", "expected"),
    [(False, [(1, False), (3, False)]), (True, [(1, False), (2, True), (3, False)])],
)
def test_stopped_nodes_are_described_on_request(
    include_fenced_brokers: bool, expected: list[tuple[int, bool]]
) -> None:
    broker = BrokerHarness(nodes=3)
    list(broker.node.cluster.node_stopping(2))
    response = broker.call("DescribeCluster", include_fenced_brokers=include_fenced_brokers)
    assert [(each.broker_id, each.is_fenced) for each in response.brokers] == expected
