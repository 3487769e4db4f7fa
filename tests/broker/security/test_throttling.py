"""A throttled connection: later requests wait until the throttle time is over."""

import asyncio

import pytest
from support.connection import Peer
from support.runtime import ManualClock, ManualTimers


class ThrottledPeer(Peer):
    def __init__(self) -> None:
        super().__init__()
        self.timers = ManualTimers(ManualClock())
        self.connection._node = self

    @property
    def client_timers(self) -> ManualTimers:
        return self.timers

    def advance(self, ms: int) -> None:
        self.timers.advance(ms)


@pytest.fixture
async def peer() -> ThrottledPeer:
    return ThrottledPeer()


async def test_the_response_is_sent_before_later_requests_are_handled(peer: ThrottledPeer) -> None:
    peer.send(1)
    peer.contexts[0].respond(None)
    peer.connection.throttle(100)
    await asyncio.sleep(0)
    assert peer.transport.sent == bytes([1])
    peer.send(2, 3)
    assert (peer.ids, peer.transport.is_reading) == ([1], False)
    peer.advance(99)
    await asyncio.sleep(0)
    assert peer.ids == [1]
    peer.advance(1)
    await asyncio.sleep(0)
    assert (peer.ids, peer.transport.is_reading) == ([1, 2, 3], True)


async def test_the_longest_of_several_throttle_times_counts(peer: ThrottledPeer) -> None:
    for ms in (50, 200, 100):
        peer.connection.throttle(ms)
    peer.send(1)
    peer.advance(199)
    await asyncio.sleep(0)
    assert peer.ids == []
    peer.advance(1)
    await asyncio.sleep(0)
    assert peer.ids == [1]


async def test_a_parked_request_still_mutes_after_the_throttle_time(peer: ThrottledPeer) -> None:
    peer.send(1)
    peer.contexts[0].mute_channel()
    peer.connection.throttle(100)
    peer.send(2)
    peer.advance(100)
    await asyncio.sleep(0)
    assert peer.ids == [1]
    peer.contexts[0].respond(None)
    await asyncio.sleep(0)
    assert peer.ids == [1, 2]


async def test_the_throttle_time_outlasts_a_parked_request(peer: ThrottledPeer) -> None:
    peer.send(1)
    peer.contexts[0].mute_channel()
    peer.connection.throttle(100)
    peer.send(2)
    peer.contexts[0].respond(None)
    await asyncio.sleep(0)
    assert peer.ids == [1]
    peer.advance(100)
    await asyncio.sleep(0)
    assert peer.ids == [1, 2]


async def test_a_lost_connection_leaves_no_timer(peer: ThrottledPeer) -> None:
    peer.connection.throttle(100)
    peer.connection.connection_lost(None)
    peer.connection.throttle(100)
    assert peer.timers.pending == []
