"""The permissions for requests of group members and group administrators."""

from uuid import UUID

from ..members import subscribed
from ..scenario import authorized
from ..script import Script

UNKNOWN_ID = UUID(int=77)


@authorized("JoinGroup, SyncGroup, Heartbeat and LeaveGroup need READ on the group")
async def classic_members_read_their_group(s: Script) -> None:
    a = s.member("alice")
    for version in range(10):
        await a.join(version)
    await a.join(session_timeout=1)
    await a.join(group_id="", session_timeout=1)
    for version in range(6):
        await a.sync(version=version)
    await a.sync(protocol_type=None)
    await a.sync(group_id="")
    for version in range(5):
        await a.heartbeat(version)
    await a.heartbeat(group_id="")
    for version in range(6):
        await a.leave(version)
    await s.leave(version=5)
    await s.allow("alice", "DESCRIBE", f"group {s.group}")
    await a.join()
    await s.allow("alice", "READ", f"group {s.group}")
    await a.enter()
    await a.sync({a: "1"})
    await a.heartbeat()
    await s.deny("alice", "READ", f"group {s.group}")
    await a.heartbeat()
    await a.sync()
    await a.leave()
    await s.delete_acls()
    await s.describe()


@authorized("a member loses access during a heartbeat loop, and gets it back")
async def repeated_heartbeats_are_authorized_each_time(s: Script) -> None:
    await s.allow("alice", "READ", f"group {s.group}")
    a = await s.member("alice").entered()
    await a.sync({a: "1"})
    for _ in range(3):
        await a.heartbeat()
    await s.deny("*", "ALL", f"group {s.group}")
    for _ in range(2):
        await a.heartbeat()
    await s.delete_acls()
    await s.allow("alice", "ALL", "group *")
    await a.heartbeat()


@authorized("OffsetCommit needs READ on the group, and on each topic")
async def commits_read_group_and_topics(s: Script) -> None:
    a = s.member("alice")
    topics = [("orders", 0, ""), ("payments", 0, ""), ("nothing", 0, ""), ("orders", 9, "")]
    for version in range(2, 10):
        await a.commit(1, version, topics=topics)
    await s.allow("alice", "READ", f"group {s.group}")
    for version in range(2, 10):
        await a.commit(1, version, topics=topics)
    await s.allow("alice", "DESCRIBE", "topic orders")
    await a.commit(1, topics=topics)
    await s.allow("alice", "READ", "topic orders")
    await s.allow("alice", "READ", "topic nothing")
    await a.commit(2, topics=topics)
    await s.fetch()
    await a.commit(3, topics=[("payments", 0, "")], generation_id_or_member_epoch=7)
    await a.commit(3, topics=[("orders", 0, "")], generation_id_or_member_epoch=7)
    await s.deny("alice", "READ", "topic orders")
    await a.commit(4, topics=topics)
    await s.fetch()


