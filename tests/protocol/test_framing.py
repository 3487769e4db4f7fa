"""Frames do not depend on how the stream was received."""

import tracemalloc
from itertools import pairwise
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.protocol.errors import ProtocolError
from kohort.protocol.framing import FRAME_BYTES_MAX, FRAME_BYTES_MIN, Framer, address

BODIES = st.lists(st.binary(min_size=FRAME_BYTES_MIN, max_size=60), max_size=6)


def framed(*bodies: bytes) -> bytes:
    return b"".join(pack(">i", len(body)) + body for body in bodies)


def feed(framer: Framer, data: bytes) -> list[bytes]:
    return [buffer[start:end] for buffer, start, end in framer.feed(data)]


@given(bodies=BODIES, cuts=st.lists(st.integers(0, 400), max_size=12))
def test_stream_cut_anywhere_results_in_the_same_frames(
    bodies: list[bytes], cuts: list[int]
) -> None:
    stream = framed(*bodies)
    framer = Framer()
    found = []
    edges = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    for start, end in pairwise(edges):
        found += feed(framer, stream[start:end])
    assert found == bodies
    assert framer._partial is None
    assert framer.error is None


@given(bodies=BODIES)
def test_stream_received_byte_by_byte_results_in_the_same_frames(bodies: list[bytes]) -> None:
    framer = Framer()
    found = [frame for byte in framed(*bodies) for frame in feed(framer, bytes([byte]))]
    assert found == bodies


def test_complete_frames_are_not_copied() -> None:
    data = framed(b"a" * 20, b"b" * 20)
    assert Framer().feed(data) == [(data, 4, 24), (data, 28, 48)]
    assert all(frame[0] is data for frame in Framer().feed(data))


@given(bodies=BODIES, reads=st.lists(st.integers(1, 40), min_size=1))
def test_frames_outlive_the_receive_buffer(bodies: list[bytes], reads: list[int]) -> None:
    stream = framed(*bodies)
    framer = Framer()
    received = memoryview(bytearray(max(reads)))
    frames = []
    position = 0
    while position < len(stream):
        for size in reads:
            piece = stream[position : position + size]
            received[: len(piece)] = piece
            frames += framer.feed(received[: len(piece)])
            position += len(piece)
    received[:] = bytes(len(received))
    assert [buffer[start:end] for buffer, start, end in frames] == bodies


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (-1, "invalid frame size -1"),
        (-(2**31), "invalid frame size -2147483648"),
        (0, "frame of 0 bytes is too short"),
        (1, "too short for a request header"),
        (FRAME_BYTES_MIN - 1, "too short for a request header"),
        (FRAME_BYTES_MAX + 1, r"exceeds socket.request.max.bytes \(104857600\)"),
        (2**31 - 1, "frame of 2147483647 bytes"),
    ],
)
@pytest.mark.parametrize("cut", [1, 4])
def test_invalid_frame_size_ends_the_stream(size: int, message: str, cut: int) -> None:
    framer = Framer()
    good = b"g" * 12
    stream = framed(good) + pack(">i", size)
    split = len(stream) - 4 + cut
    found = feed(framer, stream[:split]) + feed(framer, stream[split:])
    assert found == [good]
    with pytest.raises(ProtocolError, match=message):
        raise framer.error or AssertionError("no error")
    assert feed(framer, framed(good)) == []
    assert framer._partial is None


def test_maximum_frame_size_is_configurable() -> None:
    framer = Framer(frame_bytes_max=20)
    assert feed(framer, framed(b"x" * 20)) == [b"x" * 20]
    framer.feed(framed(b"x" * 21))
    assert "frame of 21 bytes exceeds" in str(framer.error)


def test_announced_frame_size_allocates_nothing() -> None:
    framer = Framer()
    tracemalloc.start()
    framer.feed(pack(">i", FRAME_BYTES_MAX) + b"only this")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000  # 100 MiB were announced; coverage allocates some memory


def test_the_partial_frame_is_measured() -> None:
    framer = Framer()
    assert (framer.partial_bytes, framer.partial_frame_bytes) == (0, 0)
    framer.feed(framed(b"a" * 20)[:10])
    assert (framer.partial_bytes, framer.partial_frame_bytes) == (10, 20)
    framer.feed(b"a" * 14)
    assert (framer.partial_bytes, framer.partial_frame_bytes) == (0, 0)


def test_large_frame_in_many_pieces_is_one_bytes_object() -> None:
    body = bytes(3_000_000)
    stream = framed(body)
    framer = Framer()
    found = []
    for start in range(0, len(stream), 1000):
        found += framer.feed(stream[start : start + 1000])
    ((buffer, start, end),) = found
    assert isinstance(buffer, bytes)
    assert (start, end, len(buffer)) == (4, len(stream), len(stream))


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "127.0.0.1:9092"), ("kafka", "kafka:9092"), ("::1", "[::1]:9092")],
)
def test_ipv6_address_has_brackets(host: str, expected: str) -> None:
    assert address(host, 9092) == expected
