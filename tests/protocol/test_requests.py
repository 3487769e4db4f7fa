"""Request bodies: what kio writes is read, and the worst that a client can send is an error.

kio's decoder alone would abort the process at some of what is sent here.
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
from kio_messages import EVERY_VERSION, kio_bytes, largest, messages, smallest, version_id
from kohort.protocol.apis import BY_KEY, Api
from kohort.protocol.errors import ProtocolError, UndecodableBody
from kohort.protocol.framing import Framer
from kohort.protocol.headers import read_request_header
from kohort.protocol.lenient import read_leniently
from kohort.protocol.messages import request_decoder, request_module

every_version = pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=version_id)


def request_class(api: Api, version: int) -> Any:
    return getattr(request_module(api.key, version), f"{api.name}Request")


@every_version
@pytest.mark.parametrize("make", [smallest, largest])
def test_a_request_is_read_as_it_was_meant(api: Api, version: int, make: Any) -> None:
    message = make(request_class(api, version))
    body = kio_bytes(message)
    for _ in range(2):  # the second time its beginning is remembered
        assert request_decoder(api.key, version)(b"??" + body, 2, 2 + len(body)) == message
    assert read_leniently(type(message), body, 0, len(body)) == message


@every_version
@settings(max_examples=settings.default.max_examples // 8)
@given(data=st.data())
def test_any_request_is_read_among_others_and_before_trailing_bytes(
    api: Api, version: int, data: st.DataObject
) -> None:
    message = data.draw(messages(request_class(api, version)))
    trailing = data.draw(st.binary(max_size=5))
    body = kio_bytes(message)
    buffer = b"before" + body + trailing + b"after"
    end = 6 + len(body) + len(trailing)
    assert request_decoder(api.key, version)(buffer, 6, end) == message
    assert read_leniently(type(message), buffer, 6, end) == message


def places_in(body: bytes) -> Sequence[int]:
    """All of them; of a long body, in which most are alike, some."""
    return range(len(body)) if len(body) < 200 else Random(1).sample(range(len(body)), 60)


@every_version
def test_a_request_cut_anywhere_is_an_error(api: Api, version: int) -> None:
    body = kio_bytes(largest(request_class(api, version)))
    for place in places_in(body):
        with pytest.raises(UndecodableBody):
            request_decoder(api.key, version)(body[:place], 0, place)
        with pytest.raises(UndecodableBody):  # the same in the midst of other frames
            request_decoder(api.key, version)(b"before" + body, 6, 6 + place)


@every_version
def test_a_claim_of_a_huge_array_anywhere_does_no_harm(api: Api, version: int) -> None:
    body = kio_bytes(smallest(request_class(api, version)))
    longer = kio_bytes(largest(request_class(api, version)))[:600]
    refused = 0
    claims = [pack(">i", 2**31 - 1), pack(">i", 2**30), b"\xff\xff\xff\xff\x07", b"\xff" * 6]
    for good in (body, longer):
        for place in (*places_in(good), len(good)):
            for claim in claims:
                bad = good[:place] + claim + good[place + len(claim) :]
                try:
                    request_decoder(api.key, version)(bad, 0, len(bad))
                except UndecodableBody:
                    refused += 1
    assert refused > 0 or not body


@pytest.mark.parametrize("version", [7, 8])
def test_a_null_array_is_refused_where_the_schema_has_none(version: int) -> None:
    message = smallest(request_class(BY_KEY[8], version))
    body = kio_bytes(message)
    null = body[:-4] + b"\xff" * 4 if version == 7 else body[:-2] + b"\0\0"
    with pytest.raises(UndecodableBody, match="topics is null"):
        request_decoder(8, version)(null, 0, len(null))


def test_a_remembered_beginning_does_not_vouch_for_a_shorter_body() -> None:
    decode = request_decoder(8, 7)
    start = b"\0\1g" + pack(">i", 1) + b"\0\1m\xff\xff" + pack(">i", 1) + b"\0\1t" + pack(">i", 3)
    body = start + (pack(">iqi", 0, 5, -1) + b"\xff\xff") * 3
    assert len(decode(body, 0, len(body)).topics[0].partitions) == 3
    with pytest.raises(UndecodableBody, match="partitions claims more items than bytes are left"):
        decode(body[:40], 0, 40)


def test_more_clients_than_are_remembered_are_served_all_the_same() -> None:
    decode = request_decoder(9, 5)
    for number in range(5000):
        group = f"group-{number}".encode()
        body = pack(">h", len(group)) + group + pack(">i", 0)
        assert decode(body, 0, len(body)).group_id == f"group-{number}"


def test_tagged_fields_that_nobody_knows_are_ignored() -> None:
    body = b"\x02g" + pack(">i", 1) + b"\x02m\0" + b"\x01\x63\x03abc"
    request = request_decoder(12, 4)(body, 0, len(body))
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 1, "m")


def test_text_that_is_not_utf_8_is_read_with_replacements() -> None:
    body = b"\0\2a\xff" + pack(">i", 1) + b"\0\1m"
    assert request_decoder(12, 0)(body, 0, len(body)).group_id == "a\ufffd"


def varint(value: int) -> bytes:
    return b"" if value == 0 else bytes([value & 127 | (value > 127) << 7]) + varint(value >> 7)


@pytest.mark.parametrize("length", [32_767, 32_768, 70_000])
@pytest.mark.parametrize("place", range(4))
def test_a_string_is_no_longer_than_kafka_allows(length: int, place: int) -> None:
    """Kafka closes the connection; nothing of ours could write it down."""
    texts = [varint(length + 1) + b"x" * length if at == place else b"\x02x" for at in range(4)]
    group_id, member_id, protocol, reason = texts
    protocols = b"\x02" + protocol + b"\x02m\0"
    body = group_id + pack(">ii", 1, 1) + member_id + b"\0\x02c" + protocols + reason + b"\0"
    if length == 32_767:
        request = request_decoder(11, 9)(body, 0, len(body))
        said = request.group_id, request.member_id, request.protocols[0].name, request.reason
        assert len(said[place]) == length
    else:
        with pytest.raises(UndecodableBody, match="is longer than a string may be"):
            request_decoder(11, 9)(body, 0, len(body))


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
def test_a_surrogate_is_one_bad_character_as_to_java(data: bytes, text: str) -> None:
    body = pack(">h", len(data)) + data + pack(">i", 1) + b"\0\1m"
    assert request_decoder(12, 0)(body, 0, len(body)).group_id == text


def test_text_that_is_not_utf_8_may_not_grow_beyond_that() -> None:
    def group_of(size: int) -> bytes:
        return pack(">h", size) + b"\xff" * size + pack(">i", 1) + b"\0\1m"

    body = group_of(10_922)
    assert request_decoder(12, 0)(body, 0, len(body)).group_id == "\ufffd" * 10_922
    body = group_of(10_923)
    with pytest.raises(UndecodableBody, match="group_id is longer than a string may be"):
        request_decoder(12, 0)(body, 0, len(body))


@pytest.mark.parametrize("ms", [2**63 - 1, -(2**63)])
def test_a_time_beyond_all_measure_is_for_ever(ms: int) -> None:
    body = b"\0\1g" + pack(">i", -1) + b"\0\0" + pack(">qi", ms, 0)
    retention_time = request_decoder(8, 4)(body, 0, len(body)).retention_time
    assert retention_time == (timedelta.max if ms > 0 else timedelta.min)


def test_any_negative_length_is_null() -> None:
    body = b"\0\1g" + pack(">i", 1) + b"\0\1m" + pack(">h", -7)
    assert request_decoder(12, 3)(body, 0, len(body)).group_instance_id is None


def handle(stream: bytes) -> None:
    framer = Framer(frame_bytes_max=1 << 20)
    for buffer, start, end in framer.feed(stream):
        header = read_request_header(buffer, start, end)
        api = BY_KEY[header.api_key]
        if api.serves(header.api_version):
            request_decoder(api.key, header.api_version)(buffer, header.body, end)
    if framer.error is not None:
        raise framer.error


def junk(random: Random) -> bytes:
    """Random bytes, a valid header with random bytes, or a valid request somewhat changed."""
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


def test_junk_is_answered_by_protocol_errors_only_and_takes_no_memory() -> None:
    random = Random(4711)
    streams = [junk(random) for _ in range(1000)]
    refused = 0
    for measured in (False, True):  # the first round imports schemas and compiles guards
        if measured:
            tracemalloc.start()
        for stream in streams:
            try:
                handle(stream)
            except ProtocolError:
                refused += 1
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused > 1000
    assert kept < 1_000_000
    assert peak < 4_000_000
