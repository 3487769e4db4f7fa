"""Decoding of requests, with kio as the oracle, and of any bytes a peer may send. Responses are
decoded in test_encoder.py.

kio's own decoder would abort the process on some of the bytes here.
"""

import tracemalloc
from collections.abc import Sequence
from datetime import timedelta
from random import Random
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kohort.conformance.wire import kio_bytes, smallest
from kohort.protocol.apis import API_VERSIONS, BY_KEY, Api
from kohort.protocol.errors import DecodeError, ErrorCode, ProtocolError
from kohort.protocol.framing import Framer, decode_request_header
from kohort.protocol.messages import (
    request_decoder,
    request_field_locator,
    request_module,
    response_decoder,
    response_encoder,
    response_module,
)
from kohort.protocol.primitives import unsigned_varint
from support.kio_messages import EVERY_VERSION, largest, messages, version_id

every_version = pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=version_id)


def request_class(api: Api, version: int) -> Any:
    return getattr(request_module(api.key, version), f"{api.name}Request")


def response_class(api: Api, version: int) -> Any:
    return getattr(response_module(api.key, version), f"{api.name}Response")


def decode(key: int, version: int, body: bytes) -> Any:
    return request_decoder(key, version)(body, 0, len(body))


# --- everything that kio encodes


@every_version
def test_requests_are_decoded_as_kio_encodes_them(api: Api, version: int) -> None:
    for make in (smallest, largest):
        message = make(request_class(api, version))
        body = kio_bytes(message)
        decoded = request_decoder(api.key, version)(b"??" + body, 2, 2 + len(body))
        assert decoded == message
        assert repr(decoded) == repr(message)


# Fewer examples than elsewhere, because each runs for about 190 schemas.
@every_version
@settings(max_examples=settings.default.max_examples // 8)
@given(data=st.data())
def test_any_request_is_decoded_between_other_frames_and_with_trailing_bytes(
    api: Api, version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(request_class(api, version)))
    trailing = data.draw(st.binary(max_size=5))
    body = kio_bytes(message)
    buffer = b"before" + body + trailing + b"after"
    end = 6 + len(body) + len(trailing)
    assert request_decoder(api.key, version)(buffer, 6, end) == message


def commit_of(metadata: list[str | None]) -> Any:
    module = request_module(8, 9)
    partitions = tuple(
        module.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=9 - index, committed_metadata=each
        )
        for index, each in enumerate(metadata)
    )
    topic = module.OffsetCommitRequestTopic(name="t", partitions=partitions)
    return module.OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=1, member_id="m", topics=(topic,)
    )


@pytest.mark.parametrize(
    "metadata",
    [["", ""], [None, ""], ["", "note", ""], ["", "", "note"], ["note"], ["x" * 200, ""]],
)
def test_items_of_one_size_and_others_are_decoded_alike(metadata: list[str | None]) -> None:
    message = commit_of(metadata)
    assert decode(8, 9, kio_bytes(message)) == message


def test_tagged_fields_in_items_of_one_size_are_ignored() -> None:
    body = kio_bytes(commit_of(["", ""]))
    # The last three bytes are the counts of tagged fields of partition, topic and request.
    tagged = body[:-3] + b"\x01\x63\x03abc" + body[-2:]
    assert decode(8, 9, tagged) == commit_of(["", ""])


def test_messages_are_equivalent_to_those_of_kio() -> None:
    message = commit_of(["note"])
    decoded = decode(8, 9, kio_bytes(message))
    assert isinstance(decoded, type(message))
    assert message == decoded
    assert hash(message) == hash(decoded)


# --- malformed bodies


def places_in(body: bytes) -> Sequence[int]:
    """Return all positions or, for a long body, some of them, because most are alike."""
    return range(len(body)) if len(body) < 200 else Random(1).sample(range(len(body)), 60)


@every_version
def test_request_cut_anywhere_is_an_error(api: Api, version: int) -> None:
    body = kio_bytes(largest(request_class(api, version)))
    for place in places_in(body):
        with pytest.raises(DecodeError):
            request_decoder(api.key, version)(body[:place], 0, place)
        with pytest.raises(DecodeError):  # also between other frames
            request_decoder(api.key, version)(b"before" + body, 6, 6 + place)


@every_version
def test_claim_of_a_huge_array_anywhere_is_harmless(api: Api, version: int) -> None:
    body = kio_bytes(smallest(request_class(api, version)))
    longer = kio_bytes(largest(request_class(api, version)))[:600]
    errors = 0
    claims = [pack(">i", 2**31 - 1), pack(">i", 2**30), b"\xff\xff\xff\xff\x07", b"\xff" * 6]
    for good in (body, longer):
        for place in (*places_in(good), len(good)):
            for claim in claims:
                try:
                    decode(api.key, version, good[:place] + claim + good[place + len(claim) :])
                except DecodeError:
                    errors += 1
    assert errors > 0 or not body


