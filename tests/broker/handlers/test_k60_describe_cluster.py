"""DescribeCluster: one broker that is its own controller."""

import pytest
from kio.schema.errors import ErrorCode
from topic_world import World


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize(("asked", "operations"), [(True, 8096), (False, -(2**31))])
def test_every_version(version: int, asked: bool, operations: int) -> None:
    extra = {"include_fenced_brokers": False} if version >= 2 else {}
    answer = World({"broker.rack": "r1"}).ask(
        "DescribeCluster", version, include_cluster_authorized_operations=asked, **extra
    )
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack) == (
        1,
        "broker.test",
        9092,
        "r1",
    )
    assert (answer.cluster_id, answer.controller_id) == ("kqTQaMhSSk2QIGlhVrdiyw", 1)
    assert answer.cluster_authorized_operations == operations


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.mismatched_endpoint_type), (3, ErrorCode.unsupported_endpoint_type)],
)
def test_controllers_are_asked_elsewhere(endpoint_type: int, error: ErrorCode) -> None:
    answer = World().ask(
        "DescribeCluster",
        1,
        include_cluster_authorized_operations=False,
        endpoint_type=endpoint_type,
    )
    assert (answer.error_code, answer.brokers, answer.cluster_id) == (error, (), "")
