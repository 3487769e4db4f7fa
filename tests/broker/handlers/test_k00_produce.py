"""Produce: stored and rejected batches, with the responses of Kafka 4.3."""

import struct
import zlib
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kohort.log.batch import HEADER, check, read_header, split
from kohort.log.group_commit import Durability
from kohort.log.records import records
from kohort.topics.names import OFFSETS_TOPIC
from support.broker import DATA, NOW_MS, BrokerHarness, batch
from support.log import NewRecord, build


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders", 2)
    return broker


def with_header(whole: bytes, **fields: Any) -> bytes:
    """Return the batch with other header fields and a valid checksum."""
    from crc32c import crc32c

    changed = bytearray(whole)
    HEADER.pack_into(changed, 0, *read_header(whole)._replace(**fields))
    changed[17:21] = crc32c(memoryview(changed)[21:]).to_bytes(4, "big")
    return bytes(changed)


def test_only_offset_and_epoch_of_a_batch_are_changed(broker: BrokerHarness) -> None:
    sent = batch(b"a", b"b")
    assert broker.produce("orders", sent).base_offset == 0
    response = broker.produce("orders", sent)
    assert (response.error_code, response.base_offset, response.log_start_offset) == (0, 2, 0)
    stored = broker.fetch("orders", 2).records
    assert stored[16:] == sent[16:]
    assert check(stored, 0, len(stored)).base_offset == 2
    assert read_header(stored).leader_epoch == 0


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_batches_are_stored_unchanged(broker: BrokerHarness, codec: int) -> None:
    sent = build([NewRecord(b"k", b"v" * 500, NOW_MS)], base_offset=0, codec=codec)
    assert broker.produce("orders", sent).error_code is ErrorCode.none
    assert broker.fetch("orders").records[16:] == sent[16:]


@pytest.mark.parametrize("version", range(3, 13))
def test_produce_by_topic_name_in_every_version(broker: BrokerHarness, version: int) -> None:
    assert broker.produce("orders", batch(b"x"), version=version).error_code is ErrorCode.none


def test_produce_by_topic_id_since_version_13(broker: BrokerHarness) -> None:
    topic = broker.topic()
    asked = broker.send_produce(topic.id, {1: batch(b"x")}, version=13)
    assert asked.response.responses[0].topic_id == topic.id
    assert asked.response.responses[0].partition_responses[0].error_code is ErrorCode.none
    unknown = broker.send_produce(None, {1: batch(b"x")}, version=13)
    (rejected,) = unknown.response.responses[0].partition_responses
    assert rejected.error_code is ErrorCode.unknown_topic_id


