"""Order, holding back and regulation of one connection, with a transport made of lists."""

import asyncio
from typing import Any

import pytest
from kohort.broker.connection import IN_FLIGHT_MAX, UNSENT_BYTES_MAX
from kohort.broker.request import RequestContext
from kohort.protocol.errors import EncodeError
from peer import BAD, Peer, frame


async def turn() -> None:
    """Two turns of the loop: one for what is due, one for what that makes due."""
    for _ in range(2):
        await asyncio.sleep(0)


@pytest.fixture
async def peer() -> Peer:
    return Peer()


async def test_answers_leave_in_the_order_of_requests(peer: Peer) -> None:
    peer.send(1, 2, 3)
    peer.calls[2].respond(None)
    peer.calls[1].respond(None)
    await turn()
    assert peer.answered == b""
    peer.calls[0].respond(None)
    await turn()
    assert peer.transport.written == [bytes([1, 2, 3])], "three answers are one write"


async def test_a_large_answer_goes_out_in_its_pieces(peer: Peer) -> None:
    peer.send(1, 2, 3)
    peer.calls[2].respond(None)
    records = bytes(range(100))
    peer.calls[1].respond_in_pieces(
        None, lambda _, correlation_id: [bytes([correlation_id]), records]
    )
    assert peer.calls[1].response_bytes == bytes([2]) + records
    peer.calls[0].respond(None)
    await turn()
    assert peer.transport.written == [bytes([1]), bytes([2]), records, bytes([3])]
    assert peer.transport.written[2] is records


async def test_a_client_that_does_not_take_a_large_answer_gets_no_more() -> None:
    def handle(call: RequestContext, _node: Any) -> None:
        peer.calls.append(call)
        call.respond_in_pieces(None, lambda *_: [b"head", bytes(UNSENT_BYTES_MAX)])

    peer = Peer(handle)
    peer.transport.on_write = peer.connection.pause_writing
    peer.send(1, 2, 3)
    await turn()
    assert peer.ids == [1]


async def test_a_large_answer_that_cannot_be_written_ends_its_connection(peer: Peer) -> None:
    def write(_message: Any, _correlation_id: int) -> list[bytes]:
        raise EncodeError("planted")

    peer.send(1, 2)
    peer.calls[0].respond_in_pieces(None, write)
    await turn()
    assert peer.answered == b""
    peer.calls[1].respond(None)
    await turn()
    assert peer.transport.is_closed


async def test_a_request_that_waits_does_not_hold_back_the_next(peer: Peer) -> None:
    peer.send(1, 2)
    assert peer.ids == [1, 2]


async def test_a_held_request_holds_back_what_was_sent_after_it(peer: Peer) -> None:
    peer.send(1)
    peer.calls[0].mute_channel()
    peer.send(2, 3)
    assert peer.ids == [1]
    assert not peer.transport.is_reading
    peer.calls[0].respond(None)
    await turn()
    assert peer.ids == [1, 2, 3]
    assert peer.transport.is_reading


async def test_a_held_request_in_the_midst_of_what_was_received(peer: Peer) -> None:
    held = Peer(lambda call, _: (held.calls.append(call), call.mute_channel())[0])
    held.send(1, 2)
    assert held.ids == [1]
    held.calls[0].respond(None)
    await turn()
    assert held.ids == [1, 2]


async def test_nothing_behind_a_held_request_is_done_for_a_client_that_is_gone(peer: Peer) -> None:
    peer.send(1, 2)
    peer.transport.on_write = peer.transport.abort  # as asyncio does after a reset
    peer.connection.mute(peer.calls[0])
    peer.send(3)
    peer.calls[0].respond(None)
    await turn()
    assert peer.ids == [1, 2]


async def test_an_answer_at_once_is_not_held() -> None:
    def handle(call: RequestContext, _node: Any) -> None:
        call.respond(None)
        call.mute_channel()

    peer = Peer(handle)
    peer.send(1, 2)
    assert peer.answered == bytes([1, 2])


async def test_acks_0_leaves_no_trace_among_the_answers(peer: Peer) -> None:
    peer.send(1, 2, 3)
    peer.calls[0].respond(None)
    peer.calls[1].no_response()
    peer.calls[2].respond(None)
    await turn()
    assert peer.answered == bytes([1, 3])


async def test_requests_before_a_bad_frame_are_answered_then_the_connection_ends(
    peer: Peer,
) -> None:
    peer.connection.data_received(frame(1) + BAD + frame(2))
    assert peer.ids == [1]
    assert not peer.transport.is_closed
    peer.calls[0].respond(None)
    await turn()
    assert peer.answered == bytes([1])
    assert peer.transport.is_closed


async def test_requests_held_back_before_a_bad_frame_are_answered_too(peer: Peer) -> None:
    peer.send(1)
    peer.calls[0].mute_channel()
    peer.connection.data_received(frame(2) + BAD)
    peer.calls[0].respond(None)
    await turn()
    assert peer.ids == [1, 2]
    peer.calls[1].respond(None)
    await turn()
    assert peer.answered == bytes([1, 2])
    assert peer.transport.is_closed