def test_errors_name_the_field_and_its_position() -> None:
    start = b"\0\1g" + pack(">i", 1) + b"\0\1m\xff\xff" + pack(">i", 1) + b"\0\1t" + pack(">i", 3)
    body = start + (pack(">iqi", 0, 5, -1) + b"\xff\xff") * 3
    assert len(decode(8, 7, body).topics[0].partitions) == 3
    with pytest.raises(
        DecodeError,
        match=r"OffsetCommitRequest v7: topics\.partitions claims 3 items, more than fit"
        r" into the remaining bytes \(at byte 23 of 40\)",
    ):
        decode(8, 7, body[:40])
    with pytest.raises(
        DecodeError, match=r"v7: generation_id_or_member_epoch ends early \(at byte 3 of 8\)"
    ):
        decode(8, 7, body[:8])


@pytest.mark.parametrize("version", [7, 8])
def test_null_array_is_an_error_where_the_schema_has_none(version: int) -> None:
    body = kio_bytes(smallest(request_class(BY_KEY[8], version)))
    null = body[:-4] + b"\xff" * 4 if version == 7 else body[:-2] + b"\0\0"
    with pytest.raises(DecodeError, match="topics is null"):
        decode(8, version, null)


@pytest.mark.parametrize("null", [b"\xff\xff", b"\x80\x00"])
def test_null_string_is_an_error_where_the_schema_has_none(null: bytes) -> None:
    """A null compact string may also be encoded in two bytes."""
    version = 3 if null == b"\xff\xff" else 4
    with pytest.raises(DecodeError, match="group_id is null"):
        decode(12, version, null + bytes(20))


# --- messages that Kafka accepts and kio rejects


def test_unknown_tagged_fields_are_ignored() -> None:
    body = b"\x02g" + pack(">i", 1) + b"\x02m\0" + b"\x01\x63\x03abc"
    request = decode(12, 4, body)
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 1, "m")


def test_unknown_tagged_fields_among_known_ones_are_ignored() -> None:
    module = request_module(1, 12)
    message = largest(module.FetchRequest)
    body = kio_bytes(message)
    tagged = b"\x01\x00" + unsigned_varint(len(message.cluster_id.encode()) + 2)
    assert tagged in body
    assert decode(1, 12, body.replace(tagged, b"\x02" + tagged[1:]) + b"\x63\x03abc") == message


def test_responses_with_unknown_tagged_fields_are_decoded() -> None:
    frame = response_encoder(12, 4)(smallest(response_class(BY_KEY[12], 4)), 7)
    tagged = frame[:8] + b"\x01\x63\x02ab" + frame[9:-1] + b"\x01\x63\x03abc"
    assert response_decoder(12, 4)(tagged).error_code is ErrorCode.none
    with pytest.raises(DecodeError, match="Heartbeat response header"):
        response_decoder(12, 4)(frame[:8] + b"\x01\x63\x7fab")


def test_unknown_error_code_is_an_error() -> None:
    with pytest.raises(DecodeError, match="error_code has the unknown error code 9999"):
        response_decoder(12, 0)(pack(">iih", 6, 7, 9999))


def test_api_versions_response_has_the_old_header() -> None:
    message = smallest(response_class(BY_KEY[API_VERSIONS], 3))
    frame = pack(">ii", 0, 7) + kio_bytes(message)
    assert response_decoder(API_VERSIONS, 3)(frame) == message


def test_any_negative_length_is_null() -> None:
    body = b"\0\1g" + pack(">i", 1) + b"\0\1m" + pack(">h", -7)
    assert decode(12, 3, body).group_instance_id is None


def test_malformed_utf8_is_replaced() -> None:
    body = b"\0\2a\xff" + pack(">i", 1) + b"\0\1m"
    assert decode(12, 0, body).group_id == "a\ufffd"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xed\xa0\x80", "\ufffd"),
        (b"\xed\xbf\xbf\xed\xa0\x80a", "\ufffd\ufffda"),
        (b"\xed\xa0a", "\ufffda"),
        (b"\xed\xa0", "\ufffd"),
        (b"\xed\x9f\xbf\xff", "\ud7ff\ufffd"),
        (b"\xf4\x90\x80\x80", "\ufffd" * 4),
    ],
)
def test_encoded_surrogate_is_replaced_by_one_character_as_in_java(data: bytes, text: str) -> None:
    body = pack(">h", len(data)) + data + pack(">i", 1) + b"\0\1m"
    assert decode(12, 0, body).group_id == text


# --- limits


