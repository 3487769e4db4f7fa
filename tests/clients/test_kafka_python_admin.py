"""Methods that only kafka-python has: reassignments, log directories, quorum, features."""

import uuid
from collections.abc import Iterator
from typing import Any

import kafka.errors
import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Any]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()


@pytest.fixture
def topic(admin: Any) -> Iterator[str]:
    name = f"topic-{uuid.uuid4().hex[:12]}"
    admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
    admin.wait_for_topics([name])
    yield name
    admin.delete_topics([name])


def test_partitions_are_reassigned_to_their_replicas_only(admin: Any, topic: str) -> None:
    first, second, unknown = (TopicPartition(topic, index) for index in (0, 1, 9))
    plan = {first: [1], second: [77], unknown: [1]}
    assert admin.alter_partition_reassignments(plan) == {
        first: None,
        second: kafka.errors.InvalidReplicationAssignmentError,
        unknown: kafka.errors.UnknownTopicOrPartitionError,
    }
    cancelled = admin.alter_partition_reassignments({first: None})
    assert cancelled == {first: kafka.errors.NoReassignmentInProgressError}
    assert admin.list_partition_reassignments() == {}
    assert admin.list_partition_reassignments({topic: [0, 1]}) == {}


def test_replicas_stay_in_the_log_directory(admin: Any, topic: str) -> None:
    (described,) = admin.describe_log_dirs({topic: [0, 1]})
    (here,) = (each["log_dir"] for each in described["log_dirs"])
    replicas = {(topic, 0, 1): here, (topic, 1, 1): "/nowhere"}
    moved = admin.alter_replica_log_dirs(replicas)
    assert list(moved.values()) == [kafka.errors.NoError, kafka.errors.LogDirNotFoundError]


def test_the_broker_is_the_quorum(admin: Any, topic: str) -> None:
    described = admin.describe_metadata_quorum()
    (partition,) = described["topics"][0]["partitions"]
    assert partition["error"] is None
    (voter,) = partition["current_voters"]
    assert voter["replica_id"] == partition["leader_id"] == 1
    assert voter["log_end_offset"] >= partition["high_watermark"] > 0
    assert [node["node_id"] for node in described["nodes"]] == [1]


def test_features_stay_at_their_version(admin: Any) -> None:
    finalized = admin.describe_features()["transaction.version"]["finalized"]
    assert finalized == (2, 2)
    admin.update_features({"transaction.version": 2})
    for update in ({"transaction.version": 3}, {"nonsense": 1}):
        with pytest.raises(kafka.errors.InvalidUpdateVersionError):
            admin.update_features(update)