async def test_requests_behind_a_parked_one_are_answered_though_garbage_follows(peer: Peer) -> None:
    peer.send(1)
    peer.calls[0].mute_channel()
    peer.connection.data_received(frame(2) + frame(3) + BAD)
    for place in range(3):
        peer.calls[place].respond(None)
        await turn()
    assert peer.answered == bytes([1, 2, 3])
    assert peer.transport.is_closed


async def test_a_client_that_asks_for_much_in_one_breath_waits_its_turn() -> None:
    def handle(call: RequestContext, _node: Any) -> None:
        peer.calls.append(call)
        call.response = bytes(UNSENT_BYTES_MAX)
        peer.connection.response_ready(call)

    peer = Peer(handle)
    peer.send(1, 2, 3)
    assert peer.ids == [1]
    assert not peer.transport.is_reading
    await turn()
    await turn()
    assert peer.ids == [1, 2, 3]
    assert peer.transport.is_reading


async def test_a_client_that_does_not_take_its_answers_gets_no_more_of_them() -> None:
    def handle(call: RequestContext, _node: Any) -> None:
        peer.calls.append(call)
        call.response = bytes(UNSENT_BYTES_MAX)
        peer.connection.response_ready(call)

    peer = Peer(handle)
    # As asyncio does when its buffer is full.
    peer.transport.on_write = peer.connection.pause_writing
    peer.send(1, 2, 3)
    await turn()
    assert peer.ids == [1]
    peer.connection.resume_writing()
    await turn()
    assert peer.ids == [1, 2]


async def test_a_client_that_sends_no_more_still_gets_its_answers(peer: Peer) -> None:
    peer.send(1, 2)
    assert peer.connection.eof_received() is True
    peer.calls[0].respond(None)
    await turn()
    assert not peer.transport.is_closed
    peer.calls[1].respond(None)
    await turn()
    assert peer.answered == bytes([1, 2])
    assert peer.transport.is_closed
    peer.connection.connection_lost(None)


async def test_a_client_that_has_all_its_answers_may_go(peer: Peer) -> None:
    assert peer.connection.eof_received() is False


async def test_a_bad_frame_alone_closes_at_once(peer: Peer) -> None:
    peer.connection.data_received(BAD)
    assert peer.transport.is_closed
    peer.send(1)
    assert peer.ids == []


async def test_a_client_that_never_waits_is_read_no_further_than_the_limit(peer: Peer) -> None:
    peer.send(*(i % 256 for i in range(IN_FLIGHT_MAX + 10)))
    assert len(peer.calls) == IN_FLIGHT_MAX
    assert not peer.transport.is_reading
    for call in peer.calls[:100]:
        call.respond(None)
    await turn()
    await turn()
    assert len(peer.calls) == IN_FLIGHT_MAX + 10
    assert peer.transport.is_reading


async def test_a_client_that_does_not_read_is_not_read_either(peer: Peer) -> None:
    peer.connection.pause_writing()
    assert not peer.transport.is_reading
    peer.connection.resume_writing()
    assert peer.transport.is_reading


async def test_a_failure_that_wants_no_answer_ends_the_connection() -> None:
    def handle(call: RequestContext, _node: Any) -> None:
        peer.calls.append(call)
        if call.correlation_id == 2:
            call.close_connection("acks 0 and an unknown topic")

    peer = Peer(handle)
    peer.send(1, 2, 3)
    assert peer.ids == [1, 2]
    assert not peer.transport.is_closed
    peer.calls[0].respond(None)
    await turn()
    assert peer.answered == bytes([1])
    assert peer.transport.is_closed


async def test_outstanding_calls_hear_that_their_client_is_gone(peer: Peer) -> None:
    peer.send(1, 2)
    told: list[int] = []
    peer.calls[1].on_disconnect(lambda: told.append(2))
    peer.connection.connection_lost(None)
    assert told == [2]
    assert peer.calls[0].is_disconnected
    assert peer.lost == [peer.connection]
    peer.calls[0].respond(None)
    await turn()
    assert peer.answered == b""


async def test_a_fault_of_ours_ends_the_connection_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def handle(_call: RequestContext, _node: Any) -> None:
        raise RuntimeError("a fault of ours")

    peer = Peer(handle)
    peer.send(1)
    assert peer.transport.is_closed
    assert "Handling Heartbeat v0 failed" in caplog.text


async def test_an_answer_that_cannot_be_written_ends_its_own_connection_only(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    def write(message: Any, correlation_id: int) -> bytes:
        if message == "too long":
            raise EncodeError("HeartbeatResponse v0 cannot be written")
        return bytes([correlation_id])

    peer.write = write
    peer.send(1, 2)
    peer.calls[1].respond("too long")  # does not raise: others are answered in the same breath
    peer.calls[0].respond(None)
    await turn()
    assert (peer.answered, peer.transport.is_closed) == (bytes([1]), True)
    assert "HeartbeatResponse v0 cannot be written" in caplog.text


async def test_the_clients_address_is_printed_as_kafka_prints_it(peer: Peer) -> None:
    peer.send(1)
    assert peer.calls[0].client_host == "/10.0.0.5"