@pytest.mark.parametrize("length", [32_767, 32_768, 70_000])
@pytest.mark.parametrize("place", range(4))
def test_string_is_limited_to_kafkas_maximum(length: int, place: int) -> None:
    """Kafka closes the connection. kohort could not encode a longer string again."""
    long = unsigned_varint(length + 1) + b"x" * length
    texts = [long if at == place else b"\x02x" for at in range(4)]
    group_id, member_id, protocol, reason = texts
    protocols = b"\x02" + protocol + b"\x02m\0"
    body = group_id + pack(">ii", 1, 1) + member_id + b"\0\x02c" + protocols + reason + b"\0"
    if length == 32_767:
        request = decode(11, 9, body)
        decoded = request.group_id, request.member_id, request.protocols[0].name, request.reason
        assert len(decoded[place]) == length
    else:
        with pytest.raises(DecodeError, match=f"has {length} bytes, but a string may have at most"):
            decode(11, 9, body)


def test_string_with_replacements_is_limited_to_kafkas_maximum() -> None:
    def body(size: int) -> bytes:
        return pack(">h", size) + b"\xff" * size + pack(">i", 1) + b"\0\1m"

    def compact_body(size: int) -> bytes:
        return unsigned_varint(size + 1) + b"\xff" * size + pack(">i", 1) + b"\x02m\0\0"

    assert decode(12, 0, body(10_922)).group_id == "\ufffd" * 10_922
    assert decode(12, 4, compact_body(10_922)).group_id == "\ufffd" * 10_922
    for version, malformed in ((0, body(10_923)), (4, compact_body(10_923))):
        with pytest.raises(DecodeError, match="group_id has 32769 bytes, but a string may"):
            decode(12, version, malformed)


@pytest.mark.parametrize("ms", [2**63 - 1, -(2**63)])
def test_duration_beyond_pythons_range_is_its_limit(ms: int) -> None:
    body = b"\0\1g" + pack(">i", -1) + b"\0\0" + pack(">qi", ms, 0)
    retention_time = decode(8, 4, body).retention_time
    assert retention_time == (timedelta.max if ms > 0 else timedelta.min)


# --- the positions of fields, for the request cache


def test_finder_returns_the_positions_of_a_field() -> None:
    body = kio_bytes(commit_of(["", "note", None]))
    found = request_field_locator(8, 9, "committed_offset")(
        b"??" + body + b"more", 2, 2 + len(body)
    )
    assert [letter for _, letter in found] == ["q", "q", "q"]
    offsets = [int.from_bytes((b"??" + body)[at : at + 8], "big") for at, _ in found]
    assert offsets == [9, 8, 7]


def test_finder_accepts_what_the_decoder_accepts() -> None:
    body = b"\0\2a\xff" + pack(">i", 1) + b"\0\1m"
    assert request_field_locator(12, 0, "generation_id")(body, 0, len(body)) == [(4, "i")]
    with pytest.raises(DecodeError):
        request_field_locator(12, 0, "generation_id")(body, 0, len(body) - 1)


# --- random streams


def handle(stream: bytes) -> None:
    framer = Framer(frame_bytes_max=1 << 20)
    for buffer, start, end in framer.feed(stream):
        header = decode_request_header(buffer, start, end)
        api = BY_KEY[header.api_key]
        if api.serves(header.api_version):
            request_decoder(api.key, header.api_version)(buffer, header.body, end)
    if framer.error is not None:
        raise framer.error


def junk(random: Random) -> bytes:
    """Draw random bytes, a valid header with random bytes, or a changed valid request."""
    kind = random.randrange(3)
    if kind == 0:
        return random.randbytes(random.randrange(80))
    api, version = random.choice(EVERY_VERSION)
    header = pack(">hhih", api.key, version, 1, -1) + b"\0" * (version >= api.flexible_from)
    if kind == 1:
        body = bytes(random.choice(b"\0\0\0\x01\x02\x7f\xff") for _ in range(random.randrange(60)))
    else:
        changed = bytearray(kio_bytes(largest(request_class(api, version)))[:1000])
        for _ in range(3):
            if changed:
                changed[random.randrange(len(changed))] = random.choice(b"\0\x01\x7f\x80\xff")
        body = bytes(changed)
    return pack(">i", len(header) + len(body)) + header + body


def test_random_streams_raise_only_protocol_errors_and_take_no_memory() -> None:
    random = Random(4711)
    streams = [junk(random) for _ in range(1000)]
    errors = 0
    for measured in (False, True):  # the first pass imports schemas and generates decoders
        if measured:
            tracemalloc.start()
        for stream in streams:
            try:
                handle(stream)
            except ProtocolError:
                errors += 1
    retained, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert errors > 1000
    assert retained < 1_000_000
    assert peak < 4_000_000
