"""Static members: replacement and fencing."""

from ..scenario import scenario
from ..script import Script

I1, I2 = {"A": "i1"}, {"A": "i1", "B": "i2"}


@scenario("JoinGroup: no MEMBER_ID_REQUIRED for static members, in any version with instance ids")
async def a_static_member_joins_in_one_step(s: Script) -> None:
    for version in range(5, 10):
        member = s.member(f"V{version}", instance="i1")
        await member.join(version, group_id=f"{s.group}/v{version}")
    await s.describe(5, f"{s.group}/v9")
    await s.describe(3, f"{s.group}/v9")


@scenario("static replacement, Stable, v9: the leader returns without a rebalance", is_exact=True)
async def a_static_leader_returns_to_a_stable_group(s: Script) -> None:
    a, b = await s.stable("A", "B", instances=I2)
    again = await s.member("A", instance="i1").joined()
    await s.describe()
    await again.sync()
    await again.heartbeat()
    await b.heartbeat()
    await a.heartbeat()
    await a.sync()
    await a.join()


@scenario("static replacement, Stable, v5 to v8: the leader returns as a follower")
async def an_older_static_leader_returns(s: Script) -> None:
    await s.stable("A", "B", instances=I2)
    for version in (5, 6, 7, 8):
        again = s.member("A", instance="i1")
        await again.join(version)
        await again.sync(version=4)
    await s.describe()


@scenario("static replacement, Stable: a follower returns")
async def a_static_follower_returns_to_a_stable_group(s: Script) -> None:
    a, b = await s.stable("A", "B", instances=I2)
    again = await s.member("B", instance="i2").rebalance()
    await b.heartbeat()
    await b.commit()
    await a.heartbeat()
    await again.commit()


@scenario("static replacement, Stable: no rebalance if the same protocol is selected")
async def a_static_member_returns_with_other_metadata(s: Script) -> None:
    a, _ = await s.stable("A", "B", instances=I2)
    again = await s.member("B", instance="i2", protocols=(("range", b"new"),)).rebalance()
    await s.describe()
    await a.heartbeat()
    await again.join()


@scenario("static replacement, Stable: a rebalance if another protocol is selected")
async def a_static_member_returns_with_another_vote(s: Script) -> None:
    both = (("range", b"r"), ("sticky", b"s"))
    (a,) = await s.stable("A", instances=I1, protocols=both)
    again = await s.member("A", instance="i1", protocols=(("sticky", b"s"),)).joined()
    await again.sync({again: "1"})
    await a.heartbeat()
    await s.describe()


@scenario("static replacement, CompletingRebalance: always a rebalance")
async def a_static_member_returns_in_completing_rebalance(s: Script) -> None:
    a, b = await s.joined("A", "B", instances=I2)
    await b.sync()
    await s.member("B", instance="i2").join()
    await s.describe()
    await a.join()


@scenario("static replacement, PreparingRebalance: the waiting join with the old id is fenced")
async def a_static_member_returns_in_preparing_rebalance(s: Script) -> None:
    a, b = await s.stable("A", "B", instances=I2)
    await a.join()
    await s.member("A", instance="i1").join()
    await s.describe()
    await b.join()


@scenario("static replacement: the waiting sync with the old id is fenced")
async def a_static_member_returns_while_its_sync_waits(s: Script) -> None:
    _, b = await s.joined("A", "B", instances=I2)
    await b.sync()
    await s.member("B", instance="i2").join()
    await b.sync()
    await b.heartbeat()


@scenario("JoinGroup with a member id other than that of the instance, or without the instance id")
async def joins_with_mismatching_ids(s: Script) -> None:
    a, b = await s.stable("A", "B", instances=I1)
    await a.join(member_id="stranger")
    await a.join(member_id=b.id)
    await b.join(group_instance_id="i9")
    await b.join(group_instance_id="i1")
    await a.join(group_instance_id=None)
    await s.describe()


@scenario("a static member that joins with its own id is like a dynamic one")
async def a_static_member_rejoins_with_its_id(s: Script) -> None:
    a, b = await s.stable("A", "B", instances=I2)
    await b.join()
    await a.join()
    await b.join()


@scenario("fencing: heartbeats, syncs, commits and leaving with ids that do not match")
async def requests_with_mismatching_ids(s: Script) -> None:
    a, b = await s.stable("A", "B", instances=I1)
    for member_id, instance in ((a.id, "i9"), ("stranger", "i1"), (b.id, "i1"), ("stranger", None)):
        wrong = {"member_id": member_id, "group_instance_id": instance}
        await a.heartbeat(**wrong)
        await a.sync(**wrong)
        await a.commit(**wrong)
        await s.leave((member_id, instance))
    await s.describe()


@scenario("a silent static member stays in the rebalance, and its sync is overdue")
async def a_silent_static_member_stays_in_the_rebalance(s: Script) -> None:
    _, b = await s.stable("A", "B", instances=I1, rebalance_ms=2000)
    await b.join(protocols=(("range", b"new"),))
    await s.until_response()
    await s.describe()
    await b.sync({b: "2"})
    await s.until_state("PreparingRebalance")
    await b.join()
    await s.describe()


@scenario("with silent static members only, the rebalance lasts until sessions expire")
async def silent_static_members_keep_a_rebalance_open(s: Script) -> None:
    _, b = await s.stable("A", "B", instances=I1, rebalance_ms=1000, session_ms=6000)
    await b.join(protocols=(("range", b"new"),))
    await b.leave()
    await s.describe()
    await s.pass_ms(2000)
    await s.describe()
    await s.until_state("Empty")
    await s.describe()


@scenario("session timeout: a static member is removed too")
async def a_static_member_expires(s: Script) -> None:
    a, b = await s.stable("A", "B", instances=I2, session_ms=60_000)
    c = await s.member("C", instance="i3", session_ms=2000).joined()
    await a.join()
    await b.join()
    await a.sync({a: "1", b: "2", c: "3"})
    await b.sync()
    await c.sync()
    await s.until_state("PreparingRebalance")
    await s.describe()
    await c.heartbeat()
    await a.join()
    await b.join()


@scenario("LeaveGroup by instance id, several in a request; ids and instances are in the response")
async def static_members_leave_by_instance_id(s: Script) -> None:
    _, b, c = await s.stable("A", "B", "C", instances=I2)
    await s.leave(("", "i1"), ("", "i9"), (b.id, "i1"), (c.id, None), ("", None), version=3)
    await s.describe()
    await b.heartbeat()
    await b.join()
    await s.leave(("", "i2"), ("", "i2"))
    await s.describe()
