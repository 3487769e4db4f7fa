"""OffsetCommit: who may, and what is wrong with a partition; OffsetFetch: what is there."""

from ..registry import scenario
from ..script import Script

NOBODY = {"member_id": "", "generation_id_or_member_epoch": -1, "group_instance_id": None}


@scenario("OffsetCommit 1: without a group and a generation one is made, Empty and of no type")
async def a_simple_commit_makes_a_group(s: Script) -> None:
    await s.member("A").commit(7)
    await s.describe()
    await s.list()
    await s.fetch(orders=(0, 1))
    await s.fetch()


@scenario("OffsetCommit in every version; v10 names topics by id")
async def every_version_commits(s: Script) -> None:
    for version in range(2, 11):
        await s.member("A").commit(version, version)
        await s.fetch(orders=(0,))


@scenario("OffsetFetch in every version; v10 names topics by id")
async def every_version_fetches(s: Script) -> None:
    await s.member("A").commit(7)
    for version in range(1, 11):
        await s.fetch(version, orders=(0, 1), payments=(0,))
    for version in range(2, 11):
        await s.fetch(version)


@scenario("OffsetCommit 2, trap 16: a generation of an unknown group, in every version")
async def a_generation_of_a_group_that_is_not_there(s: Script) -> None:
    for version in range(2, 11):
        await s.member("A").commit(7, version, generation_id_or_member_epoch=0)
    await s.describe()


@scenario("OffsetCommit 4, trap 15: an empty group takes commits of anybody without a generation")
async def an_empty_group_does_not_ask_who_commits(s: Script) -> None:
    (a,) = await s.stable("A")
    await a.leave()
    await a.commit(1, **NOBODY)
    await a.commit(2, member_id="stranger", generation_id_or_member_epoch=-1)
    await a.commit(3, **{**NOBODY, "group_instance_id": "i9"})
    await a.commit(4)
    await a.commit(5, generation_id_or_member_epoch=2)
    await a.commit(6, **{**NOBODY, "generation_id_or_member_epoch": 2})
    await s.fetch()


@scenario("OffsetCommit 5 and 6, trap 15: a group that lives asks for id and generation")
async def a_live_group_asks_who_commits(s: Script) -> None:
    a, b = await s.stable("A", "B", instances={"B": "i1"})
    await a.commit(1, **NOBODY)
    await a.commit(2, member_id="stranger")
    await a.commit(3, generation_id_or_member_epoch=-1)
    await a.commit(4, generation_id_or_member_epoch=1)
    await a.commit(5, generation_id_or_member_epoch=3)
    await a.commit(6, **{**NOBODY, "generation_id_or_member_epoch": 2})
    await a.commit(7, **{**NOBODY, "group_instance_id": "i1"})
    await b.commit(8, group_instance_id="i9")
    await b.commit(9, group_instance_id=None)
    await s.fetch()
    await b.commit(10)
    await s.fetch()


@scenario("OffsetCommit 7: while syncs are missing, and while a round is open")
async def commits_during_a_rebalance(s: Script) -> None:
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await a.commit(1)
    await a.sync({a: "1"})
    await a.commit(2)
    await b.enter()
    await a.commit(3)
    await b.commit(4, generation_id_or_member_epoch=1)
    await a.commit(5, **NOBODY)
    await s.fetch()
    await a.join()
    await a.commit(6, generation_id_or_member_epoch=1)
    await a.commit(7)
    await a.commit(8, **NOBODY)
    await s.fetch()


@scenario("OffsetCommit 5: a pending id is no member")
async def a_pending_member_commits(s: Script) -> None:
    await s.stable("A")
    b = s.member("B")
    await b.join()
    await b.commit(1)
    await b.commit(2, generation_id_or_member_epoch=1)


@scenario("OffsetCommit: topics and partitions that are not there, in names and in ids")
async def commits_of_partitions_that_are_not_there(s: Script) -> None:
    a = s.member("A")
    await a.commit(1, topics=[("orders", 0, ""), ("orders", 9, ""), ("nothing", 0, "")])
    await a.commit(1, topics=[("nothing", 0, "")], generation_id_or_member_epoch=7)
    await a.commit(1, 10, topics=[("orders", 0, ""), ("orders", 9, "")])
    await s.fetch()
    await s.fetch(orders=(0, 9), nothing=(0,))


