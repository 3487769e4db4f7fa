"""DescribeGroups, ListGroups, DeleteGroups, OffsetDelete, OffsetFetch, FindCoordinator."""

from ..members import subscribed
from ..scenario import scenario
from ..script import Script


@scenario("DescribeGroups: an unknown group, in every version")
async def an_unknown_group_is_described(s: Script) -> None:
    for version in range(7):
        await s.describe(version)
    await s.describe(5, f"{s.group}/1", s.group, f"{s.group}/1")
    await s.describe(6, "")


@scenario("DescribeGroups: all fields of a stable group, in every version")
async def a_stable_group_is_described(s: Script) -> None:
    await s.stable("A", "B", instances={"B": "i1"})
    for version in range(7):
        await s.describe(version)
    values = {"groups": (s.group,), "include_authorized_operations": True}
    await s.send("DescribeGroups", 5, values)


@scenario("DescribeGroups: metadata and protocol in Stable only, assignments in all states")
async def a_group_is_described_in_each_state(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.join()
    await s.describe()
    await b.join()
    await s.describe()
    await a.sync({a: "1", b: "2"})
    await b.sync()
    await s.describe()
    await s.leave(a, b)
    await s.describe()
    await s.delete()
    await s.describe()


@scenario("DescribeGroups: a group with offsets only")
async def a_simple_group_is_described(s: Script) -> None:
    await s.member("A").commit(1)
    for version in range(7):
        await s.describe(version)


@scenario("ListGroups in every version, with a group of each kind")
async def groups_are_listed(s: Script) -> None:
    await s.stable("A")
    await s.member("B").commit(1, group_id=f"{s.group}/simple")
    await s.member("C").join(group_id=f"{s.group}/pending")
    await s.member("D", protocol_type="connect").enter(group_id=f"{s.group}/connect")
    for version in range(6):
        await s.list(version)


@scenario("ListGroups: state names are trimmed and ignore case; unknown names match nothing")
async def groups_are_listed_by_state(s: Script) -> None:
    (a,) = await s.stable("A")
    await s.member("B").commit(1, group_id=f"{s.group}/simple")
    await s.member("C").enter(group_id=f"{s.group}/completing")
    for version in (4, 5):
        for states in (
            ("Stable",),
            ("stable", "EMPTY"),
            (" Stable ",),
            ("CompletingRebalance",),
            ("completing_rebalance",),
            ("Nonsense",),
            ("Nonsense", "Empty"),
            ("",),
            ("Dead", "Assigning"),
        ):
            await s.list(version, states_filter=states)
    await a.join()
    await a.join(protocols=(("range", b"new"),))
    await s.list(4, states_filter=("preparingrebalance",))


@scenario("ListGroups: types ignore case; unknown types match nothing")
async def groups_are_listed_by_type(s: Script) -> None:
    await s.stable("A")
    for types in (("classic",), ("Classic", "consumer"), ("CONSUMER",), ("share",), ("streams",)):
        await s.list(types_filter=types)
    for types in (("nonsense",), ("",), ("nonsense", "classic"), (" classic",), ("unknown",)):
        await s.list(types_filter=types)
    await s.list(types_filter=("classic",), states_filter=("Empty",))


@scenario("DeleteGroups: an unknown group, a group with members, an empty group; every version")
async def groups_are_deleted(s: Script) -> None:
    for version in range(3):
        await s.delete(version=version)
        (a,) = await s.stable(f"V{version}")
        await s.delete(version=version)
        await a.leave()
        await s.delete(version=version)
        await s.delete(version=version)
        await a.heartbeat()
        await a.commit()
        await s.fetch()


@scenario("DeleteGroups: in PreparingRebalance and CompletingRebalance")
async def a_group_in_a_rebalance_is_not_deleted(s: Script) -> None:
    a = await s.member("A").entered()
    await s.delete()
    await a.join(protocols=(("range", b"new"),))
    await s.delete()
    await s.member("B").enter()
    await s.delete()
    await s.describe()


@scenario("DeleteGroups: pending members do not prevent the deletion")
async def a_group_of_pending_members_is_deleted(s: Script) -> None:
    a = await s.member("A").joined()
    await s.delete()
    await a.join()
    await s.describe()


@scenario("DeleteGroups: offsets are deleted too; the group id can be used again")
async def a_simple_group_is_deleted(s: Script) -> None:
    await s.member("A").commit(1)
    await s.delete()
    await s.fetch(orders=(0,))
    await s.list()
    await s.member("B").enter()


@scenario("OffsetDelete: an unknown group, an empty group, a group of another protocol type")
async def offsets_of_several_kinds_of_groups_are_deleted(s: Script) -> None:
    await s.delete_offsets(orders=(0,))
    a = s.member("A")
    await a.commit(1)
    await s.delete_offsets(orders=(0, 1), payments=(0,))
    await s.fetch()
    b = await s.member("B", protocol_type="connect").entered()
    await s.delete_offsets(orders=(0,))
    await b.sync({b: "1"})
    await s.delete_offsets(orders=(0,))
    await b.leave()
    await s.delete_offsets(orders=(0,))


@scenario("OffsetDelete: unknown topics and partitions")
async def offsets_of_unknown_topics_and_partitions_are_deleted(s: Script) -> None:
    a = s.member("A")
    await a.commit(1)
    await s.delete_offsets(orders=(0, 9), nothing=(0,))
    await s.delete_offsets(nothing=(0,))
    await s.delete_offsets()
    await s.fetch()


@scenario("OffsetDelete: an error response contains a repeated topic once")
async def offsets_of_topics_named_twice_are_deleted(s: Script) -> None:
    await s.member("A").commit(1, topics=[("orders", 0, ""), ("orders", 1, "")])
    await s.delete_offsets(("orders", (0,)), ("payments", (0,)), ("orders", (0, 1)))
    await s.delete_offsets(("orders", (0,)), ("orders", (9,)), ("orders", (1,)))
    await s.delete_offsets(("nothing", ()), ("orders", (0,)), ("orders", (1,)))
    await s.delete_offsets(("orders", ()))


@scenario("OffsetDelete: a topic to which a member is subscribed, in each state")
async def offsets_of_a_subscribed_topic_are_not_deleted(s: Script) -> None:
    a = s.member("A", protocols=subscribed("orders", version=0))
    await a.commit(1, topics=[("orders", 0, ""), ("payments", 0, "")])
    await a.enter()
    await s.delete_offsets(orders=(0,), payments=(0,))
    await s.fetch()
    await a.sync({a: "1"})
    await s.delete_offsets(orders=(0, 1))
    await a.join(protocols=subscribed("orders", "payments", version=0))
    await s.delete_offsets(payments=(0,))
    await a.leave()
    await s.delete_offsets(orders=(0,))
    await s.fetch()


@scenario("OffsetDelete: an invalid subscription counts as a subscription to all topics")
async def offsets_are_not_deleted_if_a_subscription_is_invalid(s: Script) -> None:
    await s.stable("A")
    await s.delete_offsets(orders=(0,), payments=(0,))


@scenario("OffsetFetch: offsets outlive members and rebalances")
async def offsets_survive_rebalances(s: Script) -> None:
    a, b = await s.stable("A", "B")
    await a.commit(1)
    await b.leave()
    await a.join()
    await a.sync({a: "all"})
    await s.fetch()
    await a.leave()
    await s.fetch()


@scenario("FindCoordinator: the message if there is no error, in every version; an empty key")
async def the_coordinator_is_found(s: Script) -> None:
    for version in range(4):
        await s.send("FindCoordinator", version, {"key": s.group, "key_type": 0})
        await s.send("FindCoordinator", version, {"key": "", "key_type": 0})
    for version in range(4, 7):
        keys = (s.group, "", s.group)
        await s.send("FindCoordinator", version, {"coordinator_keys": keys, "key_type": 0})
        await s.send("FindCoordinator", version, {"coordinator_keys": (), "key_type": 0})


@scenario("FindCoordinator: unknown key types; share groups before version 6")
async def the_coordinator_of_an_unknown_key_type(s: Script) -> None:
    for version in range(1, 4):
        for key_type in (2, 7, -1):
            await s.send("FindCoordinator", version, {"key": s.group, "key_type": key_type})
    for version in range(4, 7):
        for key_type in (2, 7, -1) if version < 6 else (7, -1):
            keys = (s.group, s.group, "")
            values = {"coordinator_keys": keys, "key_type": key_type}
            await s.send("FindCoordinator", version, values)
