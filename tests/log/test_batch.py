"""Batches: Kafka's exact bytes, and validation that rejects every inconsistent batch."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.log import batch as batches
from kohort.log.batch import BatchBuilder, seal
from kohort.log.codecs import decompress
from kohort.log.errors import CorruptBatch, InvalidRecord, UnsupportedMagic
from kohort.log.records import Record, records
from kohort.protocol.budgets import RECORD_HEADERS_MAX
from support.log import NewRecord, build

# An OffsetCommit key and value. The checksums were verified with Kafka's reader.
KEY = bytes.fromhex("000100016700017400000003")
VALUE = bytes.fromhex("0003000000000000002a0000000700016d0000018bcfe56800")
GOLDEN_VALUE = bytes.fromhex(
    "00000000000000000000005d000000000265b0b7b40000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff000000015600000018000100016700017400000003320003000000000000"
    "002a0000000700016d0000018bcfe5680000"
)
GOLDEN_TOMBSTONE = bytes.fromhex(
    "000000000000000100000044000000000244d6bf6f0000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff0000000124000000180001000167000174000000030100"
)
NOW_MS = 1_700_000_000_000

fields = st.none() | st.binary(max_size=200)
new_records = st.lists(
    st.builds(
        NewRecord,
        fields,
        fields,
        st.integers(0, 2**40),
        st.lists(st.tuples(st.text(max_size=5), fields), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=30,
)


def test_a_batch_has_the_golden_bytes() -> None:
    builder = BatchBuilder()
    builder.add(KEY, VALUE, NOW_MS)
    assert builder.size == len(GOLDEN_VALUE)
    assert builder.finish(0) == GOLDEN_VALUE
    builder = BatchBuilder()
    builder.add(KEY, None, NOW_MS)
    assert builder.finish(1) == GOLDEN_TOMBSTONE


def test_golden_bytes_are_read_back() -> None:
    header = batches.check(GOLDEN_VALUE, 0, len(GOLDEN_VALUE))
    assert (header.base_offset, header.last_offset, header.next_offset, header.size) == (
        0,
        0,
        1,
        105,
    )
    assert (header.codec, header.timestamp_type) == (0, 0)
    assert not header.is_transactional
    assert not header.is_control
    assert (header.last_sequence, header.delete_horizon_ms) == (-1, None)
    assert list(records(GOLDEN_VALUE)) == [Record(0, NOW_MS, KEY, VALUE)]
    assert list(records(GOLDEN_TOMBSTONE)) == [Record(1, NOW_MS, KEY, None)]


@given(
    st.lists(
        st.tuples(st.binary(max_size=9000), fields, st.integers(0, 2**41)), min_size=1, max_size=9
    ),
    st.integers(0, 2**60),
)
def test_both_builders_write_the_same_bytes(
    new: list[tuple[bytes, bytes | None, int]], base_offset: int
) -> None:
    builder = BatchBuilder()
    for key, value, timestamp in new:
        builder.add_all(((key, value),), timestamp)
    expected = build([NewRecord(*each) for each in new], base_offset=base_offset)
    assert builder.size == len(expected)
    assert builder.finish(base_offset) == expected


def test_numbers_beyond_the_varint_table_are_encoded() -> None:
    builder = BatchBuilder()
    for number in range(9000):
        builder.add(b"k", b"v", NOW_MS + number)
    whole = builder.finish(5)
    found = list(records(whole))
    assert [record.offset for record in found] == list(range(5, 9005))
    assert found[-1].timestamp == NOW_MS + 8999


@given(new_records, st.integers(0, 4))
def test_records_round_trip_through_every_codec(new: list[NewRecord], codec: int) -> None:
    whole = build(new, base_offset=3, codec=codec)
    header = batches.check(whole, 0, len(whole))
    assert header.codec == codec
    assert list(records(whole)) == [
        Record(3 + n, r.timestamp_ms, r.key, r.value, r.headers) for n, r in enumerate(new)
    ]


def test_raw_snappy_without_java_framing_is_read() -> None:
    import cramjam

    block = bytes(cramjam.snappy.compress_raw(b"as librdkafka sends it"))
    assert decompress(2, memoryview(block)) == b"as librdkafka sends it"


@pytest.mark.parametrize("codec", range(1, 8))
def test_undecodable_data_is_an_invalid_record(codec: int) -> None:
    with pytest.raises(InvalidRecord):
        decompress(codec, memoryview(b"\x82SNAPPY\0" + b"\xff" * 40), 1000)


@pytest.mark.parametrize("codec", range(1, 5))
def test_the_size_of_decompressed_records_is_limited(codec: int) -> None:
    whole = build([NewRecord(b"k", bytes(100_000), 0)], codec=codec)
    with pytest.raises(InvalidRecord, match="exceed"):
        decompress(codec, memoryview(whole)[61:], 50_000)


@pytest.mark.parametrize("extra", [0, 1])
def test_the_number_of_headers_of_a_record_is_limited(extra: int) -> None:
    record = NewRecord(b"k", b"v", 0, (("h", None),) * (RECORD_HEADERS_MAX + extra))
    read = records(build([record], base_offset=0))
    if extra:
        with pytest.raises(InvalidRecord, match="invalid header count"):
            next(read)
    else:
        assert next(read).headers == record.headers


def test_every_flipped_bit_under_the_checksum_is_detected() -> None:
    for position in range(16, len(GOLDEN_VALUE)):
        for bit in range(8):
            changed = bytearray(GOLDEN_VALUE)
            changed[position] ^= 1 << bit
            with pytest.raises(CorruptBatch):
                batches.check(bytes(changed), 0, len(changed))


def test_a_batch_truncated_at_any_byte_is_corrupt() -> None:
    for end in range(len(GOLDEN_VALUE)):
        with pytest.raises(CorruptBatch):
            batches.check(GOLDEN_VALUE[:end], 0, end)


def test_old_formats_differ_from_garbage_by_their_checksum() -> None:
    body = b"\x01\x00" + struct.pack(">qii", NOW_MS, -1, 40) + bytes(40)
    old = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    with pytest.raises(UnsupportedMagic, match=r"before 0\.11"):
        batches.check(old, 0, len(old))
    with pytest.raises(CorruptBatch) as caught:
        batches.check(old[:-1] + b"x", 0, len(old))
    assert caught.type is CorruptBatch


@given(new_records, st.data())
def test_inconsistent_records_are_rejected_and_never_read_past_the_end(
    new: list[NewRecord], data: st.DataObject
) -> None:
    """Replace bytes of the records and recompute the checksum."""
    whole = build(new)
    rest = bytearray(whole[21:])
    for _ in range(data.draw(st.integers(1, 4))):
        rest[data.draw(st.integers(40, len(rest) - 1))] = data.draw(st.integers(0, 255))
    inconsistent = seal(bytes(rest), 0, 0)
    batches.check(inconsistent, 0, len(inconsistent))
    try:
        found = list(records(inconsistent + b"\x7f" * 100))
    except InvalidRecord:
        return
    assert len(found) == len(new)


@pytest.mark.parametrize("count", [0, 1, 3, 2**31 - 1])
def test_a_wrong_record_count_is_rejected(count: int) -> None:
    whole = build([NewRecord(b"k", b"v", 0)] * 2)
    inconsistent = seal(whole[21:57] + struct.pack(">i", count) + whole[61:], 0, 0)
    with pytest.raises(InvalidRecord):
        list(records(inconsistent))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"offset_deltas": [0, 5]}, "Inconsistent batch offset range"),
        ({"producer_id": 5, "producer_epoch": 0}, "Invalid sequence number"),
        ({"attributes": 0x20}, "not allowed to write control records"),
    ],
)
def test_invalid_produced_batches_are_rejected_with_kafkas_messages(
    change: dict[str, object], reason: str
) -> None:
    whole = build([NewRecord(b"k", b"v", 0)] * 2, **change)  # type: ignore[arg-type]
    header = batches.check(whole, 0, len(whole))
    with pytest.raises(InvalidRecord, match=reason):
        batches.validate_produced(header)


def test_a_produced_batch_without_records_is_rejected() -> None:
    header = batches.read_header(build([]))
    with pytest.raises(InvalidRecord, match="Invalid reported count"):
        batches.validate_produced(header)
    batches.validate_produced(batches.read_header(GOLDEN_VALUE))


def test_another_base_offset_keeps_the_checksum() -> None:
    moved = batches.with_base_offset(GOLDEN_VALUE, 77, 3)
    header = batches.check(moved, 0, len(moved))
    assert (header.base_offset, header.leader_epoch) == (77, 3)
    assert moved[16:] == GOLDEN_VALUE[16:]
    assert batches.with_base_offset(memoryview(moved), 0, 0) == GOLDEN_VALUE


def test_append_time_replaces_the_timestamp_of_every_record() -> None:
    whole = batches.with_append_time(GOLDEN_VALUE, NOW_MS + 9)
    header = batches.check(whole, 0, len(whole))
    assert (header.timestamp_type, header.max_timestamp) == (1, NOW_MS + 9)
    assert [record.timestamp for record in records(whole)] == [NOW_MS + 9]


def test_adjacent_batches_are_split() -> None:
    both = GOLDEN_VALUE + GOLDEN_TOMBSTONE
    assert [(at, header.base_offset) for at, header in batches.split(both)] == [(0, 0), (105, 1)]
    with pytest.raises(CorruptBatch, match="at byte 105"):
        list(batches.split(both[:-1]))


def test_sequences_wrap_as_in_kafka() -> None:
    header = batches.read_header(
        build([NewRecord(b"", b"", 0)] * 3, producer_id=1, base_sequence=2**31 - 2)
    )
    assert header.last_sequence == 0
