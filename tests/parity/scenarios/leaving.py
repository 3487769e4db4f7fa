"""LeaveGroup, and what becomes of those who stay."""

from ..registry import scenario
from ..script import Script


@scenario("LeaveGroup 1: no group, in every version")
async def leaving_a_group_that_is_not_there(s: Script) -> None:
    for version in range(6):
        await s.member("A").leave(version)
    await s.leave(("x", None), ("", "i1"), ("", None))
    await s.describe()


@scenario("LeaveGroup 3: strangers, in every version")
async def a_stranger_leaves(s: Script) -> None:
    (a,) = await s.stable("A")
    stranger = s.member("B")
    stranger.id = "stranger"
    for version in range(6):
        await stranger.leave(version)
    await a.heartbeat()


@scenario("LeaveGroup 4: the last one leaves an empty group of the next generation")
async def the_last_member_leaves(s: Script) -> None:
    for version in range(6):
        await s.describe()
        await (await s.stable(f"V{version}"))[0].leave(version)
    await s.describe()
    await s.list()


@scenario("LeaveGroup 4: who stays has a round")
async def a_follower_leaves(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await b.leave()
    await s.describe()
    await a.heartbeat()
    await b.heartbeat()
    await a.join()


@scenario("LeaveGroup 4: who stays leads")
async def a_leader_leaves(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.leave()
    await b.sync()
    await b.join()
    await b.sync({b: "all"})


@scenario(
    "removeMember: somebody else leads once the leader has left",
    excuse="of those who stay the one who came first leads; in Kafka the first of a hash map",
    hides=("leader", "members"),
)
async def a_leader_leaves_two_followers(s: Script) -> None:
    a, b, c = await s.stable("A", "B", "C")
    await a.leave()
    await b.join()
    await c.join()


@scenario("LeaveGroup 3: the parked join of who leaves is answered UNKNOWN_MEMBER_ID")
async def a_member_leaves_while_its_join_is_held_back(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await b.join(protocols=(("range", b"new"),))
    await b.leave()
    await s.describe()
    await a.join()


@scenario("trap 13: the parked sync of who leaves is never answered")
async def a_member_leaves_while_its_sync_is_held_back(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await b.enter()
    await a.join()
    await b.sync()
    await b.leave()
    await s.describe()
    await a.join()


@scenario("LeaveGroup 4: the one who is missing leaves, and the round is over")
async def the_last_one_missing_leaves(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.join()
    await b.leave()


@scenario("LeaveGroup: leader, follower, pending id and stranger in one request")
async def all_kinds_of_members_leave_at_once(s: Script) -> None:
    a, b = await s.stable("A", "B")
    c = s.member("C")
    await c.join()
    await s.leave(a, b, c, ("stranger", None))
    await s.describe()


@scenario("LeaveGroup: a batch of nobody, and the same one twice")
async def nobody_leaves_and_one_leaves_twice(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await s.leave()
    await a.heartbeat()
    await s.leave(b, b)
    await a.heartbeat()
