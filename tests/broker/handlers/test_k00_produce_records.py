"""Produce: records that are validated one by one, as the topic's configuration requires."""

import pytest
from kio.schema.errors import ErrorCode
from kohort.log.batch import HEADER_BYTES, assemble, read_header
from kohort.log.codecs import INLINE_BYTES_MAX, compress
from kohort.protocol.budgets import EXPANSION_MAX
from support.broker import DATA, NOW_MS, BrokerHarness, batch
from support.log import NewRecord, build, values

AHEAD_MS = NOW_MS + 2 * 86_400_000
GZIP = 1


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders", 2)
    return broker


def compressed_batch(value_bytes: int) -> bytes:
    sent = batch(bytes(value_bytes))
    header = read_header(sent)._replace(attributes=GZIP)
    return assemble(header, compress(GZIP, sent[HEADER_BYTES:]))


@pytest.mark.parametrize(
    ("at_ms", "error"),
    [(NOW_MS - 1001, 32), (NOW_MS - 1000, 0), (NOW_MS + 1000, 0), (NOW_MS + 1001, 32), (-1, 0)],
)
def test_timestamps_out_of_bounds_are_rejected_record_by_record(
    broker: BrokerHarness, at_ms: int, error: int
) -> None:
    limits = {
        "message_timestamp_before_max_ms": "1000",
        "message_timestamp_after_max_ms": "1000",
    }
    broker.create_topic("strict", **limits)
    sent = build(
        [NewRecord(b"k", b"fine", NOW_MS), NewRecord(b"k", b"maybe", at_ms)], base_offset=0
    )
    response = broker.produce("strict", sent)
    assert response.error_code == error
    assert [each.batch_index for each in response.record_errors] == ([1] if error else [])


def test_by_default_timestamps_may_be_an_hour_ahead(broker: BrokerHarness) -> None:
    hour = 3_600_000
    assert broker.produce("orders", batch(b"x", at_ms=NOW_MS + hour)).error_code == 0
    late = broker.produce("orders", batch(b"x", at_ms=NOW_MS + hour + 1))
    assert late.error_code is ErrorCode.invalid_timestamp
    assert "is out of range. The timestamp should be within" in (
        late.record_errors[0].batch_index_error_message
    )


@pytest.mark.parametrize("hours", [-3, 3])
def test_timestamps_are_compared_with_the_corrected_clock_of_the_system(
    broker: BrokerHarness, hours: int
) -> None:
    """The system clock is corrected, or continues while a suspend stops the clock for deadlines."""
    broker.create_topic("strict", message_timestamp_before_max_ms="3600000")
    broker.create_topic("stamped", message_timestamp_type="LogAppendTime")
    before, after = NOW_MS, NOW_MS + hours * 3_600_000
    broker.timers.clock.correction_ms = after - before
    assert broker.produce("strict", batch(b"x", at_ms=after)).error_code == 0
    rejected = broker.produce("strict", batch(b"x", at_ms=before))
    assert rejected.error_code is ErrorCode.invalid_timestamp
    stamped = broker.produce("stamped", batch(b"x", at_ms=after))
    assert stamped.log_append_time.timestamp() * 1000 == after
    assert broker.now_ms == before  # no session expires


def test_a_compacted_topic_rejects_records_without_a_key(broker: BrokerHarness) -> None:
    broker.create_topic("table", cleanup_policy="compact")
    response = broker.produce("table", batch(b"a", b"b", key=None))
    assert response.error_code is ErrorCode.invalid_record
    assert [each.batch_index for each in response.record_errors] == [0, 1]
    assert broker.produce("table", batch(b"a")).error_code is ErrorCode.none


@pytest.mark.parametrize(
    ("sent", "error", "wrong"),
    [
        ([(None, AHEAD_MS)], 87, [(0, "without key")]),
        (
            [(b"k", NOW_MS), (None, NOW_MS), (b"k", AHEAD_MS)],
            32,
            [(1, "without key"), (2, "out of range")],
        ),
    ],
    ids=["one record", "several"],
)
def test_all_invalid_records_are_reported_and_keys_checked_first(
    broker: BrokerHarness,
    sent: list[tuple[bytes | None, int]],
    error: int,
    wrong: list[tuple[int, str]],
) -> None:
    broker.create_topic("table", cleanup_policy="compact")
    records = [NewRecord(key, b"v", at_ms) for key, at_ms in sent]
    response = broker.produce("table", build(records, base_offset=0))
    assert response.error_code == error
    result = [(each.batch_index, each.batch_index_error_message) for each in response.record_errors]
    assert [index for index, _ in result] == [index for index, _ in wrong]
    assert all(words in text for (_, text), (_, words) in zip(result, wrong, strict=True))


@pytest.mark.parametrize(("multiple", "error"), [(0.99, 0), (1.01, 87)])
def test_a_batch_may_be_decompressed_up_to_a_multiple_of_max_message_bytes(
    broker: BrokerHarness, multiple: float, error: int
) -> None:
    message_bytes_max = 20_000
    broker.create_topic("table", cleanup_policy="compact", max_message_bytes=str(message_bytes_max))
    compressed = compressed_batch(int(message_bytes_max * EXPANSION_MAX * multiple))
    assert len(compressed) < message_bytes_max
    assert broker.produce("table", compressed).error_code == error


@pytest.mark.parametrize("is_recreated", [False, True])
def test_a_batch_whose_topic_is_deleted_during_its_validation_is_rejected(
    broker: BrokerHarness, is_recreated: bool
) -> None:
    """Otherwise, a second log would write to the folder and overwrite records of the new topic."""
    topic = broker.create_topic("table", cleanup_policy="compact")
    decompressions = broker.cluster.decompressions
    while decompressions.begin_now():
        pass
    pending = broker.send_produce("table", {0: compressed_batch(INLINE_BYTES_MAX)})
    broker.run_loop()
    broker.topics.delete(topic)
    broker.run_loop()
    if is_recreated:
        broker.create_topic("table", cleanup_policy="compact")
        assert broker.produce("table", batch(b"first")).error_code == 0
    assert not pending.is_done
    decompressions.end()
    broker.run_loop()
    (rejected,) = pending.response.responses[0].partition_responses
    assert rejected.error_code is ErrorCode.unknown_topic_or_partition
    assert broker.files.exists(DATA / "table-0") == is_recreated
    if is_recreated:
        assert broker.produce("table", batch(b"second")).base_offset == 1
        assert values(broker.restart().log("table")) == [b"first", b"second"]
