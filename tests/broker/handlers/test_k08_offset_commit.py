"""OffsetCommit: topics that change during a request."""

import pytest
from kohort.broker.config.keys import STANDARD_AUTHORIZER
from kohort.broker.security.authorizer import Denial
from kohort.protocol.budgets import FIRST_STEPS_MAX
from kohort.protocol.errors import ErrorCode
from kohort.topics.acls import Acl, AclOperation, AclPermission, AclResourceType, PatternType
from support.broker import BrokerHarness
from support.transactions import committed_offset


@pytest.mark.parametrize("version", [9, 10])
def test_a_topic_recreated_during_the_request_has_no_offset(version: int) -> None:
    broker = BrokerHarness()
    old = broker.create_topic("orders")
    others = broker.create_topic("others")
    partitions = [{"partition_index": 0, "committed_offset": 5}]
    topics = [
        {"topic_id": topic.id, "name": topic.name, "partitions": partitions}
        # This many topics are looked up in slices.
        for topic in [old, *[others] * FIRST_STEPS_MAX]
    ]
    pending = broker.send("OffsetCommit", version, group_id="g", topics=topics)
    assert not pending.is_done
    broker.topics.delete(old)
    broker.topics.create("orders", 1, {})
    broker.run_loop()
    errors = [{each.error_code for each in topic.partitions} for topic in pending.response.topics]
    missing = ErrorCode.unknown_topic_id if version >= 10 else ErrorCode.unknown_topic_or_partition
    assert errors[0] == {missing}
    assert set().union(*errors[1:]) == {ErrorCode.none}
    assert committed_offset(broker) == -1
    assert committed_offset(broker, "others") == 5
    broker.commit("g", "orders", 0)
    assert committed_offset(broker) == 7


@pytest.mark.parametrize("place", [0, FIRST_STEPS_MAX])
def test_a_denial_is_reported_once_although_topics_change_during_the_request(place: int) -> None:
    allowed = {"allow.everyone.if.no.acl.found": "true"}
    broker = BrokerHarness({"authorizer.class.name": STANDARD_AUTHORIZER, **allowed})
    anyone = PatternType.LITERAL, "User:*", "*", AclOperation.READ, AclPermission.DENY
    broker.topics.create_acl(Acl(AclResourceType.TOPIC, "secret", *anyone))
    broker.create_topic("secret")
    broker.create_topic("others")
    denials: list[Denial] = []
    authorizer = broker.node.security.authorizer
    authorizer.on_denied = denials.append
    partitions = [{"partition_index": 0, "committed_offset": 5}]
    names = ["others"] * FIRST_STEPS_MAX
    names.insert(place, "secret")
    topics = [{"name": name, "partitions": partitions} for name in names]
    pending = broker.send("OffsetCommit", 9, group_id="g", topics=topics)
    assert not pending.is_done
    assert broker.last_context.prepared is None  # not cached, so that each denial is reported
    broker.create_topic("new")
    errors = {each.name: each.partitions[0].error_code for each in pending.response.topics}
    assert errors == {"secret": ErrorCode.topic_authorization_failed, "others": ErrorCode.none}
    assert len(denials) == 1
    assert committed_offset(broker, "others") == 5
