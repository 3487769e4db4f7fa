"""Members of KIP-848 groups that leave or expire, and empty groups."""

from ..scenario import consumer_scenario
from ..script import Script

SHORT = {"session_timeout_ms": "2000", "heartbeat_interval_ms": "500"}


@consumer_scenario("leave: the others get the partitions at their next heartbeats")
async def a_consumer_leaves(s: Script) -> None:
    a, b = await s.consumers("A", "B")
    await s.converge(a, b)
    await b.leave()
    await s.describe_consumers()
    await b.heartbeat()
    await a.heartbeat()
    await s.describe_consumers()
    await b.leave()


@consumer_scenario(
    "leave: the group is empty after its last member leaves, and can be joined again"
)
async def the_last_consumer_leaves(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.leave()
    await s.describe_consumers()
    await a.heartbeat(member_epoch=2)
    await a.leave()
    await s.consumer("B").join()
    await s.describe_consumers()


@consumer_scenario("leave: other fields are ignored; version 0")
async def a_consumer_leaves_with_other_fields(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.join(member_epoch=-1)
    await a.join()
    await a.heartbeat(0, member_epoch=-1)
    await s.describe_consumers()


@consumer_scenario("leave: a member that has to revoke")
async def a_consumer_leaves_instead_of_revoking(s: Script) -> None:
    a, b = await s.consumers("A", "B")
    await a.heartbeat()
    await a.leave()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("leave: a member that waits for partitions")
async def a_consumer_leaves_while_it_waits(s: Script) -> None:
    a, b = await s.consumers("A", "B")
    await b.leave()
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("leave and return under the same id: a new member")
async def a_consumer_leaves_and_returns(s: Script) -> None:
    a, b = await s.consumers("A", "B")
    await s.converge(a, b)
    await b.leave()
    await b.join()
    await s.describe_consumers()
    await a.heartbeat()
    await s.converge(a, b)
    await s.describe_consumers()


@consumer_scenario("session timeout: a silent member is fenced")
async def a_consumer_expires(s: Script) -> None:
    await s.configure(**SHORT)
    a, b = await s.consumers("A", "B")
    await a.heartbeat()
    await a.report()
    await s.pass_ms(1000)
    await a.heartbeat()
    await s.until_members(1)
    await s.describe_consumers()
    await b.heartbeat()
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("session timeout: the group is empty after its last member expires")
async def the_last_consumer_expires(s: Script) -> None:
    await s.configure(**SHORT)
    a = await s.consumer("A").joined()
    await s.until_members(0)
    await s.describe_consumers()
    await a.heartbeat()
    await a.leave()
    await a.join()


@consumer_scenario("session timeout: heartbeats extend it, except those that are rejected")
async def consumer_heartbeats_extend_the_session(s: Script) -> None:
    await s.configure(**SHORT)
    a = await s.consumer("A").joined()
    b = await s.consumer("B", "payments").joined()
    for _ in range(3):
        await s.pass_ms(1200)
        await a.heartbeat()
        await b.heartbeat(member_epoch=7)
    await s.describe_consumers()


@consumer_scenario("session timeout: commits do not extend it")
async def commits_do_not_extend_the_session_of_a_consumer(s: Script) -> None:
    await s.configure(**SHORT)
    a = await s.consumer("A").joined()
    await s.pass_ms(1000)
    await a.commit(1)
    await s.pass_ms(500)
    await a.commit(2)
    await s.pass_ms(1000)
    await a.commit(3)
    await s.describe_consumers()


@consumer_scenario("session timeout: a change takes effect at the next heartbeat")
async def the_session_timeout_of_a_consumer_changes(s: Script) -> None:
    a = await s.consumer("A").joined()
    b = await s.consumer("B", "payments").joined()
    await s.configure(**SHORT)
    await b.heartbeat()
    await s.until_members(1)
    await s.describe_consumers()
    await a.heartbeat()


@consumer_scenario("LeaveGroup: removes members of the consumer protocol too")
async def consumers_are_removed_by_an_administrator(s: Script) -> None:
    a, c = (s.consumer(name, server_assignor="range") for name in "AC")
    b = s.consumer("B", instance="i2", server_assignor="range")
    for member in (a, b, c):
        await member.join()
    for version in (5, 3):
        await s.leave(("A", None), ("stranger", None), ("", "i2"), ("", "i9"), version=version)
        await s.describe_consumers()
    await a.heartbeat()
    await b.heartbeat()
    await c.heartbeat()
    await s.send("LeaveGroup", 2, {"group_id": s.group, "member_id": "C"})
    await s.describe_consumers()


@consumer_scenario("LeaveGroup: ids that do not match, an empty group, several members")
async def consumers_are_removed_by_ids_that_do_not_match(s: Script) -> None:
    await s.leave(("A", None))
    await s.consumer("A", instance="i1").join()
    await s.consumer("B", instance="i2").join()
    await s.leave(("B", "i1"), ("A", "i9"), ("A", ""), ("", None), ("stranger", "i1"))
    await s.describe_consumers()
    await s.leave(("A", "i1"), ("A", "i1"), ("", "i2"), ("", "i2"))
    await s.describe_consumers()
    await s.leave(("A", "i1"), ("", "i2"))


@consumer_scenario("LeaveGroup: many members in one request increase the epoch once")
async def many_members_are_removed_with_one_epoch(s: Script) -> None:
    a, _, c = await s.consumers("A", "B", "C", server_assignor="range")
    strangers = [(f"stranger {number}", None) for number in range(205)]
    await s.leave(("A", None), *strangers, ("B", None), ("A", None))
    await s.describe_consumers()
    await c.heartbeat()
    await a.heartbeat()
    await s.leave(*strangers)
    await s.describe_consumers()
