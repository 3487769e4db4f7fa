"""Heartbeat, and the sessions that it keeps alive."""

from ..registry import scenario
from ..script import Script


@scenario("Heartbeat 2: no group, in every version")
async def a_heartbeat_without_a_group(s: Script) -> None:
    for version in range(5):
        await s.member("A").heartbeat(version, member_id="stranger", generation_id=1)


@scenario("Heartbeat 4 and 5: strangers, pending ids, other generations, in every version")
async def heartbeats_that_do_not_count(s: Script) -> None:
    (a,) = await s.stable("A")
    b = s.member("B")
    await b.join()
    for version in range(5):
        await b.heartbeat(version, generation_id=1)
        await a.heartbeat(version, member_id="stranger")
        await a.heartbeat(version, generation_id=0)
        await a.heartbeat(version, generation_id=2)
        await a.heartbeat(version)


@scenario("Heartbeat 6: an empty group knows nobody")
async def a_heartbeat_in_an_empty_group(s: Script) -> None:
    (a,) = await s.stable("A")
    await a.leave()
    await a.heartbeat()
    await a.heartbeat(generation_id=2)


@scenario("Heartbeat 7: a round is open")
async def a_heartbeat_while_others_join(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.join()
    await b.heartbeat()
    await a.heartbeat()
    await b.heartbeat(generation_id=1)


@scenario("Heartbeat 8, trap 2: NONE while syncs are missing")
async def a_heartbeat_while_syncs_are_missing(s: Script) -> None:
    a = s.member("A")
    await a.enter()
    await a.heartbeat()
    await a.sync({a: "1"})
    await a.heartbeat()


@scenario("heartbeat timer: a session ends, the rest has a round; a heartbeat does not heal it")
async def a_follower_expires(s: Script) -> None:
    a = s.member("A")
    b = s.member("B", session_ms=2000)
    await a.enter()
    await b.enter()
    await a.join()
    await a.sync({a: "1", b: "2"})
    await b.sync()
    await s.until_state("PreparingRebalance")
    await b.heartbeat()
    await a.heartbeat()
    await a.join()


@scenario("heartbeat timer: the last session ends; the group is empty, a generation further")
async def the_last_member_expires(s: Script) -> None:
    (a,) = await s.stable("A", session_ms=1000)
    await s.until_state("Empty")
    await s.describe()
    await a.heartbeat()
    await a.commit()
    await s.list()
    await s.member("B").enter()


@scenario("heartbeats keep a session alive, in CompletingRebalance and Stable")
async def heartbeats_keep_a_session_alive(s: Script) -> None:
    a = s.member("A", session_ms=2000)
    await a.enter()
    for _ in range(3):
        await s.pass_ms(1000)
        await a.heartbeat()
    await a.sync({a: "1"})
    for _ in range(3):
        await s.pass_ms(1000)
        await a.heartbeat()


@scenario("commits alone keep a session alive")
async def commits_keep_a_session_alive(s: Script) -> None:
    (a,) = await s.stable("A", session_ms=2000)
    for offset in range(3):
        await s.pass_ms(1000)
        await a.commit(offset)
    await a.heartbeat()


@scenario("syncs in a stable group do not keep a session alive")
async def syncs_do_not_keep_a_session_alive(s: Script) -> None:
    (a,) = await s.stable("A", session_ms=3000)
    await s.pass_ms(2000)
    await a.sync()
    await s.pass_ms(2000)
    await a.sync()
    await s.describe()


@scenario("trap 3: a newcomer whose join is held back outlives its session timeout")
async def a_newcomer_waits_longer_than_its_session(s: Script) -> None:
    (a,) = await s.stable("A")
    b = s.member("B", session_ms=500)
    await b.enter()
    await s.pass_ms(1500)
    await a.join()


@scenario("has satisfied its heartbeat: who waits for others is not put out")
async def a_member_that_waits_for_others_does_not_expire(s: Script) -> None:
    a, b = await s.stable("A", "B", session_ms=60_000)
    await a.join(session_timeout=1000)
    await s.pass_ms(2000)
    await b.join()


@scenario("join timer: dynamic members that do not come again are put out")
async def a_follower_that_does_not_join_again_is_put_out(s: Script) -> None:
    a, b = await s.stable("A", "B", rebalance_ms=2000)
    await a.join()
    await b.heartbeat()
    await s.until_freed()
    await b.heartbeat()
    await b.join()
    await s.describe()


@scenario("trap 8: a leader that does not come again is put out, one of those who came leads")
async def a_leader_that_does_not_join_again_is_put_out(s: Script) -> None:
    a, b = await s.stable("A", "B", rebalance_ms=2000)
    await b.join(protocols=(("range", b"new"),))
    await s.until_freed()
    await a.heartbeat()
    await s.describe()


@scenario("join timer: the longest rebalance timeout of all members counts, as they say it now")
async def the_longest_rebalance_timeout_counts(s: Script) -> None:
    a, b = await s.stable("A", "B", rebalance_ms=1000)
    await a.join(rebalance_timeout=4000)
    await s.pass_ms(2000)
    await s.describe()
    await s.until_freed()
    await b.heartbeat()


@scenario("session timeouts have bounds; trap 31: looked at before the group is")
async def sessions_out_of_bounds(s: Script) -> None:
    a = s.member("A")
    for timeout in (499, 500, 1_800_000, 1_800_001):
        await a.join(session_timeout=timeout)
        a.id = ""
    await a.join(session_timeout=1, member_id="stranger")
    await a.join(session_timeout=1, protocols=())
    await a.join(0, session_timeout=-1)
    await a.join(session_timeout=1, group_id="")
