"""DescribeAcls, CreateAcls, DeleteAcls: the responses of a Kafka without an authorizer."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support.broker import BrokerHarness

VERSIONS = range(1, 4)
ANY_ACL: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 3,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
ACL: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


@pytest.mark.parametrize("version", VERSIONS)
def test_describe_acls_fails_without_an_authorizer(version: int) -> None:
    response = BrokerHarness().call("DescribeAcls", version, **ANY_ACL)
    assert (response.error_code, response.resources) == (ErrorCode.security_disabled, ())
    assert response.error_message == "No Authorizer is configured on the broker"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [0, 2])
def test_each_new_acl_is_rejected(version: int, count: int) -> None:
    broker = BrokerHarness()
    creations = ({**ACL},) * count
    response = broker.call("CreateAcls", version, creations=creations)
    assert [(each.error_code, each.error_message) for each in response.results] == [
        (ErrorCode.security_disabled, "No Authorizer is configured.")
    ] * count


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [0, 2])
def test_each_filter_of_a_deletion_is_rejected(version: int, count: int) -> None:
    broker = BrokerHarness()
    filters = ({**ANY_ACL},) * count
    response = broker.call("DeleteAcls", version, filters=filters)
    assert [(each.error_code, each.matching_acls) for each in response.filter_results] == [
        (ErrorCode.security_disabled, ())
    ] * count


def is_closed(api: str, **fields: Any) -> bool:
    pending = BrokerHarness().send(api, 2, **fields)
    assert pending.is_done
    return pending.response is None and "UNKNOWN element" in pending.close_reason


@pytest.mark.parametrize("code", [0, 99])
@pytest.mark.parametrize(
    "field", ["resource_type_filter", "pattern_type_filter", "operation", "permission_type"]
)
def test_a_filter_with_an_unknown_element_closes_the_connection(field: str, code: int) -> None:
    """Only the code of UNKNOWN itself: Kafka accepts codes that it does not know."""
    bad = {**ANY_ACL, field: code}
    assert is_closed("DescribeAcls", **bad) is (code == 0)
    assert is_closed("DeleteAcls", filters=[ANY_ACL, bad]) is (code == 0)


@pytest.mark.parametrize("code", [0, 99])
@pytest.mark.parametrize(
    "field", ["resource_type", "resource_pattern_type", "operation", "permission_type"]
)
def test_an_acl_with_an_unknown_element_closes_the_connection(field: str, code: int) -> None:
    creations = [ACL, {**ACL, field: code}]
    assert is_closed("CreateAcls", creations=creations) is (code == 0)
