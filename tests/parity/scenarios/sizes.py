"""Records above `max.message.bytes` (1,048,588 bytes) of the offsets topic."""

from ..registry import scenario
from ..script import Script

LARGE = b"x" * 1_100_000


@scenario("SyncGroup: an assignment that cannot be stored is nobody's, and opens another round")
async def an_assignment_that_is_too_large(s: Script) -> None:
    a, b, c = s.member("A"), s.member("B"), s.member("C")
    await a.enter()
    await b.enter()
    await c.enter()
    await a.join()
    await b.join()
    await b.sync()
    await a.sync({a: LARGE.decode()})
    await s.describe()
    await c.sync()
    for member in (a, b):
        await member.heartbeat()
        await member.commit()
    for member in (a, b, c):
        await member.join()
    await a.sync({a: "one", b: "two"})
    await b.sync()
    await s.describe()


@scenario("SyncGroup: the leader alone brings what cannot be stored")
async def an_assignment_that_is_too_large_for_one(s: Script) -> None:
    a = s.member("A")
    await a.enter()
    for version in (0, 5):
        await a.sync({a: LARGE.decode()}, version)
        await a.heartbeat()
        await a.join()
    await a.sync({a: "small"})
    await s.describe()


@scenario("OffsetCommit: all or none of a request whose records cannot be stored")
async def a_commit_that_is_too_large(s: Script) -> None:
    (a,) = await s.stable("A")
    note = "x" * 4_000
    await a.commit(7, topics=[("orders", 0, note)] * 270)
    await s.fetch(orders=(0, 1))
    await a.commit(8, topics=[("orders", 0, note)] * 250)
    await a.commit(9, topics=[("orders", 0, note)] * 270)
    await s.member("B").commit(9, topics=[("payments", 9, ""), *[("orders", 0, note)] * 270])


@scenario("OffsetCommit: one that cannot be stored makes no group")
async def a_commit_that_is_too_large_for_a_group_that_is_not_there(s: Script) -> None:
    await s.member("A").commit(7, topics=[("orders", 0, "x" * 4_000)] * 270)
    await s.list()
    await s.describe(6)


@scenario("JoinGroup: a static member that cannot be stored is still the one that it was")
async def a_static_member_comes_back_too_large(s: Script) -> None:
    a, b = await s.stable("A", "B", instances={"A": "i1", "B": "i2"})
    for member in (a, b):
        for version in (5, 9):
            await member.join(version, member_id="", protocols=[("range", LARGE)])
            await s.describe()
            await member.heartbeat()
    await a.join(member_id="")
    await a.sync()
