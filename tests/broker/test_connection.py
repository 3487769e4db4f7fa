"""One connection with a fake transport: order of responses, muting, flow control, closing."""

import asyncio
import struct
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kohort.broker.network.connection import CHUNK_BYTES, IN_FLIGHT_MAX, UNSENT_BYTES_MAX
from kohort.broker.network.outbox import TURN_SECONDS, Turns
from kohort.broker.network.request import RequestContext
from kohort.log.files import File
from kohort.log.memory_files import MemoryFiles
from kohort.log.segment import FileSlice
from kohort.protocol.budgets import LONG_REQUESTS_MAX, Budgets
from kohort.protocol.errors import EncodeError, ManyItems
from support.connection import BAD, Peer, frame


async def iterations() -> None:
    """Run two iterations of the loop: callbacks, and the callbacks that they schedule."""
    for _ in range(2):
        await asyncio.sleep(0)


@pytest.fixture
async def peer() -> Peer:
    return Peer()


async def test_responses_are_sent_in_the_order_of_requests(peer: Peer) -> None:
    peer.send(1, 2, 3)
    peer.contexts[2].respond(None)
    peer.contexts[1].respond(None)
    await iterations()
    assert peer.transport.sent == b""
    peer.contexts[0].respond(None)
    await iterations()
    assert peer.transport.written == [bytes([1, 2, 3])], "three responses are one write"


async def test_a_large_response_is_sent_in_buffers(peer: Peer) -> None:
    peer.send(1, 2, 3)
    peer.contexts[2].respond(None)
    records = bytes(range(100))
    peer.contexts[1].respond_in_buffers(
        None, lambda _, correlation_id: [bytes([correlation_id]), records]
    )
    assert peer.contexts[1].response_bytes == bytes([2]) + records
    peer.contexts[0].respond(None)
    await iterations()
    assert peer.transport.written == [bytes([1]), bytes([2]), records, bytes([3])]
    assert peer.transport.written[2] is records


async def test_a_client_that_does_not_read_a_large_response_gets_no_more() -> None:
    def handle(context: RequestContext, _node: Any) -> None:
        peer.contexts.append(context)
        context.respond_in_buffers(None, lambda *_: [b"head", bytes(UNSENT_BYTES_MAX)])

    peer = Peer(handle)
    peer.transport.on_write = peer.connection.pause_writing
    peer.send(1, 2, 3)
    await iterations()
    assert peer.ids == [1]


def file_with(content: bytes) -> File:
    files, folder = MemoryFiles(), Path("/data")
    files.make_folder(folder)
    file = files.open(folder / "segment", create=True)
    file.append(content)
    return file


async def test_records_in_a_file_are_read_as_their_client_reads_them() -> None:
    content = b"x" + bytes(3 * CHUNK_BYTES)

    def handle(context: RequestContext, _node: Any) -> None:
        peer.contexts.append(context)
        records = FileSlice(file_with(content), 1, 3 * CHUNK_BYTES, 1)
        context.respond_in_buffers(None, lambda *_: [b"head", records, b"tail"])

    peer = Peer(handle)
    peer.transport.on_write = peer.connection.pause_writing
    peer.send(1, 2)
    sizes = []
    for _ in range(5):
        await iterations()
        sizes.append(len(peer.transport.sent))
        peer.connection.resume_writing()
    first = 4 + 3 * CHUNK_BYTES + 4
    assert sizes == [4, 4 + CHUNK_BYTES, 4 + 2 * CHUNK_BYTES, 4 + 3 * CHUNK_BYTES, first]
    assert peer.ids == [1]  # the next request waits until everything has been written
    peer.transport.on_write = lambda: None
    for _ in range(5):
        await iterations()
    assert peer.ids == [1, 2]
    assert peer.transport.sent == 2 * (b"head" + content[1:] + b"tail")


async def test_a_file_that_cannot_be_read_closes_the_connection() -> None:
    def handle(context: RequestContext, _node: Any) -> None:
        records = FileSlice(file_with(b"short"), 0, CHUNK_BYTES, 1)
        context.respond_in_buffers(None, lambda *_: [b"head", records])

    peer = Peer(handle)
    peer.send(1)
    await iterations()
    assert peer.transport.sent == b"head"
    assert peer.transport.is_closed


