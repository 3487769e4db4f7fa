"""Reopening the log of a partition after rejected appends."""

import pytest
from kohort.log.errors import LogError
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
