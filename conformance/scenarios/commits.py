"""OffsetCommit and OffsetFetch."""

from ..scenario import scenario
from ..script import Script

STANDALONE = {"member_id": "", "generation_id_or_member_epoch": -1, "group_instance_id": None}


@scenario("OffsetCommit: a commit without a generation creates an Empty group without a type")
async def a_standalone_commit_creates_a_group(s: Script) -> None:
    await s.member("A").commit(7)
    await s.describe()
    await s.list()
    await s.fetch(orders=(0, 1))
    await s.fetch()


@scenario("OffsetCommit in every version; v10 has topic ids")
async def offset_commit_in_every_version(s: Script) -> None:
    for version in range(2, 11):
        await s.member("A").commit(version, version)
        await s.fetch(orders=(0,))


@scenario("OffsetFetch in every version; v10 has topic ids")
async def offset_fetch_in_every_version(s: Script) -> None:
    await s.member("A").commit(7)
    for version in range(1, 11):
        await s.fetch(version, orders=(0, 1), payments=(0,))
    for version in range(2, 11):
        await s.fetch(version)


@scenario("OffsetCommit: a commit with a generation to an unknown group, in every version")
async def a_commit_with_a_generation_to_an_unknown_group(s: Script) -> None:
    for version in range(2, 11):
        await s.member("A").commit(7, version, generation_id_or_member_epoch=0)
    await s.describe()


@scenario("OffsetCommit: an empty group accepts all commits without a generation")
async def an_empty_group_accepts_any_member_id(s: Script) -> None:
    (a,) = await s.stable("A")
    await a.leave()
    await a.commit(1, **STANDALONE)
    await a.commit(2, member_id="stranger", generation_id_or_member_epoch=-1)
    await a.commit(3, **{**STANDALONE, "group_instance_id": "i9"})
    await a.commit(4)
    await a.commit(5, generation_id_or_member_epoch=2)
    await a.commit(6, **{**STANDALONE, "generation_id_or_member_epoch": 2})
    await s.fetch()


@scenario("OffsetCommit: a group with members validates the member id and the generation")
async def commits_to_a_stable_group_are_validated(s: Script) -> None:
    a, b = await s.stable("A", "B", instances={"B": "i1"})
    await a.commit(1, **STANDALONE)
    await a.commit(2, member_id="stranger")
    await a.commit(3, generation_id_or_member_epoch=-1)
    await a.commit(4, generation_id_or_member_epoch=1)
    await a.commit(5, generation_id_or_member_epoch=3)
    await a.commit(6, **{**STANDALONE, "generation_id_or_member_epoch": 2})
    await a.commit(7, **{**STANDALONE, "group_instance_id": "i1"})
    await b.commit(8, group_instance_id="i9")
    await b.commit(9, group_instance_id=None)
    await s.fetch()
    await b.commit(10)
    await s.fetch()


