"""DescribeCluster: racks, endpoint types and stopped nodes. The scenarios have all other fields."""

import pytest
from kio.schema.errors import ErrorCode
from support.broker import BrokerHarness


def test_the_rack_of_a_broker_is_described() -> None:
    (broker,) = BrokerHarness({"broker.rack": "r1"}).call("DescribeCluster").brokers
    assert broker.rack == "r1"


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
