"""Empty groups that change their protocol, and the migration policies."""

from ..members import assignment, subscribed
from ..scenario import consumer_scenario, scenario
from ..script import Script, classic_group


@consumer_scenario("an empty classic group becomes a KIP-848 group; offsets stay")
async def an_empty_classic_group_is_joined_by_a_consumer(s: Script) -> None:
    (a,) = await s.stable("A")
    await a.commit(7)
    await a.leave()
    await s.describe()
    b = s.consumer("B")
    await b.heartbeat(member_epoch=1)
    await b.join()
    await s.describe_consumers()
    await s.describe(6)
    await s.list()
    await b.fetch()
    await a.heartbeat()


@consumer_scenario("a group with offsets only becomes a KIP-848 group")
async def a_simple_group_is_joined_by_a_consumer(s: Script) -> None:
    await s.member("Admin").commit(7)
    await s.consumer("A").leave()
    a = await s.consumer("A").joined()
    await a.fetch()
    await s.describe_consumers()
    await a.leave()
    await s.member("Admin").commit(8)
    await s.fetch()


@consumer_scenario("an empty KIP-848 group becomes a classic group; offsets stay")
async def an_empty_consumer_group_is_joined_by_a_classic_member(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.commit(7)
    await a.leave()
    b = await s.member("B", protocols=subscribed("orders")).joined()
    await s.list()
    await b.join()
    await s.describe(6)
    await s.describe_consumers()
    await b.sync({b: "1"})
    await b.commit(8)
    await s.fetch()
    await s.list()
    await a.heartbeat()


@consumer_scenario("an empty KIP-848 group rejects requests from classic members")
async def classic_requests_to_an_empty_consumer_group(s: Script) -> None:
    a, b = s.consumer("A"), s.member("B")
    await a.join()
    await a.leave()
    await b.heartbeat(member_id="x", generation_id=1)
    await b.sync(member_id="x", generation_id=1)
    await s.leave(("x", None))
    await b.commit(1, member_id="x", generation_id_or_member_epoch=1)
    await s.describe_consumers()


@consumer_scenario("an empty KIP-848 group becomes a Connect group, and a KIP-848 group again")
async def an_empty_consumer_group_is_joined_by_a_worker(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.leave()
    w = await s.member("W", protocol_type="connect").entered()
    await s.list()
    await a.join()
    await w.leave()
    await a.join()
    await s.list()


@consumer_scenario("an empty KIP-848 group: joins in every version")
async def an_empty_consumer_group_is_joined_in_every_version(s: Script) -> None:
    for version in range(10):
        group = f"{s.group}/{version}"
        a, b = s.consumer("A"), s.member(f"B{version}", protocols=subscribed("orders"))
        await a.join(group_id=group)
        await a.heartbeat(group_id=group, member_epoch=-1)
        await b.join(version, group_id=group)


@consumer_scenario("an empty KIP-848 group: a join with an unknown id")
async def an_empty_consumer_group_rejects_joins(s: Script) -> None:
    a, b = s.consumer("A"), s.member("B")
    await a.join()
    await a.leave()
    await b.join(session_timeout=1)
    await b.join(group_id="")
    await s.describe_consumers()
    await b.join(member_id="x")
    # Kafka converts the group in memory. ListGroups shows the new type after the next write.
    await b.commit(1)
    await s.list()


@consumer_scenario("a classic group whose members are only pending is empty")
async def a_group_of_pending_members_is_joined_by_a_consumer(s: Script) -> None:
    p = await s.member("P", protocols=subscribed("orders")).joined()
    await s.consumer("A", server_assignor="range").join()
    await s.describe_consumers()
    await p.heartbeat(generation_id=1)


@consumer_scenario("a classic group whose member has expired becomes a KIP-848 group")
async def an_expired_classic_group_is_joined_by_a_consumer(s: Script) -> None:
    (a,) = await s.stable("A", session_ms=1000)
    await s.until_state("Empty")
    await s.consumer("B").join()
    await a.join()
    await s.describe_consumers()


@scenario("policy disabled: empty groups change their protocol anyway", settings="disabled")
async def empty_groups_with_migration_disabled(s: Script) -> None:
    (a,) = await s.stable("A")
    await a.commit(7)
    await a.leave()
    b = await s.consumer("B").joined()
    await s.list()
    await b.leave()
    await s.member("C").enter()
    await s.list()
    await s.fetch()


@scenario("policy disabled: a consumer cannot join a live classic group", settings="disabled")
async def a_consumer_joins_a_classic_group_with_migration_disabled(s: Script) -> None:
    a = await s.member("A", protocols=subscribed("orders")).entered()
    for version in (0, 1):
        await s.consumer("B").join(version)
    await a.sync({a: assignment("orders", 0, 1)})
    await s.consumer("B").join()
    await s.consumer("B").heartbeat(member_epoch=1)
    await s.consumer("B").leave()
    await a.heartbeat()
    await s.describe()


@scenario("policy disabled: a classic member joins a live KIP-848 group", settings="disabled")
async def a_classic_member_joins_consumers_with_migration_disabled(s: Script) -> None:
    a = await s.consumer("A", server_assignor="range").joined()
    b = await s.member("B", protocols=subscribed("orders"), member_id="B").rebalance()
    await b.heartbeat()
    await s.describe_consumers()
    await a.leave()
    await s.list()
    await b.heartbeat()


@scenario("policy upgrade: live groups are upgraded, not downgraded", settings="upgrade")
async def live_groups_with_upgrades_only(s: Script) -> None:
    a = await s.member("A", protocols=subscribed("orders")).entered()
    await a.sync({a: assignment("orders", 0, 1)})
    b = await s.consumer("B", server_assignor="range").joined()
    await s.list()
    await a.heartbeat()
    await a.rebalance()
    await b.heartbeat()
    await b.leave()
    await s.list()
    await s.describe_consumers()
    await a.heartbeat()
    await a.rebalance()
    await a.leave()
    await s.list()


@scenario(
    "policy upgrade: a group above group.consumer.max.size is not upgraded", settings="upgrade"
)
async def a_large_classic_group_is_not_upgraded(s: Script) -> None:
    a, _, c = await classic_group(s, {"A": [0], "B": [1], "C": []})
    await s.consumer("D").join()
    await c.leave()
    await s.consumer("D").join()
    await a.heartbeat()
    await s.list()


@scenario(
    "group.consumer.max.size: a full classic group is upgraded once a member has left",
    settings="upgrade",
)
async def a_full_classic_group_is_upgraded(s: Script) -> None:
    _, b = await classic_group(s, {"A": [0], "B": [1]}, instances={"A": "i1"})
    await s.consumer("D").join()
    await s.list()
    await s.consumer("D", instance="i1").join()
    await b.leave()
    await s.consumer("D").join()
    await s.list()


@scenario("policy downgrade: a consumer cannot join a live classic group", settings="downgrade")
async def a_consumer_joins_a_classic_group_with_downgrades_only(s: Script) -> None:
    a = await s.member("A", protocols=subscribed("orders")).entered()
    await a.sync({a: assignment("orders", 0, 1)})
    await s.consumer("B").join()
    await a.heartbeat()
    await s.list()


@scenario("policy downgrade: the last consumer leaves a mixed group", settings="downgrade")
async def a_mixed_group_with_downgrades_only(s: Script) -> None:
    a = await s.consumer("A", server_assignor="range").joined()
    b = await s.member("B", protocols=subscribed("orders"), member_id="B").rebalance()
    await a.leave()
    await s.list()
    await b.heartbeat()
    await b.join()
    await s.describe()


@scenario(
    "policy downgrade: no downgrade if more than group.max.size members would remain",
    settings="downgrade",
)
async def a_large_group_is_not_downgraded(s: Script) -> None:
    a = await s.consumer("A", server_assignor="range").joined()
    members = [s.member(n, protocols=subscribed("orders"), member_id=n) for n in "BCD"]
    for member in members:
        await member.rebalance()
    await a.leave()
    await s.list()
    await members[0].heartbeat()
    await members[2].leave()
    await s.list()
    await s.describe_consumers(1)
