"""Heartbeat, session timeouts and rebalance timeouts."""

from ..scenario import scenario
from ..script import Script


@scenario("Heartbeat: an unknown group, in every version")
async def a_heartbeat_to_an_unknown_group(s: Script) -> None:
    for version in range(5):
        await s.member("A").heartbeat(version, member_id="stranger", generation_id=1)


@scenario("Heartbeat: unknown and pending ids, other generations, in every version")
async def heartbeats_that_are_rejected(s: Script) -> None:
    (a,) = await s.stable("A")
    b = await s.member("B").joined()
    for version in range(5):
        await b.heartbeat(version, generation_id=1)
        await a.heartbeat(version, member_id="stranger")
        await a.heartbeat(version, generation_id=0)
        await a.heartbeat(version, generation_id=2)
        await a.heartbeat(version)


@scenario("Heartbeat: an empty group has no members")
async def a_heartbeat_to_an_empty_group(s: Script) -> None:
    (a,) = await s.stable("A")
    await a.leave()
    await a.heartbeat()
    await a.heartbeat(generation_id=2)


@scenario("Heartbeat: in PreparingRebalance")
async def a_heartbeat_while_others_join(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.join()
    await b.heartbeat()
    await a.heartbeat()
    await b.heartbeat(generation_id=1)


@scenario("Heartbeat: NONE in CompletingRebalance")
async def a_heartbeat_while_syncs_are_missing(s: Script) -> None:
    a = await s.member("A").entered()
    await a.heartbeat()
    await a.sync({a: "1"})
    await a.heartbeat()


@scenario("session timeout: the others rebalance; a late heartbeat does not restore the member")
async def a_follower_expires(s: Script) -> None:
    a = await s.member("A").entered()
    b = await s.member("B", session_ms=2000).entered()
    await a.join()
    await a.sync({a: "1", b: "2"})
    await b.sync()
    await s.until_state("PreparingRebalance")
    await b.heartbeat()
    await a.heartbeat()
    await a.join()


@scenario("session timeout of the last member: the group is Empty, in the next generation")
async def the_last_member_expires(s: Script) -> None:
    (a,) = await s.stable("A", session_ms=1000)
    await s.until_state("Empty")
    await s.describe()
    await a.heartbeat()
    await a.commit()
    await s.list()
    await s.member("B").enter()


@scenario("heartbeats extend a session, in CompletingRebalance and Stable")
async def heartbeats_keep_a_session_alive(s: Script) -> None:
    a = await s.member("A", session_ms=2000).entered()
    for _ in range(3):
        await s.pass_ms(1000)
        await a.heartbeat()
    await a.sync({a: "1"})
    for _ in range(3):
        await s.pass_ms(1000)
        await a.heartbeat()


@scenario("commits extend a session")
async def commits_keep_a_session_alive(s: Script) -> None:
    (a,) = await s.stable("A", session_ms=2000)
    for offset in range(3):
        await s.pass_ms(1000)
        await a.commit(offset)
    await a.heartbeat()


@scenario("syncs in Stable do not extend a session")
async def syncs_do_not_keep_a_session_alive(s: Script) -> None:
    (a,) = await s.stable("A", session_ms=3000)
    await s.pass_ms(2000)
    await a.sync()
    await s.pass_ms(2000)
    await a.sync()
    await s.describe()


@scenario("a new member whose join waits outlives its session timeout")
async def a_waiting_new_member_outlives_its_session_timeout(s: Script) -> None:
    (a,) = await s.stable("A")
    await s.member("B", session_ms=500).enter()
    await s.pass_ms(1500)
    await a.join()


@scenario("hasSatisfiedHeartbeat: a member with a waiting join does not expire")
async def a_member_that_waits_for_others_does_not_expire(s: Script) -> None:
    a, b = await s.stable("A", "B", session_ms=60_000)
    await a.join(session_timeout=1000)
    await s.pass_ms(2000)
    await b.join()


@scenario("rebalance timeout: dynamic members that have not rejoined are removed")
async def a_follower_that_does_not_rejoin_is_removed(s: Script) -> None:
    a, b = await s.stable("A", "B", rebalance_ms=2000)
    await a.join()
    await b.heartbeat()
    await s.until_response()
    await b.heartbeat()
    await b.join()
    await s.describe()


@scenario(
    "rebalance timeout: a leader that has not rejoined is removed; one that has rejoined leads"
)
async def a_leader_that_does_not_rejoin_is_removed(s: Script) -> None:
    a, b = await s.stable("A", "B", rebalance_ms=2000)
    await b.join(protocols=(("range", b"new"),))
    await s.until_response()
    await a.heartbeat()
    await s.describe()


@scenario("rebalance timeout: the longest of all members, as in their latest joins")
async def the_longest_rebalance_timeout_counts(s: Script) -> None:
    a, b = await s.stable("A", "B", rebalance_ms=1000)
    await a.join(rebalance_timeout=4000)
    await s.pass_ms(2000)
    await s.describe()
    await s.until_response()
    await b.heartbeat()


@scenario("session timeouts out of bounds are rejected before the group is looked up")
async def session_timeouts_out_of_bounds(s: Script) -> None:
    a = s.member("A")
    for timeout in (499, 500, 1_800_000, 1_800_001):
        await a.join(session_timeout=timeout)
        a.id = ""
    await a.join(session_timeout=1, member_id="stranger")
    await a.join(session_timeout=1, protocols=())
    await a.join(0, session_timeout=-1)
    await a.join(session_timeout=1, group_id="")
