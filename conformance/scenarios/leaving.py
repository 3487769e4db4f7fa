"""LeaveGroup, and its effect on the remaining members."""

from ..scenario import scenario
from ..script import Script


@scenario("LeaveGroup: an unknown group, in every version")
async def leaving_an_unknown_group(s: Script) -> None:
    for version in range(6):
        await s.member("A").leave(version)
    await s.leave(("x", None), ("", "i1"), ("", None))
    await s.describe()


@scenario("LeaveGroup: unknown members, in every version")
async def an_unknown_member_leaves(s: Script) -> None:
    (a,) = await s.stable("A")
    stranger = s.member("B")
    stranger.id = "stranger"
    for version in range(6):
        await stranger.leave(version)
    await a.heartbeat()


@scenario("LeaveGroup: after the last member, the group is Empty in the next generation")
async def the_last_member_leaves(s: Script) -> None:
    for version in range(6):
        await s.describe()
        await (await s.stable(f"V{version}"))[0].leave(version)
    await s.describe()
    await s.list()


@scenario("LeaveGroup: the remaining members rebalance")
async def a_follower_leaves(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await b.leave()
    await s.describe()
    await a.heartbeat()
    await b.heartbeat()
    await a.join()


@scenario("LeaveGroup: the remaining member leads")
async def a_leader_leaves(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.leave()
    await b.sync()
    await b.join()
    await b.sync({b: "all"})


@scenario(
    "removeMember: another member leads after the leader has left",
    excuse="the remaining member that joined first leads; in Kafka, the first by hash order",
    hides=("leader", "members"),
)
async def a_leader_leaves_two_followers(s: Script) -> None:
    a, b, c = await s.stable("A", "B", "C")
    await a.leave()
    await b.join()
    await c.join()


@scenario("LeaveGroup: the member's waiting join fails with UNKNOWN_MEMBER_ID")
async def a_member_leaves_while_its_join_waits(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await b.join(protocols=(("range", b"new"),))
    await b.leave()
    await s.describe()
    await a.join()


@scenario("LeaveGroup: the member's waiting sync never gets a response")
async def a_member_leaves_while_its_sync_waits(s: Script) -> None:
    a, b = await s.joined("A", "B")
    await b.sync()
    await b.leave()
    await s.describe()
    await a.join()


@scenario("LeaveGroup: the last member that has not rejoined leaves; the rebalance completes")
async def the_last_missing_member_leaves(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.join()
    await b.leave()


@scenario("LeaveGroup: leader, follower, pending and unknown member in one request")
async def all_kinds_of_members_leave_at_once(s: Script) -> None:
    a, b = await s.stable("A", "B")
    c = await s.member("C").joined()
    await s.leave(a, b, c, ("stranger", None))
    await s.describe()


@scenario("LeaveGroup: no members, and the same member twice")
async def no_member_leaves_and_one_leaves_twice(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await s.leave()
    await a.heartbeat()
    await s.leave(b, b)
    await a.heartbeat()