@scenario("OffsetCommit: in CompletingRebalance and PreparingRebalance")
async def commits_during_a_rebalance(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await a.commit(1)
    await a.sync({a: "1"})
    await a.commit(2)
    await b.enter()
    await a.commit(3)
    await b.commit(4, generation_id_or_member_epoch=1)
    await a.commit(5, **STANDALONE)
    await s.fetch()
    await a.join()
    await a.commit(6, generation_id_or_member_epoch=1)
    await a.commit(7)
    await a.commit(8, **STANDALONE)
    await s.fetch()


@scenario("OffsetCommit: a pending member id is not a member")
async def a_pending_member_commits(s: Script) -> None:
    await s.stable("A")
    b = await s.member("B").joined()
    await b.commit(1)
    await b.commit(2, generation_id_or_member_epoch=1)


@scenario("OffsetCommit: unknown topics and partitions, by name and by id")
async def commits_for_unknown_topics_and_partitions(s: Script) -> None:
    a = s.member("A")
    await a.commit(1, topics=[("orders", 0, ""), ("orders", 9, ""), ("nothing", 0, "")])
    await a.commit(1, topics=[("nothing", 0, "")], generation_id_or_member_epoch=7)
    await a.commit(1, 10, topics=[("orders", 0, ""), ("orders", 9, "")])
    await s.fetch()
    await s.fetch(orders=(0, 9), nothing=(0,))


@scenario("OffsetCommit: an error response contains a repeated topic once")
async def commits_that_name_a_topic_twice(s: Script) -> None:
    def topic(name: str, *partitions: int) -> dict[str, object]:
        values = [
            {"partition_index": index, "committed_offset": 10 + at, "committed_metadata": ""}
            for at, index in enumerate(partitions)
        ]
        return {"name": name, "topic_id": s.broker.topic_ids.get(name), "partitions": values}

    async def commit(version: int, generation_id: int, *topics: object) -> None:
        values = {"group_id": s.group, "generation_id_or_member_epoch": generation_id}
        await s.send("OffsetCommit", version, {**values, "topics": topics})

    for version in (2, 9, 10):
        await commit(version, -1, topic("orders", 0), topic("payments", 0), topic("orders", 1, 0))
        twice = (topic("orders", 0, 9), topic("payments", 0), topic("orders", 8, 1))
        await commit(version, -1, *twice)
        await commit(version, 7, *twice)
        await commit(version, -1, topic("orders"), topic("payments", 0))
    await commit(9, -1, topic("nothing"), topic("orders", 0), topic("orders", 1))
    await s.fetch()


@scenario("OffsetCommit: the length of metadata is counted in UTF-16 code units")
async def commits_with_too_long_metadata(s: Script) -> None:
    a = s.member("A")
    long = [("orders", 0, "x" * 4096), ("orders", 1, "x" * 4097), ("payments", 0, None)]
    await a.commit(1, topics=long)
    await s.fetch(orders=(1,), payments=(0,))
    await a.commit(2, topics=[("orders", 0, "ü" * 4096), ("orders", 1, "😀" * 2048)])
    await a.commit(3, topics=[("orders", 0, "ü" * 4097), ("orders", 1, "😀" * 2049)])


@scenario("OffsetCommit: offsets are not validated; a partition's last commit in a request applies")
async def commits_of_any_offset(s: Script) -> None:
    a = s.member("A")
    for offset in (-1, -(2**63), 2**63 - 1):
        await a.commit(offset)
        await s.fetch()
    await a.commit(5, topics=[("orders", 0, "one"), ("orders", 0, "two")])
    await s.fetch()


@scenario("OffsetFetch: an unknown group is not an error, in every version")
async def offsets_of_an_unknown_group_are_fetched(s: Script) -> None:
    for version in range(1, 11):
        await s.fetch(version, orders=(0,))
    for version in range(2, 11):
        await s.fetch(version)
    await s.describe()


@scenario("OffsetFetch: a classic group does not validate members; require_stable has no effect")
async def offsets_are_fetched_by_an_unknown_member(s: Script) -> None:
    (a,) = await s.stable("A")
    await a.commit(3)
    group = {"group_id": s.group, "topics": None}
    for member_id, epoch in ((None, -1), ("stranger", 7), (a.id, 1), ("", 0)):
        values = {**group, "member_id": member_id, "member_epoch": epoch}
        await s.send("OffsetFetch", 9, {"groups": [values], "require_stable": True})
    await s.send("OffsetFetch", 7, {**group, "require_stable": True})


@scenario("OffsetFetch v8: many groups in one request, in the request's order, one group twice")
async def offsets_of_many_groups_are_fetched(s: Script) -> None:
    await s.member("A").commit(3)
    names = (f"{s.group}/other", s.group, s.group)
    groups = [{"group_id": name, "member_epoch": -1, "topics": None} for name in names]
    await s.send("OffsetFetch", 8, {"groups": groups})


@scenario("OffsetFetch: no topics, and a topic without partitions")
async def offsets_of_no_topics_are_fetched(s: Script) -> None:
    await s.member("A").commit(3)
    for topics in ((), [{"name": "orders", "partition_indexes": ()}]):
        group = {"group_id": s.group, "member_epoch": -1, "topics": topics}
        await s.send("OffsetFetch", 8, {"groups": [group]})
        await s.send("OffsetFetch", 5, group)
