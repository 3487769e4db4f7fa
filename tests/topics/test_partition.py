"""Reopening the log of a partition after rejected appends, and using a deleted partition."""

import pytest
from kohort.broker.runtime.transaction_markers import PARTITIONS_PER_STEP
from kohort.log.errors import LogError
from kohort.protocol.errors import ErrorCode
from kohort.topics.fetch import PartitionRequest, read_partitions
from kohort.topics.topic import PartitionDeleted
from support.broker import BrokerHarness
from support.log import append


def test_rejected_records_are_truncated_by_the_next_opening_that_succeeds() -> None:
    broker = BrokerHarness()
    partition = broker.topics.create("t", 1, {}).partition(0)
    assert partition is not None
    append(partition.log, [1])
    end_offset = partition.log.end_offset
    append(partition.log, [1])  # rejected
    broker.files.fail("open")
    with pytest.raises((OSError, LogError)):
        partition.reopen(end_offset)
    broker.files.heal()
    assert partition.log.end_offset == end_offset  # as a Fetch request does
    assert partition.reopen().end_offset == end_offset


def test_a_fetch_that_holds_a_deleted_partition_gets_an_error_and_no_new_log() -> None:
    broker = BrokerHarness()
    partition = broker.topics.create("t", 1, {}).partition(0)
    assert partition is not None
    append(partition.log, [1])
    partition.delete()
    ((data,), _) = read_partitions([PartitionRequest(0, partition, 0, 100)], 100)
    assert data.error is ErrorCode.unknown_topic_or_partition
    assert not broker.files.exists(partition.folder)


def test_partitions_deleted_during_the_sync_of_a_transaction_are_skipped() -> None:
    broker = BrokerHarness()
    partitions = broker.create_topic("t", PARTITIONS_PER_STEP + 1).partitions
    outcomes: list[OSError | None] = []
    broker.node.markers.sync([("t", each.index) for each in partitions], outcomes.append)
    partitions[-1].delete()
    broker.run_loop()
    assert outcomes == [None]


def test_a_partition_whose_creation_failed_cannot_be_opened() -> None:
    broker = BrokerHarness()
    broker.files.fail("sync")
    (partition,) = broker.create_topic("t").partitions
    assert broker.topics.get("t") is None
    with pytest.raises(PartitionDeleted):
        assert partition.log
