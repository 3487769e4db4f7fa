"""Limits: group.max.size, the size of records, and the rules for group ids."""

from ..scenario import scenario
from ..script import Script

LARGE = b"x" * 1_100_000  # more than max.message.bytes of the offsets topic, 1,048,588


@scenario("group.max.size 2: the third member is rejected in every state", settings="delayed")
async def a_full_group_rejects_another_member(s: Script) -> None:
    a = await s.member("A").joined()
    b = await s.member("B").joined()
    c = await s.member("C").joined()
    await a.join()
    await b.join()
    await c.join()
    await s.member("D").join()
    await s.until_response()
    await c.join(member_id="")
    await s.member("D", instance="i1").join()
    await a.sync({a: "1", b: "2"})
    await b.sync()
    await s.member("D").join(3)
    await s.describe()
    await a.join()
    await b.join()


@scenario("group.max.size: members may rejoin; a static one may be replaced", settings="delayed")
async def members_of_a_full_group_rejoin(s: Script) -> None:
    a = await s.member("A").entered()
    b = await s.member("B", instance="i1").joined()
    await s.until_response()
    await a.sync({a: "1", b: "2"})
    await b.sync()
    await b.join()
    await s.member("B", instance="i1").join()
    await s.describe()


@scenario("group.max.size: pending ids do not count until they join", settings="delayed")
async def pending_ids_do_not_fill_a_group(s: Script) -> None:
    members = [s.member(name) for name in "ABC"]
    for member in members:
        await member.join()
    for member in members:
        await member.join()
    await s.until_response()
    await members[2].heartbeat(generation_id=1)
    await members[2].join()


@scenario(
    "group.max.size: a rebalance whose last member is rejected waits for its timeout",
    settings="delayed",
)
async def a_member_rejoins_too_late_to_a_full_rebalance(s: Script) -> None:
    a, b, c = s.member("A", rebalance_ms=5000), s.member("B", rebalance_ms=5000), s.member("C")
    await a.enter()
    await b.enter()
    await s.until_response()
    await a.sync({a: "1", b: "2"})
    await b.sync()
    await a.join()
    await c.enter()
    await b.join()
    await s.describe()
    await s.until_response()
    await a.heartbeat()
    await s.describe()


@scenario("SyncGroup: an assignment that cannot be stored causes another rebalance")
async def an_assignment_that_is_too_large(s: Script) -> None:
    a = await s.member("A").entered()
    b = await s.member("B").entered()
    c = await s.member("C").entered()
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


@scenario("SyncGroup: an assignment that cannot be stored, from a leader without followers")
async def an_assignment_of_one_member_is_too_large(s: Script) -> None:
    a = await s.member("A").entered()
    for version in (0, 5):
        await a.sync({a: LARGE.decode()}, version)
        await a.heartbeat()
        await a.join()
    await a.sync({a: "small"})
    await s.describe()


@scenario("OffsetCommit: if a record cannot be stored, the whole request fails")
async def a_commit_that_is_too_large(s: Script) -> None:
    (a,) = await s.stable("A")
    note = "x" * 4_000
    await a.commit(7, topics=[("orders", 0, note)] * 270)
    await s.fetch(orders=(0, 1))
    await a.commit(8, topics=[("orders", 0, note)] * 250)
    await a.commit(9, topics=[("orders", 0, note)] * 270)
    await s.member("B").commit(9, topics=[("payments", 9, ""), *[("orders", 0, note)] * 270])


@scenario("OffsetCommit: a commit that cannot be stored creates no group")
async def a_commit_that_is_too_large_to_an_unknown_group(s: Script) -> None:
    await s.member("A").commit(7, topics=[("orders", 0, "x" * 4_000)] * 270)
    await s.list()
    await s.describe(6)


@scenario(
    "JoinGroup: a static member whose new record cannot be stored is not replaced", is_exact=True
)
async def a_static_member_returns_with_too_large_metadata(s: Script) -> None:
    a, b = await s.stable("A", "B", instances={"A": "i1", "B": "i2"})
    for member in (a, b):
        for version in (5, 9):
            await member.join(version, member_id="", protocols=[("range", LARGE)])
            await s.describe()
            await member.heartbeat()
    await a.join(member_id="")
    await a.sync()


@scenario("group ids: JoinGroup with an empty id, in every version")
async def a_join_without_a_group_id(s: Script) -> None:
    for version in range(10):
        await s.member("A").join(version, group_id="", member_id="x")


@scenario("group ids: SyncGroup and Heartbeat with an empty id, in every version")
async def syncs_and_heartbeats_without_a_group_id(s: Script) -> None:
    a = s.member("A")
    for version in range(6):
        await a.sync(version=version, group_id="")
    for version in range(5):
        await a.heartbeat(version, group_id="")


@scenario("group ids: LeaveGroup and OffsetDelete with an empty id, in every version")
async def leaving_and_deleting_offsets_without_a_group_id(s: Script) -> None:
    member = {"member_id": "x", "group_instance_id": None}
    for version in range(6):
        values = {"group_id": "", **(member if version < 3 else {"members": [member]})}
        await s.send("LeaveGroup", version, values)
    partitions = [{"partition_index": 0}]
    topics = [{"name": "orders", "partitions": partitions}]
    await s.send("OffsetDelete", 0, {"group_id": "", "topics": topics})


@scenario("group ids: a group with an empty id may have offsets", settings="delayed")
async def the_empty_group_id_has_offsets(s: Script) -> None:
    a = s.member("A")
    await a.commit(3, group_id="")
    for version in (5, 7):
        await s.send("OffsetFetch", version, {"group_id": "", "topics": None})
    group = {"group_id": "", "member_epoch": -1, "topics": None}
    await s.send("OffsetFetch", 8, {"groups": [group]})
    await a.commit(3, group_id="", generation_id_or_member_epoch=1)
    await s.describe(5, "")
    await s.delete("")
    await s.delete("")
    await s.describe(5, "")


@scenario("responses: an error message with a name that is too long fails the whole request")
async def long_names_in_error_messages(s: Script) -> None:
    long, topic = "x" * 32_760, {"name": "orders", "partition_indexes": (0,)}
    await s.send("DescribeProducers", 0, {"topics": [topic, {**topic, "name": long}]})
    await s.send("CreateTopics", 7, {"topics": [{"name": long}], "timeout": 10_000})
    await s.send("ConsumerGroupDescribe", 1, {"group_ids": [f"{s.group}-a", long]})
    heartbeat = {"group_id": long, "member_id": "me", "member_epoch": 1}
    await s.send("ConsumerGroupHeartbeat", 0, heartbeat)
    topic_resource = {"resource_type": 2, "resource_name": long}
    await s.send("IncrementalAlterConfigs", 1, {"resources": [topic_resource]})


@scenario("session timeouts are validated after the group id, before everything else")
async def the_error_of_a_request_with_two_mistakes(s: Script) -> None:
    a = s.member("A")
    await a.join(group_id="", session_timeout=1)
    await a.join(session_timeout=1, protocols=())
    await a.sync(version=5, group_id="", protocol_type=None)
    await a.sync(version=5, protocol_type=None, member_id="stranger")
