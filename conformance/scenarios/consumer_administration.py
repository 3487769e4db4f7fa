"""ConsumerGroupDescribe, DescribeGroups, ListGroups, DeleteGroups, FindCoordinator."""

from ..scenario import consumer_scenario
from ..script import Script


@consumer_scenario("ConsumerGroupDescribe: unknown groups, several groups, empty ids")
async def unknown_consumer_groups_are_described(s: Script) -> None:
    await s.consumer("A").join()
    for version in (0, 1):
        await s.describe_consumers(version, f"{s.group}/unknown")
        await s.describe_consumers(version, "", s.group, f"{s.group}/unknown")
        await s.describe_consumers(version, s.group, s.group)
        await s.send("ConsumerGroupDescribe", version, {"group_ids": ()})


@consumer_scenario("ConsumerGroupDescribe: groups of the classic protocol")
async def classic_groups_are_described_as_consumer_groups(s: Script) -> None:
    await s.stable("A")
    await s.member("B").commit(1, group_id=f"{s.group}/simple")
    for version in (0, 1):
        await s.describe_consumers(version)
        await s.describe_consumers(version, f"{s.group}/simple")


@consumer_scenario("ConsumerGroupDescribe: authorized operations")
async def authorized_operations_of_consumer_groups(s: Script) -> None:
    await s.consumer("A").join()
    groups = (s.group, f"{s.group}/unknown")
    for version in (0, 1):
        values = {"group_ids": groups, "include_authorized_operations": True}
        await s.send("ConsumerGroupDescribe", version, values)


@consumer_scenario("ConsumerGroupDescribe: all fields of a member")
async def all_fields_of_a_consumer_are_described(s: Script) -> None:
    a = s.consumer("A", "payments", "orders", instance="i1", rack_id="r1", server_assignor="range")
    await a.join(subscribed_topic_regex="ship.*x")
    for version in (0, 1):
        await s.describe_consumers(version)


@consumer_scenario("DescribeGroups: a KIP-848 group is unknown, in every version")
async def consumer_groups_are_described_as_classic_groups(s: Script) -> None:
    a = await s.consumer("A").joined()
    for version in range(7):
        await s.describe(version)
    await a.leave()
    await s.describe(5)
    await s.describe(6)


@consumer_scenario("ListGroups: by type, in every version")
async def consumer_groups_are_listed(s: Script) -> None:
    await s.consumer("A").join()
    b = s.consumer("B")
    await b.join(group_id=f"{s.group}/empty")
    await b.heartbeat(group_id=f"{s.group}/empty", member_epoch=-1)
    await s.member("C").enter(group_id=f"{s.group}/classic")
    await s.member("D").commit(1, group_id=f"{s.group}/simple")
    for version in range(6):
        await s.list(version)
    for types in (("consumer",), ("CONSUMER",), ("classic",), ("classic", "consumer"), ("share",)):
        await s.list(types_filter=types)


@consumer_scenario("ListGroups: by state, in each state")
async def consumer_groups_are_listed_by_state(s: Script) -> None:
    a, b = s.consumer("A"), s.consumer("B")
    states = ("Empty", "Assigning", "Reconciling", "Stable", "Dead", "CompletingRebalance")

    async def list_all() -> None:
        for state in states:
            await s.list(states_filter=(state,))

    await a.join()
    await list_all()
    await b.join()
    await list_all()
    await b.leave()
    await list_all()
    await a.leave()
    await list_all()


@consumer_scenario("ListGroups: state names in upper and lower case, with types")
async def consumer_groups_are_listed_by_state_and_type(s: Script) -> None:
    await s.consumers("A", "B")
    for states in (("reconciling",), ("RECONCILING", "stable"), (" Reconciling ",), ("unknown",)):
        await s.list(4, states_filter=states)
        await s.list(5, states_filter=states)
        await s.list(5, states_filter=states, types_filter=("consumer",))
        await s.list(5, states_filter=states, types_filter=("classic",))


@consumer_scenario("DeleteGroups: a group with members, and an empty group")
async def consumer_groups_are_deleted(s: Script) -> None:
    for version in range(3):
        a = await s.consumer("A").joined()
        await a.commit(1)
        await s.delete(version=version)
        await a.leave()
        await s.delete(version=version)
        await s.describe_consumers()
        await s.fetch()
        await s.delete(version=version)


@consumer_scenario("DeleteGroups: the group can be used again, with epochs from 1")
async def a_deleted_consumer_group_is_used_again(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.heartbeat(subscribed_topic_names=("payments",))
    await a.leave()
    await s.delete()
    await a.heartbeat(member_epoch=1)
    await a.leave()
    await a.join()
    await s.describe_consumers()


@consumer_scenario("DeleteGroups: a static member that left with -2 still counts as a member")
async def a_group_of_an_absent_static_consumer_is_deleted(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    await a.leave(-2)
    await s.delete()
    await s.describe_consumers()


@consumer_scenario("FindCoordinator: for a KIP-848 group, and for an unknown group")
async def the_coordinator_of_a_consumer_group_is_found(s: Script) -> None:
    await s.consumer("A").join()
    for version in range(4):
        await s.send("FindCoordinator", version, {"key": s.group, "key_type": 0})
    for version in range(4, 7):
        keys = (s.group, f"{s.group}/unknown")
        await s.send("FindCoordinator", version, {"coordinator_keys": keys, "key_type": 0})
