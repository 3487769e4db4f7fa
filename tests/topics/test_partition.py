"""One partition, and what becomes of bytes that its log was not to have."""

import pytest
from kohort.log.errors import LogError
from support.broker import BrokerHarness
from support.log import append


def test_what_was_refused_is_cut_off_by_whoever_opens_the_log_first() -> None:
    broker = BrokerHarness()
    partition = broker.topics.create("t", 1, {}).partition(0)
    assert partition is not None
    append(partition.log, [1])
    end_offset = partition.log.end_offset
    append(partition.log, [1])  # and refused, say
    broker.files.fail("open")
    with pytest.raises((OSError, LogError)):
        partition.reopen(end_offset)
    broker.files.heal()
    assert partition.log.end_offset == end_offset  # of a Fetch, say
    assert partition.reopen().end_offset == end_offset