@authorized("OffsetCommit by topic ids: denied topics, and an unknown id")
async def commits_by_topic_ids(s: Script) -> None:
    ids = [s.topic_ids["orders"], UNKNOWN_ID, s.topic_ids["payments"]]
    entries = [{"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}]
    values = {
        "group_id": s.group,
        "generation_id_or_member_epoch": -1,
        "topics": [{"topic_id": each, "partitions": entries} for each in ids],
    }
    await s.send("OffsetCommit", 10, values, client_id="alice")
    await s.allow("alice", "READ", f"group {s.group}")
    await s.send("OffsetCommit", 10, values, client_id="alice")
    await s.allow("alice", "READ", "topic payments")
    await s.send("OffsetCommit", 10, values, client_id="alice")


@authorized("OffsetFetch needs DESCRIBE on the group, and on each topic")
async def fetched_offsets_are_described(s: Script) -> None:
    await s.member("x").commit(1, topics=[("orders", 0, ""), ("payments", 0, "")])
    topics = [
        {"name": name, "partition_indexes": (0, 1)} for name in ("orders", "payments", "nothing")
    ]

    async def fetch_all() -> None:
        for version in range(1, 8):
            values = {"group_id": s.group, "topics": topics}
            await s.send("OffsetFetch", version, values, client_id="alice")
        for version in range(8, 10):
            groups = [
                {"group_id": s.group, "topics": topics, "member_epoch": -1},
                {"group_id": s.group, "topics": None, "member_epoch": -1},
                {"group_id": f"{s.group}.other", "topics": topics, "member_epoch": -1},
            ]
            await s.send("OffsetFetch", version, {"groups": groups}, client_id="alice")
        ids = (s.topic_ids["orders"], UNKNOWN_ID, s.topic_ids["payments"])
        by_id = [{"topic_id": each, "partition_indexes": (0,)} for each in ids]
        groups = [{"group_id": s.group, "topics": by_id, "member_epoch": -1}]
        await s.send("OffsetFetch", 10, {"groups": groups}, client_id="alice")
        groups = [{"group_id": s.group, "topics": None, "member_epoch": -1}]
        await s.send("OffsetFetch", 10, {"groups": groups}, client_id="alice")
        everything = {"group_id": s.group, "topics": None}
        await s.send("OffsetFetch", 7, everything, client_id="alice")

    await s.allowing(fetch_all, f"DESCRIBE group {s.group}", "READ topic orders")


@authorized("FindCoordinator needs DESCRIBE on the group or transactional id")
async def coordinators_are_found_with_permission_to_describe(s: Script) -> None:
    async def find(version: int, key_type: int, *keys: str) -> None:
        values = {"key": keys[0], "coordinator_keys": keys, "key_type": key_type}
        await s.send("FindCoordinator", version, values, client_id="alice")

    for version in range(7):
        for key_type in (0, 1, 2):
            await find(version, key_type, s.group, "other")
    await s.allow("alice", "READ", f"group {s.group}")
    for version in range(7):
        await find(version, 0, s.group, "other", s.group)
    await find(4, 0, "other")


@authorized("DescribeGroups needs DESCRIBE, and returns the allowed operations")
async def groups_are_described_with_permission(s: Script) -> None:
    await s.member("x").commit(1)
    groups = (s.group, f"{s.group}.none")

    async def describe_all() -> None:
        for version in range(7):
            for group in groups:
                values = {"groups": (group,), "include_authorized_operations": True}
                await s.send("DescribeGroups", version, values, client_id="alice")

    await describe_all()
    await s.allow("alice", "DESCRIBE", f"group {s.group}", pattern="PREFIXED")
    await describe_all()
    await s.allow("alice", "DELETE", f"group {s.group}")
    await s.allow("alice", "ALTER_CONFIGS", f"group {s.group}")
    await s.allowing(describe_all, "ALL group *")


@authorized("ListGroups returns all groups with DESCRIBE on the cluster, else groups with DESCRIBE")
async def groups_are_listed_with_permission(s: Script) -> None:
    await s.member("x").commit(1)
    await s.member("y").commit(1, group_id=f"{s.group}.2")
    for version in range(6):
        await s.send("ListGroups", version, {}, client_id="alice")
    await s.allow("alice", "READ", f"group {s.group}.2")
    for version in range(6):
        await s.send("ListGroups", version, {}, client_id="alice")
    await s.allow("alice", "ALTER", "cluster")
    await s.send("ListGroups", 5, {}, client_id="alice")
    await s.deny("alice", "DESCRIBE", f"group {s.group}")
    await s.send("ListGroups", 5, {}, client_id="alice")


@authorized("DeleteGroups needs DELETE on each group")
async def groups_are_deleted_with_permission(s: Script) -> None:
    await s.member("x").commit(1)
    groups = {"groups_names": (s.group, f"{s.group}.none", s.group)}
    for version in range(3):
        await s.send("DeleteGroups", version, groups, client_id="alice")
    await s.allow("alice", "ALTER", f"group {s.group}")
    await s.send("DeleteGroups", 2, groups, client_id="alice")
    await s.allow("alice", "DELETE", f"group {s.group}")
    await s.send("DeleteGroups", 2, groups, client_id="alice")


@authorized("OffsetDelete needs DELETE on the group, and READ on each topic")
async def offsets_are_deleted_with_permission(s: Script) -> None:
    await s.member("x").commit(1, topics=[("orders", 0, ""), ("payments", 0, "")])
    topics = [
        {"name": name, "partitions": [{"partition_index": n} for n in (0, 9)]}
        for name in ("orders", "payments", "nothing")
    ]
    values = {"group_id": s.group, "topics": topics}
    await s.send("OffsetDelete", 0, values, client_id="alice")
    await s.allow("alice", "DELETE", f"group {s.group}")
    await s.send("OffsetDelete", 0, values, client_id="alice")
    await s.fetch()
    await s.allow("alice", "READ", "topic payments")
    await s.send("OffsetDelete", 0, values, client_id="alice")
    await s.fetch()
    none = {"group_id": f"{s.group}.none", "topics": topics}
    await s.allow("alice", "DELETE", f"group {s.group}.none")
    await s.send("OffsetDelete", 0, none, client_id="alice")


@authorized("ConsumerGroupHeartbeat needs READ on the group, and DESCRIBE on its topics")
async def consumers_describe_their_topics(s: Script) -> None:
    a = await s.consumer("alice", "orders", "payments").joined()
    await a.join(0)
    await a.heartbeat(group_id="", member_id="")
    await s.allow("alice", "READ", f"group {s.group}")
    await a.join()
    await a.heartbeat(member_epoch=-9, subscribed_topic_names=("orders",))
    await s.allow("alice", "READ", "topic orders")
    await a.join()
    await a.join(subscribed_topic_names=("orders", "nothing"))
    await a.join(subscribed_topic_names=("orders",))
    await s.converge(a)
    await a.heartbeat()
    await s.deny("alice", "DESCRIBE", "topic orders")
    await a.heartbeat()
    await a.heartbeat(subscribed_topic_names=("orders",))
    await s.deny("alice", "READ", f"group {s.group}")
    await a.heartbeat()
    await a.leave()


@authorized("a regular expression matches the topics that its member may describe")
async def expressions_match_described_topics(s: Script) -> None:
    await s.allow("alice", "READ", f"group {s.group}")
    await s.allow("alice", "DESCRIBE", "topic payments")
    await s.allow("alice", "READ", "topic ship", pattern="PREFIXED")
    a = s.consumer("alice", subscribed_topic_names=None, subscribed_topic_regex="(o|p|s).*s")
    await a.join()
    await s.until_epoch(2)
    await s.converge(a)
    await s.describe_consumers()


@authorized("without permission to describe any topic, an expression matches none")
async def expressions_match_no_hidden_topics(s: Script) -> None:
    await s.allow("alice", "READ", f"group {s.group}")
    a = await s.consumer("alice", subscribed_topic_names=None, subscribed_topic_regex=".*").joined()
    await a.heartbeat()
    await s.describe_consumers()


@authorized("ConsumerGroupDescribe needs DESCRIBE on the group and all its topics")
async def consumer_groups_are_described_with_permission(s: Script) -> None:
    x = await s.consumer("x", "orders", "payments").joined()
    await s.converge(x)
    groups = (s.group, "", f"{s.group}.none")

    async def describe() -> None:
        for version in (0, 1):
            values = {"group_ids": groups, "include_authorized_operations": True}
            await s.send("ConsumerGroupDescribe", version, values, client_id="alice")

    await s.allowing(
        describe, f"DESCRIBE group {s.group}", "DESCRIBE topic orders", "WRITE topic payments"
    )


@authorized("a classic member of a consumer group needs READ on the group only")
async def classic_members_of_consumer_groups(s: Script) -> None:
    x = await s.consumer("x", "orders").joined()
    await s.converge(x)
    a = await s.member("alice", protocols=subscribed("payments")).joined()
    await s.allow("alice", "READ", f"group {s.group}")
    await a.enter()