@scenario("OffsetCommit: a topic named twice is one in the answer if anything is refused")
async def topics_that_are_named_twice(s: Script) -> None:
    def topic(name: str, *partitions: int) -> dict[str, object]:
        asked = [
            {"partition_index": index, "committed_offset": 10 + at, "committed_metadata": ""}
            for at, index in enumerate(partitions)
        ]
        return {"name": name, "topic_id": s.peer.topic_ids.get(name), "partitions": asked}

    async def commit(version: int, generation_id: int, *topics: object) -> None:
        said = {"group_id": s.group, "generation_id_or_member_epoch": generation_id}
        await s.ask("OffsetCommit", version, {**said, "topics": topics})

    for version in (2, 9, 10):
        await commit(version, -1, topic("orders", 0), topic("payments", 0), topic("orders", 1, 0))
        twice = (topic("orders", 0, 9), topic("payments", 0), topic("orders", 8, 1))
        await commit(version, -1, *twice)
        await commit(version, 7, *twice)
        await commit(version, -1, topic("orders"), topic("payments", 0))
    await commit(9, -1, topic("nothing"), topic("orders", 0), topic("orders", 1))
    await s.fetch()


@scenario("OffsetCommit: metadata is counted in UTF-16 units; trap 19")
async def notes_that_are_too_long(s: Script) -> None:
    a = s.member("A")
    long = [("orders", 0, "x" * 4096), ("orders", 1, "x" * 4097), ("payments", 0, None)]
    await a.commit(1, topics=long)
    await s.fetch(orders=(1,), payments=(0,))
    await a.commit(2, topics=[("orders", 0, "ü" * 4096), ("orders", 1, "😀" * 2048)])
    await a.commit(3, topics=[("orders", 0, "ü" * 4097), ("orders", 1, "😀" * 2049)])


@scenario("OffsetCommit: offsets are not looked at; the last of a request wins")
async def offsets_that_make_no_sense(s: Script) -> None:
    a = s.member("A")
    for offset in (-1, -(2**63), 2**63 - 1):
        await a.commit(offset)
        await s.fetch()
    await a.commit(5, topics=[("orders", 0, "one"), ("orders", 0, "two")])
    await s.fetch()


@scenario("OffsetFetch 2, trap 17: an unknown group is no error, in every version")
async def a_fetch_without_a_group(s: Script) -> None:
    for version in range(1, 11):
        await s.fetch(version, orders=(0,))
    for version in range(2, 11):
        await s.fetch(version)
    await s.describe()


@scenario("OffsetFetch 3: a classic group does not ask who fetches; require_stable changes nothing")
async def a_fetch_of_a_stranger(s: Script) -> None:
    (a,) = await s.stable("A")
    await a.commit(3)
    group = {"group_id": s.group, "topics": None}
    for member_id, epoch in ((None, -1), ("stranger", 7), (a.id, 1), ("", 0)):
        asked = {**group, "member_id": member_id, "member_epoch": epoch}
        await s.ask("OffsetFetch", 9, {"groups": [asked], "require_stable": True})
    await s.ask("OffsetFetch", 7, {**group, "require_stable": True})


@scenario("OffsetFetch v8: many groups in one request, in its order, one twice")
async def a_fetch_of_many_groups(s: Script) -> None:
    await s.member("A").commit(3)
    names = (f"{s.group}/other", s.group, s.group)
    groups = [{"group_id": name, "member_epoch": -1, "topics": None} for name in names]
    await s.ask("OffsetFetch", 8, {"groups": groups})


@scenario("OffsetFetch: no topics at all, and one without partitions")
async def a_fetch_of_nothing(s: Script) -> None:
    await s.member("A").commit(3)
    for topics in ((), [{"name": "orders", "partition_indexes": ()}]):
        group = {"group_id": s.group, "member_epoch": -1, "topics": topics}
        await s.ask("OffsetFetch", 8, {"groups": [group]})
        await s.ask("OffsetFetch", 5, group)
