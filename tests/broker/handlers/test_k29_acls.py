"""DescribeAcls, CreateAcls, DeleteAcls: the limits, and responses without an authorizer."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kohort.broker.config.keys import STANDARD_AUTHORIZER
from kohort.broker.handlers import k30_create_acls, k31_delete_acls
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


LIMIT = 10


@pytest.fixture
def authorized(monkeypatch: pytest.MonkeyPatch) -> BrokerHarness:
    """A broker with an authorizer. Its clients may do everything, with LIMIT ACLs per request."""
    for handlers in (k30_create_acls, k31_delete_acls):
        monkeypatch.setattr(handlers, "ACLS_PER_REQUEST_MAX", LIMIT)
    keys = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    return BrokerHarness(keys, durability="os")


def create(broker: BrokerHarness, names: range) -> Any:
    creations = [{**ACL, "resource_name": f"n{number}"} for number in names]
    response = broker.call("CreateAcls", creations=creations)
    return {(each.error_code, each.error_message) for each in response.results}


def test_more_new_acls_than_kafka_creates_at_once_are_rejected(authorized: BrokerHarness) -> None:
    new = range(LIMIT + 1)
    message = "Unable to perform excessively large batch operation."
    assert create(authorized, new) == {(ErrorCode.policy_violation, message)}
    assert not authorized.topics.security.acls
    assert create(authorized, range(1)) == {(ErrorCode.none, "")}
    assert create(authorized, new) == {(ErrorCode.none, "")}
    assert len(authorized.topics.security.acls) == LIMIT + 1


def test_more_acls_than_kafka_deletes_at_once_are_kept(authorized: BrokerHarness) -> None:
    create(authorized, range(1))
    create(authorized, range(1, LIMIT + 1))
    one = {**ANY_ACL, "resource_name_filter": "n0"}
    message = "Cannot remove more than 10000 acls in a single delete operation."
    response = authorized.call("DeleteAcls", filters=[one, ANY_ACL])
    assert [(each.error_code, each.error_message) for each in response.filter_results] == [
        (ErrorCode.invalid_request, message)
    ] * 2
    assert len(authorized.topics.security.acls) == LIMIT + 1
    authorized.call("DeleteAcls", filters=[one])
    assert len(authorized.topics.security.acls) == LIMIT
    authorized.call("DeleteAcls", filters=[ANY_ACL])
    assert not authorized.topics.security.acls


def test_a_response_with_too_many_acls_is_not_begun(
    authorized: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ACLs are not deleted either, because the client would not be informed."""
    monkeypatch.setattr(k31_delete_acls, "RESPONSE_ITEMS_MAX", 4 * LIMIT)
    create(authorized, range(LIMIT - 1))
    pending = authorized.send("DeleteAcls", filters=[ANY_ACL] * 5)
    authorized.run_loop()
    assert "request less data" in pending.close_reason
    assert len(authorized.topics.security.acls) == LIMIT - 1
    authorized.call("DeleteAcls", filters=[ANY_ACL] * 4)
    assert not authorized.topics.security.acls
