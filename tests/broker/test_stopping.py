"""What clients hear of a broker that stops."""

import asyncio

from kohort.protocol.errors import ErrorCode
from parity.peers import ours
from parity.script import Script


async def test_whoever_is_parked_hears_that_this_is_not_the_coordinator_before_the_end() -> None:
    settings = {"group.initial.rebalance.delay.ms": "0"}
    async with ours(settings) as peer, Script(peer, "g") as joining, Script(peer, "h") as syncing:
        a, b = joining.member("A"), joining.member("B")
        await a.enter()
        assert await b.enter() is None
        c, d = syncing.member("C"), syncing.member("D")
        await c.enter()
        await d.enter()
        await c.join()
        assert await d.sync() is None
        await peer._broker.stop()
        parked = [script._steps[-1] for script in (joining, syncing)]
        async with asyncio.timeout(10):
            while any(step.answer is None for step in parked):
                await asyncio.sleep(0)
        join, sync = (step.answer for step in parked)
    assert (join.error_code, join.member_id) == (ErrorCode.not_coordinator, b.id)
    assert (sync.error_code, sync.assignment) == (ErrorCode.not_coordinator, b"")
