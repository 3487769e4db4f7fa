"""Request headers: what Kafka 4.3 accepts and rejects."""

import contextlib
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kohort.conformance.wire import kio_bytes
from kohort.protocol.errors import ProtocolError, UnsupportedVersion
from kohort.protocol.framing import (
    RequestHeader,
    api_key,
    decode_request_header,
    describe_request,
)
from support.kio_messages import EVERY_VERSION


def header(key: int, version: int, client_id: bytes | None = b"me", rest: bytes = b"") -> bytes:
    size = -1 if client_id is None else len(client_id)
    return pack(">hhih", key, version, 7, size) + (client_id or b"") + rest


def decode(frame: bytes) -> RequestHeader:
    return decode_request_header(frame, 0, len(frame))


@pytest.mark.parametrize("client_id", [None, "", "größer"])
def test_headers_are_decoded_as_kio_encodes_them(client_id: str | None) -> None:
    for api, version in EVERY_VERSION:
        schema = HeaderV2 if version >= api.flexible_from else HeaderV1
        message = schema(  # type: ignore[operator]
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=-5,
            client_id=client_id,
        )
        before, frame = b"????", kio_bytes(message)
        found = decode_request_header(before + frame + b"body", 4, 4 + len(frame) + 4)
        assert found == (api.key, version, -5, client_id, 4 + len(frame))


def test_any_negative_length_is_a_null_client_id() -> None:
    assert decode(pack(">hhih", 12, 0, 7, -5)).client_id is None


def test_malformed_utf8_in_the_client_id_is_replaced() -> None:
    assert decode(header(12, 0, b"a\xff")).client_id == "a\ufffd"


def test_tagged_fields_are_ignored() -> None:
    # Two fields: tag 5 with three bytes, and tag 300 without bytes.
    frame = header(12, 4, rest=b"\x02\x05\x03abc\xac\x02\x00body")
    assert frame[decode(frame).body :] == b"body"


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (header(999, 0), ProtocolError, "API key 999"),
        (header(-1, 3), ProtocolError, "key -1"),
        (header(7, 0), ProtocolError, "key 7"),
        (header(8, 1), UnsupportedVersion, r"OffsetCommit \(key 8\) is served in versions 2 to 10"),
        (header(8, 99), UnsupportedVersion, "not in version 99"),
        (header(8, -1), UnsupportedVersion, "not in version -1"),
        (header(0, 0), UnsupportedVersion, "Produce"),
        (b"", ProtocolError, "0 bytes is too short"),
        (header(12, 0)[:9], ProtocolError, "9 bytes is too short"),
        (header(12, 0)[:-1], ProtocolError, "too short"),
        (header(12, 4), ProtocolError, "a varint exceeds its buffer"),
        (header(12, 4, rest=b"\x01"), ProtocolError, "a varint exceeds its buffer"),
        (header(12, 4, rest=b"\x01\x00\x05abcd"), ProtocolError, "5 bytes exceeds"),
        (header(12, 4, rest=b"\xff" * 9), ProtocolError, "longer than 5 bytes"),
    ],
)
def test_header_for_which_kafka_closes_the_connection_is_an_error(
    frame: bytes, error: type[ProtocolError], message: str
) -> None:
    with pytest.raises(error, match=message):
        decode(frame)


def test_header_does_not_extend_into_the_next_frame() -> None:
    frame = header(12, 0, b"long name")
    with pytest.raises(ProtocolError, match="too short for its header"):
        decode_request_header(frame + frame, 0, len(frame) - 1)


def test_api_versions_is_decoded_in_any_version() -> None:
    newer = decode(header(18, 99, rest=b"\0junk"))
    assert (newer.api_key, newer.api_version, newer.correlation_id) == (18, 99, 7)
    assert decode(header(18, -1)).api_version == -1  # header v1
    with pytest.raises(ProtocolError, match="request header"):
        decode(header(18, 99, rest=b"\xff\xff\xff"))


@given(st.binary(max_size=60))
def test_random_bytes_are_decoded_as_a_header_or_rejected(frame: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert decode(frame).body <= len(frame)


def test_requests_are_described_by_api_and_version() -> None:
    for key, version, expected in [(8, 9, "OffsetCommit v9"), (999, 1, "API 999 v1")]:
        frame = header(key, version)
        assert describe_request(frame, 0, len(frame)) == expected
        assert api_key(frame, 0, len(frame)) == key
    assert api_key(b"\0\0\0", 0, 3) == -1