@pytest.mark.parametrize("follows_a_file", [False, True])
async def test_the_connection_that_has_waited_longest_pays_for_too_many_unread_responses(
    *, follows_a_file: bool
) -> None:
    first, second = Peer(), Peer()
    budgets = second.connection._budgets = first.connection._budgets
    size = budgets.responses.bytes_max // 2 + 1
    before = [FileSlice(file_with(bytes(CHUNK_BYTES)), 0, CHUNK_BYTES, 1)] if follows_a_file else []
    for peer in (first, second):
        peer.transport.on_write = peer.connection.pause_writing
        peer.send(1)
        assert not first.transport.is_closed
        peer.contexts[0].respond_in_buffers(None, lambda *_: [b"head", *before, bytes(size)])
        await iterations()
    assert first.transport.is_closed
    assert not second.transport.is_closed
    first.connection.connection_lost(None)
    assert budgets.responses.total > size
    second.transport.on_write = lambda: None
    second.transport.written.clear()
    second.connection.resume_writing()
    for _ in range(2 * size // CHUNK_BYTES + 2):
        await iterations()
    assert budgets.responses.total == 0


async def test_the_connection_that_has_waited_longest_pays_for_too_many_partial_requests() -> None:
    first, second = Peer(), Peer()
    second.connection._budgets = first.connection._budgets = Budgets(1_000)
    half = (900).to_bytes(4, "big") + frame(1)[4:] + bytes(500)
    first.connection.data_received(half)
    second.connection.data_received(half)
    assert first.transport.is_closed
    second.connection.data_received(bytes(904 - len(half)))
    assert second.ids == [1]
    assert not second.transport.is_closed
    second.connection.connection_lost(None)
    assert first.connection._budgets.requests.total == 0


def peer_with_long_requests() -> tuple[Peer, asyncio.Event]:
    """Return a peer whose requests are decoded in a thread, and an event that is set when a request
    has been handled."""
    handled = asyncio.Event()

    def handle(context: RequestContext, _node: Any) -> None:
        peer.contexts.append(context)
        handled.set()

    def decode(*_: Any) -> None:
        raise ManyItems

    peer = Peer(handle)
    peer.connection._routes.find(12, 0).decode = decode
    return peer, handled


@pytest.mark.parametrize("reads", [1, 2])
async def test_a_long_request_is_charged_until_it_has_been_decoded(reads: int) -> None:
    peer, handled = peer_with_long_requests()
    budget = peer.connection._budgets.requests
    body = struct.pack(">h90sih1s", 90, b"g" * 90, 1, 1, b"m")
    request = struct.pack(">i", 10 + len(body)) + frame(1)[4:] + body
    split = 0 if reads == 1 else 50
    for data in filter(None, (request[:split], request[split:])):
        peer.connection.data_received(data)
    assert budget.total == len(body)
    await handled.wait()
    peer.contexts[0].respond(None)
    assert peer.contexts[0].request.member_id == "m"
    assert budget.total == 0


def test_an_incomplete_frame_of_a_lost_connection_uses_no_memory(peer: Peer) -> None:
    """The memory is freed even while something, such as a reference cycle, keeps the connection
    alive."""
    peer.connection.data_received(frame(1)[:-1])
    assert peer.connection._framer.partial_bytes > 0
    peer.connection.connection_lost(None)
    assert peer.connection._framer.partial_bytes == 0
    assert peer.connection._budgets.requests.total == 0


async def test_a_waiting_long_request_of_a_lost_connection_uses_no_memory() -> None:
    peer, _ = peer_with_long_requests()
    long_requests = peer.connection._budgets.long_requests
    for _ in range(LONG_REQUESTS_MAX):
        long_requests.begin(lambda: None)
    request = frame(1)
    references = sys.getrefcount(request)
    peer.connection.data_received(request)
    assert sys.getrefcount(request) > references
    peer.connection.connection_lost(None)
    assert sys.getrefcount(request) == references
    long_requests.end()
    assert long_requests.begin_now(), "nothing is decoded"


async def test_a_large_response_that_cannot_be_encoded_closes_the_connection(peer: Peer) -> None:
    def write(_message: Any, _correlation_id: int) -> list[bytes]:
        raise EncodeError("injected error")

    peer.send(1, 2)
    peer.contexts[0].respond_in_buffers(None, write)
    await iterations()
    assert peer.transport.sent == b""
    peer.contexts[1].respond(None)
    await iterations()
    assert peer.transport.is_closed


async def test_a_waiting_request_does_not_hold_back_the_next(peer: Peer) -> None:
    peer.send(1, 2)
    assert peer.ids == [1, 2]


async def test_a_muted_channel_holds_back_later_requests(peer: Peer) -> None:
    peer.send(1)
    peer.contexts[0].mute_channel()
    peer.send(2, 3)
    assert peer.ids == [1]
    assert not peer.transport.is_reading
    peer.contexts[0].respond(None)
    await iterations()
    assert peer.ids == [1, 2, 3]
    assert peer.transport.is_reading


async def test_a_request_can_mute_the_channel_while_later_ones_are_received(peer: Peer) -> None:
    muting = Peer(lambda context, _: (muting.contexts.append(context), context.mute_channel())[0])
    muting.send(1, 2)
    assert muting.ids == [1]
    muting.contexts[0].respond(None)
    await iterations()
    assert muting.ids == [1, 2]


async def test_the_backlog_of_a_disconnected_client_is_not_handled(peer: Peer) -> None:
    peer.send(1, 2)
    peer.transport.on_write = peer.transport.abort  # as asyncio does after a reset
    peer.connection.mute(peer.contexts[0])
    peer.send(3)
    peer.contexts[0].respond(None)
    await iterations()
    assert peer.ids == [1, 2]


async def test_a_request_with_a_response_does_not_mute_the_channel() -> None:
    def handle(context: RequestContext, _node: Any) -> None:
        context.respond(None)
        context.mute_channel()

    peer = Peer(handle)
    peer.send(1, 2)
    assert peer.transport.sent == bytes([1, 2])


async def test_a_request_without_a_response_is_skipped(peer: Peer) -> None:
    peer.send(1, 2, 3)
    peer.contexts[0].respond(None)
    peer.contexts[1].complete_without_response()
    peer.contexts[2].respond(None)
    await iterations()
    assert peer.transport.sent == bytes([1, 3])


async def test_requests_before_an_invalid_frame_get_responses_before_the_close(peer: Peer) -> None:
    peer.connection.data_received(frame(1) + BAD + frame(2))
    assert peer.ids == [1]
    assert not peer.transport.is_closed
    peer.contexts[0].respond(None)
    await iterations()
    assert peer.transport.sent == bytes([1])
    assert peer.transport.is_closed


async def test_held_back_requests_before_an_invalid_frame_get_responses_too(peer: Peer) -> None:
    peer.send(1)
    peer.contexts[0].mute_channel()
    peer.connection.data_received(frame(2) + BAD)
    peer.contexts[0].respond(None)
    await iterations()
    assert peer.ids == [1, 2]
    peer.contexts[1].respond(None)
    await iterations()
    assert peer.transport.sent == bytes([1, 2])
    assert peer.transport.is_closed


async def test_all_held_back_requests_get_responses_though_garbage_follows(peer: Peer) -> None:
    peer.send(1)
    peer.contexts[0].mute_channel()
    peer.connection.data_received(frame(2) + frame(3) + BAD)
    for place in range(3):
        peer.contexts[place].respond(None)
        await iterations()
    assert peer.transport.sent == bytes([1, 2, 3])
    assert peer.transport.is_closed


async def test_large_responses_are_spread_over_iterations_of_the_loop() -> None:
    def handle(context: RequestContext, _node: Any) -> None:
        peer.contexts.append(context)
        context.response = bytes(UNSENT_BYTES_MAX)
        peer.connection.response_ready(context)

    peer = Peer(handle)
    peer.send(1, 2, 3)
    assert peer.ids == [1]
    assert not peer.transport.is_reading
    await iterations()
    await iterations()
    assert peer.ids == [1, 2, 3]
    assert peer.transport.is_reading


async def test_a_client_that_does_not_read_its_responses_gets_no_more() -> None:
    def handle(context: RequestContext, _node: Any) -> None:
        peer.contexts.append(context)
        context.response = bytes(UNSENT_BYTES_MAX)
        peer.connection.response_ready(context)

    peer = Peer(handle)
    # asyncio does this when its buffer is full.
    peer.transport.on_write = peer.connection.pause_writing
    peer.send(1, 2, 3)
    await iterations()
    assert peer.ids == [1]
    peer.connection.resume_writing()
    await iterations()
    assert peer.ids == [1, 2]


async def test_a_half_closed_client_still_gets_its_responses(peer: Peer) -> None:
    peer.send(1, 2)
    assert peer.connection.eof_received() is True
    peer.contexts[0].respond(None)
    await iterations()
    assert not peer.transport.is_closed
    peer.contexts[1].respond(None)
    await iterations()
    assert peer.transport.sent == bytes([1, 2])
    assert peer.transport.is_closed
    peer.connection.connection_lost(None)


async def test_a_half_closed_client_without_pending_requests_is_closed(peer: Peer) -> None:
    assert peer.connection.eof_received() is False


async def test_an_invalid_frame_alone_closes_at_once(peer: Peer) -> None:
    peer.connection.data_received(BAD)
    assert peer.transport.is_closed
    peer.send(1)
    assert peer.ids == []


async def test_requests_in_flight_are_limited(peer: Peer) -> None:
    total = 0
    while total <= IN_FLIGHT_MAX:
        peer.send(*range(10))
        total += 10
    assert len(peer.contexts) == IN_FLIGHT_MAX
    assert not peer.transport.is_reading
    for context in peer.contexts[:100]:
        context.respond(None)
    await iterations()
    await iterations()
    assert len(peer.contexts) == total
    assert peer.transport.is_reading


async def test_connections_that_send_much_are_read_in_turns() -> None:
    turns = Turns(asyncio.get_running_loop().call_soon)
    peers = [Peer(turns=turns) for _ in range(3)]
    for peer in peers:
        peer.fill_inbox()
        assert peer.ids == [1]
    for reading in range(4):
        assert [peer.transport.is_reading for peer in peers] == [
            number < reading for number in range(3)
        ]
        await asyncio.sleep(0)


async def test_if_memory_is_scarce_requests_in_progress_are_received_first() -> None:
    size = len(frame(1))
    begin, more = (3 * size - 4).to_bytes(4).ljust(size, b"x"), bytes(size)
    turns, budgets = Turns(asyncio.get_running_loop().call_soon), Budgets[Any](6 * size)
    peers = [Peer(turns=turns) for _ in range(3)]
    for peer in peers:
        peer.connection._budgets = budgets
        peer.fill_inbox(begin)
    await asyncio.sleep(0)
    peers[0].fill_inbox(more)  # four times `size` is held
    reading = []
    for _ in range(3):
        await asyncio.sleep(0)
        reading.append([peer.transport.is_reading for peer in peers])
    assert reading == [[True, False, False], [True, True, False], [True, True, True]]


async def test_a_muted_connection_is_read_again_after_its_turn() -> None:
    """A disconnection is noticed only while the connection is read."""
    peer = Peer(lambda context, _node: peer.connection.mute(context))
    peer.fill_inbox()
    assert not peer.transport.is_reading
    await iterations()
    assert peer.transport.is_reading


async def test_connections_with_slow_requests_take_turns() -> None:
    handled: list[int] = []

    def handle(context: RequestContext, _node: Any) -> None:
        handled.append(context.correlation_id)
        time.sleep(TURN_SECONDS)  # the work of the request

    turns = Turns(asyncio.get_running_loop().call_soon)
    first, second = Peer(handle, turns), Peer(handle, turns)
    first.send(1, 2, 3)
    second.send(4, 5)
    for expected in ([1, 4], [1, 4, 2], [1, 4, 2, 5], [1, 4, 2, 5, 3]):
        assert handled == expected
        await asyncio.sleep(0)


async def test_many_connections_with_slow_requests_share_an_iteration_of_the_loop() -> None:
    handled: list[int] = []
    turn_seconds = 0.2  # a sleep takes longer on a busy machine

    def handle(context: RequestContext, _node: Any) -> None:
        handled.append(context.correlation_id)
        time.sleep(0.6 * turn_seconds)  # the work of the request

    turns = Turns(asyncio.get_running_loop().call_soon, turn_seconds)
    first, second = Peer(handle, turns), Peer(handle, turns)
    first.send(1, 2, 3)
    second.send(4, 5)
    assert handled == [1, 2, 4]


async def test_reading_is_paused_while_writing_is_paused(peer: Peer) -> None:
    peer.connection.pause_writing()
    assert not peer.transport.is_reading
    peer.connection.resume_writing()
    assert peer.transport.is_reading


async def test_a_response_to_a_request_that_waited_makes_the_connection_active() -> None:
    peer = Peer(lambda context, _node: context.respond(None))
    peer.connection.pause_writing()
    peer.send(1, 2)
    peer.connection.last_active = 0.0
    peer.connection.resume_writing()
    await iterations()
    assert peer.transport.sent == bytes([1, 2])
    assert peer.connection.last_active > 0


async def test_an_error_without_a_response_closes_the_connection() -> None:
    def handle(context: RequestContext, _node: Any) -> None:
        peer.contexts.append(context)
        if context.correlation_id == 2:
            context.close_connection("acks=0 and an unknown topic")

    peer = Peer(handle)
    peer.send(1, 2, 3)
    assert peer.ids == [1, 2]
    assert not peer.transport.is_closed
    peer.contexts[0].respond(None)
    await iterations()
    assert peer.transport.sent == bytes([1])
    assert peer.transport.is_closed


async def test_the_backlog_is_dropped_if_a_request_closes_the_connection() -> None:
    def handle(context: RequestContext, _node: Any) -> None:
        peer.contexts.append(context)
        context.mute_channel()

    peer = Peer(handle)
    peer.send(1, 2, 3)
    peer.contexts[0].close_connection("acks=0 and an unknown topic")
    await iterations()
    assert peer.ids == [1]
    assert peer.transport.is_closed


async def test_pending_requests_are_notified_of_a_lost_connection(peer: Peer) -> None:
    peer.send(1, 2)
    notified: list[int] = []
    peer.contexts[1].on_disconnect(lambda: notified.append(2))
    peer.connection.connection_lost(None)
    assert notified == [2]
    assert peer.contexts[0].is_disconnected
    assert peer.lost == [peer.connection]
    peer.contexts[0].respond(None)
    await iterations()
    assert peer.transport.sent == b""


async def test_a_bug_in_a_handler_closes_the_connection_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def handle(_call: RequestContext, _node: Any) -> None:
        raise RuntimeError("a bug")

    peer = Peer(handle)
    peer.send(1)
    assert peer.transport.is_closed
    assert "Handling Heartbeat v0 failed" in caplog.text


async def test_a_response_that_cannot_be_encoded_closes_only_its_connection(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    def write(message: Any, correlation_id: int) -> bytes:
        if message == "too long":
            raise EncodeError("HeartbeatResponse v0 cannot be written")
        return bytes([correlation_id])

    peer.write = write
    peer.send(1, 2)
    peer.contexts[1].respond("too long")  # does not raise: callers also respond to other requests
    peer.contexts[0].respond(None)
    await iterations()
    assert (peer.transport.sent, peer.transport.is_closed) == (bytes([1]), True)
    assert "HeartbeatResponse v0 cannot be written" in caplog.text


async def test_the_client_host_is_formatted_as_in_kafka(peer: Peer) -> None:
    peer.send(1)
    assert peer.contexts[0].client_host == "/10.0.0.5"
