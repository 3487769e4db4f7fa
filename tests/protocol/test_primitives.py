"""Kafka's primitive types: round trips, bounds, and malformed bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.protocol.primitives import (
    JAVA_ERRORS,
    Reader,
    read_unsigned_varint,
    read_varint,
    skip_tagged_fields,
    string,
    unsigned_varint,
    varint,
)

int64s = st.integers(-(1 << 63), (1 << 63) - 1)


@given(st.integers(0, (1 << 32) - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_unsigned_varint_round_trip(value: int, before: bytes, after: bytes) -> None:
    encoded = unsigned_varint(value)
    end = len(before) + len(encoded)
    assert read_unsigned_varint(before + encoded + after, len(before)) == (value, end)


@given(int64s, st.binary(max_size=3), st.binary(max_size=3))
def test_varint_round_trip(value: int, before: bytes, after: bytes) -> None:
    encoded = varint(value)
    end = len(before) + len(encoded)
    assert read_varint(before + encoded + after, len(before)) == (value, end)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")],
)
def test_unsigned_varint_bytes(value: int, encoded: str) -> None:
    assert unsigned_varint(value).hex() == encoded


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (-65, "8101")],
)
def test_varint_bytes(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\xff\xff", b"\xff\xff\xff\xff"])
def test_varint_that_exceeds_its_buffer_is_an_error(encoded: bytes) -> None:
    for read in (read_unsigned_varint, read_varint):
        with pytest.raises(ValueError, match="exceeds its buffer"):
            read(encoded, 0)


def test_varint_of_too_many_bytes_is_an_error() -> None:
    with pytest.raises(ValueError, match="longer than 5 bytes"):
        read_unsigned_varint(b"\xff" * 6, 0)
    with pytest.raises(ValueError, match="longer than 10 bytes"):
        read_varint(b"\xff" * 11, 0)


def test_tagged_fields_are_skipped_within_their_bounds() -> None:
    # Tag 5 with three bytes, and tag 300 without bytes.
    fields = b"\x02\x05\x03abc\xac\x02\x00"
    assert skip_tagged_fields(fields + b"more", 0, len(fields)) == len(fields)
    for end in range(1, len(fields)):
        with pytest.raises(ValueError, match="exceed"):
            skip_tagged_fields(fields + b"more", 0, end)
    with pytest.raises(ValueError, match="a tagged field of 9 bytes exceeds its buffer"):
        skip_tagged_fields(b"\x01\x05\x09abc", 0, 6)


def test_malformed_utf8_is_replaced_as_in_java() -> None:
    assert "größer".encode().decode("utf-8", JAVA_ERRORS) == "größer"
    assert b"a\xffb".decode("utf-8", JAVA_ERRORS) == "a\ufffdb"
    assert (
        b"\xed\xa0\x80".decode("utf-8", JAVA_ERRORS) == "\ufffd"
    )  # Python would replace each byte


@given(st.none() | st.text())
def test_string_round_trip(text: str | None) -> None:
    assert Reader(string(text), flexible=False).nullable_string() == text


def test_string_is_at_most_32767_bytes_long() -> None:
    assert len(string("ü" * 16_383)) == 2 + 32_766
    with pytest.raises(ValueError, match="32768 bytes exceeds 32767"):
        string("ü" * 16_384)
    with pytest.raises(ValueError, match="32768 bytes exceeds 32767"):
        Reader(unsigned_varint(32_769) + bytes(32_768), flexible=True).string()


def test_reader_decodes_flexible_fields() -> None:
    reader = Reader(b"?" + bytes.fromhex("02 61 00 ff 0000000000000005 ac02"), 1, flexible=True)
    assert (reader.string(), reader.nullable_string(), reader.int8()) == ("a", None, -1)
    assert (reader.int64(), reader.unsigned_varint(), reader.position) == (5, 300, 15)
    with pytest.raises(ValueError, match="unexpected end"):
        reader.int8()
    with pytest.raises(ValueError, match="exceeds its buffer"):
        reader.unsigned_varint()


def test_reader_decodes_fields_with_fixed_lengths() -> None:
    reader = Reader(bytes.fromhex("0001 61 ffff 00000001 ff") + bytes(16), flexible=False)
    assert (reader.string(), reader.nullable_string()) == ("a", None)
    assert (reader.int32(), reader.int8(), reader.uuid()) == (1, -1, bytes(16))


@pytest.mark.parametrize(("buffer", "flexible"), [(b"\xff\xff", False), (b"\0", True)])
def test_null_string_is_an_error_where_the_schema_allows_none(
    buffer: bytes, flexible: bool
) -> None:
    with pytest.raises(ValueError, match="null"):
        Reader(buffer, flexible=flexible).string()


def test_malformed_utf8_is_an_error_of_the_reader() -> None:
    with pytest.raises(ValueError, match="not UTF-8"):
        Reader(b"\0\1\xff", flexible=False).string()