REFUSED = {
    "nothing at all": (None, ErrorCode.invalid_record),
    "no bytes": (b"", ErrorCode.invalid_record),
    "a few bytes": (b"abc", ErrorCode.invalid_record),
    "two batches": (batch(b"x") * 2, ErrorCode.invalid_record),
    "a batch cut short": (batch(b"x")[:-1], ErrorCode.invalid_record),
    "a wrong checksum": (batch(b"x")[:-1] + b"?", ErrorCode.corrupt_message),
    "magic 1": (with_header(batch(b"x"), magic=1), ErrorCode.invalid_record),
    "a length without a header": (
        with_header(batch(b"x"), batch_length=14),
        ErrorCode.corrupt_message,
    ),
    "stray bytes as a second batch": (batch(b"x") + bytes(17), ErrorCode.corrupt_message),
    "a base offset": (with_header(batch(b"x"), base_offset=5), ErrorCode.invalid_record),
    "no records": (with_header(batch(b"x"), count=0), ErrorCode.invalid_record),
    "more records than offsets": (with_header(batch(b"x"), count=2), ErrorCode.invalid_record),
    "more offsets than records": (
        with_header(batch(b"x"), last_offset_delta=3),
        ErrorCode.invalid_record,
    ),
    "offsets backwards": (with_header(batch(b"x"), last_offset_delta=-1), ErrorCode.invalid_record),
    "a control batch": (with_header(batch(b"x"), attributes=0x20), ErrorCode.invalid_record),
    "an unknown codec": (with_header(batch(b"x"), attributes=7), ErrorCode.invalid_record),
    "a producer without sequence": (
        with_header(batch(b"x"), producer_id=5),
        ErrorCode.invalid_record,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_only_the_invalid_batch_of_a_request_is_rejected(broker: BrokerHarness, what: str) -> None:
    bad, error = REFUSED[what]
    asked = broker.send_produce("orders", {0: bad, 1: batch(b"good")})
    rejected, taken = asked.response.responses[0].partition_responses
    assert (rejected.error_code, rejected.base_offset) == (error, -1)
    assert rejected.error_message is None  # as in Kafka, unless single records are invalid
    assert (taken.error_code, taken.base_offset) == (ErrorCode.none, 0)
    assert broker.fetch("orders").high_watermark == 0


@pytest.mark.parametrize("rest", [b"abc", batch(b"y")[:-1]])
def test_an_incomplete_batch_after_a_batch_is_dropped(broker: BrokerHarness, rest: bytes) -> None:
    assert broker.produce("orders", batch(b"x") + rest).error_code is ErrorCode.none
    assert len(broker.fetch("orders").records) == len(batch(b"x"))


@pytest.mark.parametrize("version", [3, 12, 13])
def test_topics_without_partitions_are_not_in_the_response(
    broker: BrokerHarness, version: int
) -> None:
    name: Any = broker.topic().id if version >= 13 else "orders"
    assert broker.send_produce(name, {}, version=version).response.responses == ()
    data = [
        {"topic_id" if version >= 13 else "name": name, "partition_data": each}
        for each in ([], [{"index": 0, "records": with_header(batch(b"x"), attributes=0x10)}])
    ]
    rejected = broker.send("Produce", version, acks=-1, topic_data=data).response
    (topic_response,) = rejected.responses  # there is no transactional id
    assert topic_response.partition_responses[0].error_code == 53


def test_acks_0_gets_no_response_but_is_stored(broker: BrokerHarness) -> None:
    asked = broker.send_produce("orders", {0: batch(b"x")}, acks=0)
    assert asked.is_done
    assert asked.response is None
    assert broker.fetch("orders").high_watermark == 1


def test_an_error_with_acks_0_closes_the_connection(broker: BrokerHarness) -> None:
    asked = broker.send_produce("orders", {0: b"junk"}, acks=0)
    assert asked.response is None
    assert "orders-0: invalid_record" in asked.close_reason


def test_a_batch_above_max_message_bytes_is_rejected(broker: BrokerHarness) -> None:
    broker.create_topic("small", max_message_bytes="100")
    response = broker.produce("small", batch(b"x" * 100))
    assert response.error_code is ErrorCode.message_too_large
    assert broker.produce("small", batch(b"x")).error_code is ErrorCode.none


def test_a_batch_that_is_larger_than_a_segment_is_rejected(broker: BrokerHarness) -> None:
    broker.create_topic("small", internal_segment_bytes="100")
    response = broker.produce("small", batch(b"x" * 100))
    assert response.error_code is ErrorCode.record_list_too_large
    assert response.log_start_offset == -1
    assert broker.produce("small", batch(b"x")).error_code is ErrorCode.none


def test_the_base_offset_of_a_batch_is_validated_before_its_size(broker: BrokerHarness) -> None:
    broker.create_topic("small", max_message_bytes="100")
    response = broker.produce("small", with_header(batch(b"x" * 100), base_offset=5))
    assert response.error_code is ErrorCode.invalid_record


def test_zstd_is_rejected_before_a_second_batch_until_version_7(broker: BrokerHarness) -> None:
    sent = build([NewRecord(b"k", b"v", NOW_MS)], base_offset=0, codec=4)
    for records_ in (sent, 2 * sent, sent + b"?" * 30):
        old = broker.produce("orders", records_, version=6)
        assert old.error_code is ErrorCode.unsupported_compression_type


def test_clients_cannot_produce_to_the_offsets_topic(broker: BrokerHarness) -> None:
    broker.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
    response = broker.produce("__consumer_offsets", batch(b"x"))
    assert response.error_code is ErrorCode.invalid_topic_exception


def test_log_append_time_rewrites_header_and_checksum(broker: BrokerHarness) -> None:
    broker.create_topic("stamped", message_timestamp_type="LogAppendTime")
    broker.timers.clock.ms += 77
    response = broker.produce("stamped", batch(b"x", b"y", at_ms=5))
    assert response.log_append_time.timestamp() * 1000 == NOW_MS + 77
    stored = broker.fetch("stamped").records
    header = check(stored, 0, len(stored))
    assert (header.timestamp_type, header.max_timestamp) == (1, NOW_MS + 77)
    assert {record.timestamp for record in records(stored)} == {NOW_MS + 77}


def test_a_duplicate_batch_gets_the_time_of_its_append(broker: BrokerHarness) -> None:
    broker.create_topic("stamped", message_timestamp_type="LogAppendTime")
    sent = with_header(batch(b"x", at_ms=5), producer_id=5, producer_epoch=0, base_sequence=0)
    first = broker.produce("stamped", sent)
    broker.timers.clock.ms += 77
    again = broker.produce("stamped", sent)
    assert (again.error_code, again.base_offset) == (0, 0)
    assert again.log_append_time == first.log_append_time
    assert again.log_append_time.timestamp() * 1000 == NOW_MS
    partition = broker.topic("stamped").partitions[0]
    ((_, producer),) = partition.log.producers.active(broker.now_ms, expiration_ms=10_000)
    assert producer.last_timestamp == NOW_MS


def test_an_error_contains_the_log_start_offset_if_the_log_was_read(broker: BrokerHarness) -> None:
    def start(sent: bytes, topic: str = "orders") -> int:
        response = broker.produce(topic, sent)
        assert response.error_code != 0
        return int(response.log_start_offset)

    for _ in range(2):
        broker.produce("orders", batch(b"x"))
    partition = broker.topic().partitions[0]
    partition.log.delete_before(1)
    first = with_header(batch(b"x"), producer_id=5, producer_epoch=0, base_sequence=0)
    assert broker.produce("orders", first).error_code == 0
    gap = with_header(batch(b"x"), producer_id=5, producer_epoch=0, base_sequence=7)
    assert start(gap) == start(with_header(batch(b"x"), base_offset=3)) == partition.start_offset
    assert start(b"") == start(batch(b"x")[:-1] + b"?") == start(batch(b"x"), "nobody") == -1


def test_the_time_of_a_duplicate_batch_may_be_after_the_year_9999(broker: BrokerHarness) -> None:
    broker.create_topic("late", message_timestamp_after_max_ms=str(2**63 - 1))
    at_ms = 2**60
    sent = with_header(batch(b"x", at_ms=at_ms), producer_id=5, producer_epoch=0, base_sequence=0)
    assert broker.produce("late", sent).error_code is ErrorCode.none
    again = broker.send_produce("late", {0: sent})
    broker.run_loop()
    assert again.context is not None
    assert at_ms.to_bytes(8, "big") in again.context.response_bytes


def test_a_batch_from_a_producer_cannot_have_log_append_time(broker: BrokerHarness) -> None:
    broker.create_topic("stamped", message_timestamp_type="LogAppendTime")
    response = broker.produce("stamped", with_header(batch(b"x", b"y"), attributes=8))
    assert response.error_code is ErrorCode.invalid_timestamp
    assert [error.batch_index for error in response.record_errors] == [0, 1]


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_response_waits_for_the_sync_of_flush_messages(durability: Durability) -> None:
    broker = BrokerHarness(durability=durability)
    broker.create_topic("safe", flush_messages="2")
    assert broker.send_produce("safe", {0: batch(b"one")}).is_done
    second = broker.send_produce("safe", {0: batch(b"two")})
    assert not second.is_done
    broker.run_loop()
    assert second.response.responses[0].partition_responses[0].error_code is ErrorCode.none
    assert broker.topic("safe").partitions[0].log.synced_offset == 2


@pytest.fixture
def safe() -> BrokerHarness:
    """A broker with a topic that syncs every batch, and one record in it."""
    broker = BrokerHarness(durability="os")
    broker.create_topic("safe", flush_messages="1")
    assert broker.produce("safe", batch(b"first")).error_code is ErrorCode.none
    return broker


def values(broker: BrokerHarness) -> list[bytes | None]:
    """Return the values of the records that a consumer receives."""
    fetched = broker.fetch("safe")
    assert fetched.error_code is ErrorCode.none
    positions = [position for position, _ in split(fetched.records)]
    return [record.value for at in positions for record in records(fetched.records[at:])]


def test_a_batch_that_could_not_be_synced_is_gone(safe: BrokerHarness) -> None:
    safe.files.fail("sync")
    response = safe.produce("safe", batch(b"refused"))
    assert response.error_code is ErrorCode.kafka_storage_error
    assert values(safe) == [b"first"]
    assert values(safe.restart("os")) == [b"first"]


def test_a_retry_is_a_duplicate_only_if_the_original_was_synced(safe: BrokerHarness) -> None:
    sent = with_header(batch(b"x"), producer_id=5, producer_epoch=0, base_sequence=0)
    safe.files.fail("sync", times=6)
    for _ in range(3):
        assert safe.produce("safe", sent).error_code is ErrorCode.kafka_storage_error
    safe.files.heal()
    for _ in range(2):
        response = safe.produce("safe", sent)
        assert (response.error_code, response.base_offset) == (ErrorCode.none, 1)
    assert values(safe) == [b"first", b"x"]


def test_records_are_served_once_they_are_synced(safe: BrokerHarness) -> None:
    asked = safe.send_produce("safe", {0: batch(b"second")})
    fetch = safe.send_fetch("safe", {0: 1})
    assert values(safe) == [b"first"]
    assert not fetch.is_done
    safe.run_loop()
    assert asked.is_done
    assert fetch.is_done
    assert values(safe) == [b"first", b"second"]


@pytest.mark.parametrize("syncs", [True, False], ids=["synced", "not synced"])
def test_what_follows_a_batch_shares_its_sync(safe: BrokerHarness, syncs: bool) -> None:
    """This applies to a duplicate, and to batches of a topic that syncs every second batch."""
    safe.topic("safe").configure({"flush.messages": "2"})
    one, two = (
        with_header(batch(b"x", b"y"), producer_id=id_, producer_epoch=0, base_sequence=0)
        for id_ in (5, 6)
    )
    if not syncs:
        safe.files.fail("sync")
    asked = [safe.send_produce("safe", {0: data}) for data in (one, one, batch(b"z"), two)]
    assert not any(each.is_done for each in asked)
    safe.run_loop()
    results = [each.response.responses[0].partition_responses[0] for each in asked]
    if syncs:
        assert [each.base_offset for each in results] == [1, 1, 3, 4]
        assert len(values(safe)) == 6
    else:
        assert {each.error_code for each in results} == {ErrorCode.kafka_storage_error}
        assert values(safe) == [b"first"]


def test_a_log_that_fails_during_the_sync_keeps_what_was_synced(safe: BrokerHarness) -> None:
    """The write of another batch fails, and cannot be truncated."""
    asked = safe.send_produce("safe", {0: batch(b"synced")})
    log = safe.log("safe")
    log.sync()
    safe.files.fail("append", written=10)
    safe.files.fail("truncate")
    assert safe.produce("safe", batch(b"y")).error_code is ErrorCode.kafka_storage_error
    safe.files.heal()
    assert values(safe) == [b"first", b"synced"]
    assert values(safe.restart("os")) == [b"first", b"synced"]
    error = asked.response.responses[0].partition_responses[0].error_code
    assert error is ErrorCode.kafka_storage_error  # the client retries


def test_flush_ms_syncs_at_its_deadline(broker: BrokerHarness) -> None:
    topic = broker.create_topic("soon", flush_ms="300")
    broker.produce("soon", batch(b"x"))
    broker.advance(299)
    broker.run_loop()
    assert topic.partitions[0].log.synced_offset == 0
    broker.advance(1)
    broker.run_loop()
    assert topic.partitions[0].log.synced_offset == 1


def test_a_full_disk_is_a_storage_error_until_there_is_space(broker: BrokerHarness) -> None:
    broker.produce("orders", batch(b"first"))
    broker.files.fail("append", written=10)
    response = broker.produce("orders", batch(b"second"))
    assert response.error_code is ErrorCode.kafka_storage_error
    assert broker.produce("orders", batch(b"second")).base_offset == 1


@pytest.mark.parametrize("base_offset", [0, 1], ids=["good", "bad"])
@pytest.mark.parametrize("why", ["open", "old"])
def test_a_log_that_cannot_be_opened_fails_only_its_partition(
    broker: BrokerHarness, why: str, base_offset: int
) -> None:
    broker.produce("orders", batch(b"first"))
    folder = DATA / "orders-1"
    broker.files.make_folder(folder)
    # A segment in the format before Kafka 0.11 cannot be opened.
    body = b"\1" + bytes(100)
    old = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    path = folder / f"{0:020}.log"
    broker.files.contents[path] = bytearray(old if why == "old" else b"")
    if why == "open":
        broker.files.fail("open", times=9)
    sent = with_header(batch(b"x"), base_offset=base_offset)
    asked = broker.send_produce("orders", {0: batch(b"second"), 1: sent})
    good, bad = asked.response.responses[0].partition_responses
    assert (good.error_code, good.base_offset) == (ErrorCode.none, 1)
    assert (bad.error_code, bad.log_start_offset) == (ErrorCode.kafka_storage_error, -1)
    if why == "open":
        broker.files.heal()
        assert broker.produce("orders", batch(b"x"), 1).base_offset == 0


@pytest.mark.parametrize("version", [3, 12, 13])
def test_the_last_entry_of_a_repeated_partition_counts(broker: BrokerHarness, version: int) -> None:
    key, value = ("topic_id", broker.topic().id) if version >= 13 else ("name", "orders")

    def data(*batches: tuple[int, bytes]) -> dict[str, Any]:
        partitions = [{"index": index, "records": records} for index, records in batches]
        return {key: value, "partition_data": partitions}

    topics = [
        data((0, batch(b"a")), (0, batch(b"b")), (1, batch(b"c"))),
        data((0, batch(b"d", b"e"))),
    ]
    asked = broker.send("Produce", version, acks=-1, timeout=1000, topic_data=topics)
    (answered,) = asked.response.responses
    assert [(p.index, p.error_code, p.base_offset) for p in answered.partition_responses] == [
        (0, ErrorCode.none, 0),
        (1, ErrorCode.none, 0),
    ]
    stored = broker.fetch("orders").records
    assert [record.value for record in records(stored)] == [b"d", b"e"]
