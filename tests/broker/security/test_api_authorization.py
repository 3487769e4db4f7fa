"""The ACLs that each API requires: without the ACLs of its row, a request fails."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from kohort.broker.config.keys import STANDARD_AUTHORIZER
from kohort.broker.security.authorizer import Denial
from kohort.broker.security.principal import INTERNAL, user
from kohort.conformance.wire import plain
from kohort.protocol.apis import APIS
from kohort.protocol.budgets import FIRST_STEPS_MAX
from kohort.topics.acls import (
    CLUSTER,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    Resource,
)
from support.broker import BrokerHarness, batch
from support.runtime import NOW_MS

AUTHORIZED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
TOPIC_ID = UUID(int=1 + (NOW_MS << 64))  # of the first topic
T = Resource(AclResourceType.TOPIC, "t")
NEW = Resource(AclResourceType.TOPIC, "new")
G = Resource(AclResourceType.GROUP, "g")
TRANSACTION = Resource(AclResourceType.TRANSACTIONAL_ID, "x")

ANY_ACL = {"resource_type_filter": 1, "pattern_type_filter": 1}
ANY_ACL |= {"operation": 1, "permission_type": 1}
NEW_ACL = {"resource_type": 2, "resource_name": "a", "resource_pattern_type": 3, "operation": 3}
NEW_ACL |= {"principal": "User:a", "host": "*", "permission_type": 3}
P0 = {"partition_index": 0}
PRODUCER = {"producer_id": 1, "producer_epoch": 0}
MEMBER = {"group_id": "g", "member_id": "m", "generation_id": 1}


class Row(NamedTuple):
    api: str
    version: int
    needs: tuple[tuple[str, Resource], ...]
    """Operations and resources, in the order in which they are checked."""
    error: str
    """The error if the first operation is denied; "" if the denial only limits the response."""
    values: dict[str, Any]


def row(
    api: str, version: int, *needs: tuple[str, Resource], error: str | None = None, **values: Any
) -> Row:
    if error is None:
        kind = needs[0][1].type.name.lower()
        error = f"{kind}_authorization_failed"
    return Row(api, version, needs, error, values)


ROWS = (
    row("Produce", 9, ("WRITE", T), acks=-1, timeout=1000, topic_data=[
        {"name": "t", "partition_data": [{"index": 0, "records": batch(b"v")}]}]),
    row("Fetch", 12, ("READ", T), replica_id=-1, max_wait=0, max_bytes=1, session_epoch=-1, topics=[
        {"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 1}]}]),
    row("Fetch", 12, ("CLUSTER_ACTION", CLUSTER), error="topic_authorization_failed",
        replica_id=1, max_wait=0, max_bytes=1, session_epoch=-1, topics=[
        {"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 1}]}]),
    row("Fetch", 13, ("CLUSTER_ACTION", CLUSTER), error="topic_authorization_failed",
        replica_id=1, max_wait=0, max_bytes=1, session_epoch=-1, topics=[
        {"topic_id": None, "partitions": [{"partition": 0, "partition_max_bytes": 1}]}]),
    row("ListOffsets", 7, ("DESCRIBE", T), replica_id=-1, topics=[
        {"name": "t", "partitions": [{**P0, "timestamp": -1}]}]),
    row("Metadata", 9, ("DESCRIBE", T), topics=[{"name": "t"}]),
    row("Metadata", 12, ("DESCRIBE", T), topics=[{"name": None, "topic_id": TOPIC_ID}]),
    row("Metadata", 9, ("DESCRIBE", NEW), ("CREATE", NEW), topics=[{"name": "new"}],
        allow_auto_topic_creation=True),
    row("Metadata", 9, ("DESCRIBE", T), error="", topics=None),
    row("OffsetCommit", 8, ("READ", G), ("READ", T), group_id="g", topics=[
        {"name": "t", "partitions": [P0]}]),
    row("OffsetFetch", 7, ("DESCRIBE", G), ("DESCRIBE", T), group_id="g", topics=[
        {"name": "t", "partition_indexes": (0,)}]),
    row("OffsetFetch", 8, ("DESCRIBE", G), groups=[{"group_id": "g", "topics": None}]),
    row("FindCoordinator", 3, ("DESCRIBE", G), key="g", key_type=0),
    row("FindCoordinator", 4, ("DESCRIBE", TRANSACTION), key_type=1, coordinator_keys=("x",)),
    row("FindCoordinator", 6, ("CLUSTER_ACTION", CLUSTER), key_type=2, coordinator_keys=("x",)),
    row("JoinGroup", 5, ("READ", G), group_id="g", protocol_type="consumer",
        session_timeout=10_000, protocols=[{"name": "range", "metadata": b""}]),
    row("Heartbeat", 4, ("READ", G), **MEMBER),
    row("LeaveGroup", 4, ("READ", G), group_id="g", members=[{"member_id": "m"}]),
    row("LeaveGroup", 2, ("READ", G), **MEMBER),
    row("SyncGroup", 5, ("READ", G), **MEMBER, protocol_type="consumer", protocol_name="range"),
    row("DescribeGroups", 5, ("DESCRIBE", G), groups=("g",)),
    row("ListGroups", 4, ("DESCRIBE", CLUSTER), error=""),
    row("CreateTopics", 7, ("CREATE", NEW), timeout=1000, topics=[
        {"name": "new", "num_partitions": 1, "replication_factor": 1}]),
    row("DeleteTopics", 5, ("DESCRIBE", T), ("DELETE", T), timeout=1000, topic_names=("t",)),
    row("DeleteTopics", 6, ("DELETE", T), timeout=1000, topics=[
        {"name": None, "topic_id": TOPIC_ID}]),
    row("DeleteRecords", 2, ("DELETE", T), timeout=1000, topics=[
        {"name": "t", "partitions": [{**P0, "offset": 0}]}]),
    row("InitProducerId", 4, ("IDEMPOTENT_WRITE", CLUSTER), transactional_id=None),
    row("InitProducerId", 4, ("WRITE", T), error="cluster_authorization_failed",
        transactional_id=None),
    row("InitProducerId", 4, ("WRITE", TRANSACTION), transactional_id="x"),
    row("AddPartitionsToTxn", 3, ("WRITE", TRANSACTION), ("WRITE", T),
        v3_and_below_transactional_id="x", v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0, v3_and_below_topics=[{"name": "t", "partitions": (0,)}]),
    row("AddPartitionsToTxn", 5, ("CLUSTER_ACTION", CLUSTER),
        transactions=[{"transactional_id": "x", **PRODUCER, "verify_only": False,
        "topics": [{"name": "t", "partitions": (0,)}]}]),
    row("AddOffsetsToTxn", 4, ("WRITE", TRANSACTION), ("READ", G), **PRODUCER,
        transactional_id="x", group_id="g"),
    row("EndTxn", 5, ("WRITE", TRANSACTION), **PRODUCER, transactional_id="x", committed=True),
    row("WriteTxnMarkers", 1, ("CLUSTER_ACTION", CLUSTER), markers=[{**PRODUCER,
        "transaction_result": True, "coordinator_epoch": 0,
        "topics": [{"name": "t", "partition_indexes": (0,)}]}]),
    row("WriteTxnMarkers", 1, ("ALTER", CLUSTER), markers=[{**PRODUCER,
        "transaction_result": True, "coordinator_epoch": 0,
        "topics": [{"name": "t", "partition_indexes": (0,)}]}]),
    row("TxnOffsetCommit", 5, ("WRITE", TRANSACTION), ("READ", G), ("READ", T), **PRODUCER,
        transactional_id="x", group_id="g", topics=[{"name": "t", "partitions": [P0]}]),
    row("OffsetForLeaderEpoch", 4, ("DESCRIBE", T), replica_id=-1, topics=[
        {"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}]}]),
    row("DescribeAcls", 3, ("DESCRIBE", CLUSTER), **ANY_ACL),
    row("CreateAcls", 3, ("ALTER", CLUSTER), creations=[NEW_ACL]),
    row("DeleteAcls", 3, ("ALTER", CLUSTER), filters=[{**ANY_ACL, "resource_name_filter": "a"}]),
    row("DescribeConfigs", 4, ("DESCRIBE_CONFIGS", T), resources=[
        {"resource_type": 2, "resource_name": "t"}]),
    row("DescribeConfigs", 4, ("DESCRIBE_CONFIGS", G), resources=[
        {"resource_type": 32, "resource_name": "g"}]),
    row("DescribeConfigs", 4, ("DESCRIBE_CONFIGS", CLUSTER), resources=[
        {"resource_type": 4, "resource_name": "1"}]),
    row("AlterConfigs", 2, ("ALTER_CONFIGS", T), resources=[
        {"resource_type": 2, "resource_name": "t"}]),
    row("IncrementalAlterConfigs", 1, ("ALTER_CONFIGS", CLUSTER), resources=[
        {"resource_type": 4, "resource_name": "1"}]),
    row("IncrementalAlterConfigs", 1, ("ALTER_CONFIGS", G), resources=[
        {"resource_type": 32, "resource_name": "g"}]),
    row("AlterReplicaLogDirs", 2, ("ALTER", CLUSTER), dirs=[
        {"path": "/", "topics": [{"name": "t", "partitions": (0,)}]}]),
    row("DescribeLogDirs", 4, ("DESCRIBE", CLUSTER), topics=None),
    row("CreatePartitions", 3, ("ALTER", T), timeout=1000, topics=[{"name": "t", "count": 2}]),
    row("DeleteGroups", 2, ("DELETE", G), groups_names=("g",)),
    row("ElectLeaders", 2, ("ALTER", CLUSTER), topic_partitions=[
        {"topic": "t", "partitions": (0,)}]),
    row("AlterPartitionReassignments", 1, ("ALTER", CLUSTER), timeout=1000, topics=[
        {"name": "t", "partitions": [{**P0, "replicas": (1,)}]}]),
    row("ListPartitionReassignments", 0, ("DESCRIBE", CLUSTER), topics=None),
    row("OffsetDelete", 0, ("DELETE", G), ("READ", T), group_id="g", topics=[
        {"name": "t", "partitions": [P0]}]),
    row("DescribeClientQuotas", 1, ("DESCRIBE_CONFIGS", CLUSTER)),
    row("AlterClientQuotas", 1, ("ALTER_CONFIGS", CLUSTER), validate_only=True, entries=[
        {"entity": [{"entity_type": "user", "entity_name": "a"}], "ops": []}]),
    row("AlterUserScramCredentials", 0, ("ALTER", CLUSTER), upsertions=(), deletions=[
        {"name": "a", "mechanism": 1}]),
    row("DescribeUserScramCredentials", 0, ("DESCRIBE", CLUSTER), users=[{"name": "a"}]),
    row("DescribeQuorum", 2, ("DESCRIBE", CLUSTER), topics=[
        {"topic_name": "__cluster_metadata", "partitions": [P0]}]),
    row("UpdateFeatures", 2, ("ALTER", CLUSTER), feature_updates=[
        {"feature": "group.version", "max_version_level": 1}]),
    row("UnregisterBroker", 0, ("ALTER", CLUSTER), broker_id=7),
    row("AddRaftVoter", 0, ("ALTER", CLUSTER), cluster_id=None, voter_id=7),
    row("RemoveRaftVoter", 0, ("ALTER", CLUSTER), cluster_id=None, voter_id=7),
    row("DescribeCluster", 1, ("DESCRIBE", CLUSTER), error="", endpoint_type=1,
        include_cluster_authorized_operations=True),
    row("DescribeProducers", 0, ("READ", T), topics=[{"name": "t", "partition_indexes": (0,)}]),
    row("DescribeTransactions", 0, ("DESCRIBE", TRANSACTION), transactional_ids=("x",)),
    row("ConsumerGroupHeartbeat", 1, ("READ", G), ("DESCRIBE", T), group_id="g", member_id="m",
        rebalance_timeout=1000, subscribed_topic_names=("t",), topic_partitions=()),
    row("ConsumerGroupDescribe", 1, ("DESCRIBE", G), group_ids=("g",)),
    row("ListConfigResources", 1, ("DESCRIBE_CONFIGS", CLUSTER)),
    row("DescribeTopicPartitions", 0, ("DESCRIBE", T), topics=[{"name": "t"}],
        response_partition_limit=9),
)  # fmt: skip

# The responses of the first three APIs do not depend on ACLs; the response of the fourth has no
# error. Clients of a listener without authentication cannot use delegation tokens. Any client may
# push its metrics.
UNAUTHORIZED = {
    *("ApiVersions", "SaslHandshake", "SaslAuthenticate", "ListTransactions"),
    *("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken"),
    *("DescribeDelegationToken", "GetTelemetrySubscriptions", "PushTelemetry"),
}


def test_every_api_has_a_row() -> None:
    listed = {each.api for each in ROWS} | UNAUTHORIZED
    assert listed == {api.name for api in APIS}, "correct ROWS or, without ACLs, UNAUTHORIZED"


def a_broker() -> BrokerHarness:
    broker = BrokerHarness(AUTHORIZED)
    broker.principal = INTERNAL
    broker.create_topic("t")
    broker.commit("g", "t", 0)
    broker.principal = user("alice")
    return broker


def allow(broker: BrokerHarness, operation: str, resource: Resource) -> None:
    literal, allow = PatternType.LITERAL, AclPermission.ALLOW
    acl = Acl(*resource, literal, "User:alice", "*", AclOperation[operation], allow)
    broker.topics.create_acl(acl)
    broker.run_loop()


def call(broker: BrokerHarness, each: Row) -> Any:
    pending = broker.send(each.api, each.version, **each.values)
    broker.run_loop()
    broker.advance(0)
    broker.run_loop()
    return plain(pending.response)


def errors(response: Any) -> Iterator[str]:
    """Yield the names of all authorization errors in a response."""
    if isinstance(response, dict):
        response = list(response.values())
    if isinstance(response, list):
        for each in response:
            yield from errors(each)
    elif isinstance(response, str) and response.endswith("_authorization_failed"):
        yield response


@pytest.mark.parametrize("each", ROWS, ids=lambda each: f"{each.api}-{each.needs[0][0]}")
def test_an_api_requires_the_operations_of_its_row(each: Row) -> None:
    broker = a_broker()
    denials: list[Denial] = []
    broker.node.security.authorizer.on_denied = denials.append
    for operation, resource in each.needs:
        denials.clear()
        found = set(errors(call(broker, each)))
        if each.error:
            kind = resource.type.name.lower()
            is_first = (operation, resource) == each.needs[0]
            assert found == {each.error if is_first else f"{kind}_authorization_failed"}
            assert {denial.api for denial in denials} == {each.api}
        else:
            assert not found
        allow(broker, operation, resource)
    denials.clear()
    assert not set(errors(call(broker, each)))
    assert not denials


MANY = [f"name{number}" for number in range(FIRST_STEPS_MAX + 1)]


@pytest.mark.parametrize(
    "each",
    [
        row("ConsumerGroupHeartbeat", 1, ("READ", G), group_id="g", member_id="m",
            rebalance_timeout=1000, subscribed_topic_names=MANY, topic_partitions=()),
        row("OffsetFetch", 8, ("DESCRIBE", G), groups=[{"group_id": "g", "topics": [
            {"name": name, "partition_indexes": (0,)} for name in MANY]}]),
        row("OffsetFetch", 8, ("DESCRIBE", G), groups=[{"group_id": "g", "topics": None}]),
        row("ListGroups", 4, ("DESCRIBE", G)),
    ],
    ids=lambda each: each.api,
)  # fmt: skip
def test_many_names_are_authorized_in_slices(each: Row) -> None:
    broker = a_broker()
    broker.principal = INTERNAL
    for name in MANY:
        broker.create_topic(name)
        broker.commit("g", name, 0)
        broker.commit(name, "t", 0)
    broker.principal = user("alice")
    allow(broker, *each.needs[0])
    pending = broker.send(each.api, each.version, **each.values)
    broker.run_loop()
    assert pending.is_muted
    assert pending.is_done
