"""The rule of group ids: where the empty one is legal, and where it is not; trap 18."""

from ..registry import scenario
from ..script import Script


@scenario("group id rule: JoinGroup, in every version")
async def a_join_without_a_group_id(s: Script) -> None:
    for version in range(10):
        await s.member("A").join(version, group_id="", member_id="x")


@scenario("group id rule: SyncGroup and Heartbeat, in every version")
async def syncs_and_heartbeats_without_a_group_id(s: Script) -> None:
    a = s.member("A")
    for version in range(6):
        await a.sync(version=version, group_id="")
    for version in range(5):
        await a.heartbeat(version, group_id="")


@scenario("group id rule: LeaveGroup, in every version, and OffsetDelete")
async def leaving_and_deleting_offsets_without_a_group_id(s: Script) -> None:
    member = {"member_id": "x", "group_instance_id": None}
    for version in range(6):
        values = {"group_id": "", **(member if version < 3 else {"members": [member]})}
        await s.ask("LeaveGroup", version, values)
    partitions = [{"partition_index": 0}]
    topics = [{"name": "orders", "partitions": partitions}]
    await s.ask("OffsetDelete", 0, {"group_id": "", "topics": topics})


@scenario(
    "group id rule, trap 18: offsets may belong to the group without a name", settings="delayed"
)
async def the_empty_group_id_has_offsets(s: Script) -> None:
    a = s.member("A")
    await a.commit(3, group_id="")
    for version in (5, 7):
        await s.ask("OffsetFetch", version, {"group_id": "", "topics": None})
    group = {"group_id": "", "member_epoch": -1, "topics": None}
    await s.ask("OffsetFetch", 8, {"groups": [group]})
    await a.commit(3, group_id="", generation_id_or_member_epoch=1)
    await s.describe(5, "")
    await s.delete("")
    await s.delete("")
    await s.describe(5, "")


@scenario("the session timeout is looked at after the group id and before all else; trap 31")
async def which_of_two_mistakes_is_told(s: Script) -> None:
    a = s.member("A")
    await a.join(group_id="", session_timeout=1)
    await a.join(session_timeout=1, protocols=())
    await a.sync(version=5, group_id="", protocol_type=None)
    await a.sync(version=5, protocol_type=None, member_id="stranger")
