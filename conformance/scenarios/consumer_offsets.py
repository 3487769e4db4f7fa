"""OffsetCommit, OffsetFetch and OffsetDelete for KIP-848 groups."""

from ..scenario import consumer_scenario
from ..script import Script


@consumer_scenario("commit: by a member, in every version")
async def a_consumer_commits_in_every_version(s: Script) -> None:
    a = await s.consumer("A").joined()
    for version in range(2, 11):
        await a.commit(version, version)
    await a.fetch()


@consumer_scenario("commit: an epoch that is stale, too large, zero or negative")
async def consumers_commit_with_other_epochs(s: Script) -> None:
    a = await s.consumer("A").joined()
    for version in (9, 10):
        for epoch in (0, 1, 2, 3, -1, -2, -3):
            await a.commit(epoch, version, generation_id_or_member_epoch=epoch)
    await a.fetch()


@consumer_scenario("commit: with the epoch of an assignment that the member still has")
async def a_consumer_commits_with_an_older_epoch(s: Script) -> None:
    a, b = s.consumer("A"), s.consumer("B", "payments")
    await a.join()
    first = a.epoch
    await b.join()
    await a.heartbeat()
    second = a.epoch
    await b.heartbeat(subscribed_topic_names=("payments", "unknown"))
    await a.heartbeat()
    for epoch in (a.epoch + 1, a.epoch, second, first, first - 1, 0):
        await a.commit(epoch, generation_id_or_member_epoch=epoch)
    await b.commit(9, topics=[("payments", 0, "")], generation_id_or_member_epoch=first)
    await a.fetch()


@consumer_scenario("commit: a stale epoch, for two partitions, one of which was revoked")
async def a_consumer_commits_for_revoked_partitions(s: Script) -> None:
    a, b = s.consumer("A"), s.consumer("B")
    await a.join()
    first = a.epoch
    await b.join()
    await a.heartbeat()
    both = [("orders", 0, ""), ("orders", 1, "")]
    await a.commit(1, topics=both)
    await a.report()
    kept, given = a.assigned["orders"][0], 1 - a.assigned["orders"][0]
    for epoch in (first, a.epoch):
        await a.commit(2, topics=[("orders", kept, "")], generation_id_or_member_epoch=epoch)
        await a.commit(3, topics=[("orders", given, "")], generation_id_or_member_epoch=epoch)
        await a.commit(4, topics=both, generation_id_or_member_epoch=epoch)
    await b.heartbeat()
    await a.commit(5, topics=[("orders", given, "")], generation_id_or_member_epoch=first)
    await b.commit(6, topics=[("orders", given, "")])
    await a.commit(7, topics=[("payments", 0, "")], generation_id_or_member_epoch=first)
    await a.fetch()


@consumer_scenario("commit: a stale epoch, and metadata that is too large")
async def a_stale_commit_with_too_large_metadata(s: Script) -> None:
    a = await s.consumer("A").joined()
    stale = a.epoch
    await s.consumer("B", "payments").joined()
    await a.heartbeat()
    orders, other = ("orders", 0, ""), ("shipments", 0, "")
    large = ("payments", 0, "x" * 5000)
    for topics in ([large], [orders, large], [large, other], [orders, other]):
        await a.commit(1, topics=topics, generation_id_or_member_epoch=stale)
    await a.commit(2, topics=[large], generation_id_or_member_epoch=a.epoch + 1)
    await a.fetch()


@consumer_scenario("commit: a partition that is assigned again has a newer assignment epoch")
async def a_consumer_commits_for_a_partition_that_returned(s: Script) -> None:
    a, b = s.consumer("A"), s.consumer("B")
    await a.join()
    first = a.epoch
    await b.join()
    await s.converge(a, b)
    kept, given = a.assigned["orders"][0], 1 - a.assigned["orders"][0]
    await b.leave()
    await a.heartbeat()
    for epoch in (first, first + 1, first + 2):
        await a.commit(1, topics=[("orders", kept, "")], generation_id_or_member_epoch=epoch)
        await a.commit(2, topics=[("orders", given, "")], generation_id_or_member_epoch=epoch)
    await a.fetch()


@consumer_scenario("commit: unknown members, unknown groups, members that left")
async def unknown_consumers_commit(s: Script) -> None:
    a, b = s.consumer("A"), s.consumer("B")
    for version in (8, 9):
        await a.commit(1, version, generation_id_or_member_epoch=1)
    await a.join()
    for version in (8, 9):
        for epoch in (2, -1):
            await b.commit(2, version, generation_id_or_member_epoch=epoch)
    await a.leave()
    for version in (8, 9):
        for epoch in (2, -1):
            await a.commit(3, version, generation_id_or_member_epoch=epoch)
    await a.fetch(member_id=None, member_epoch=-1)


@consumer_scenario("commit: without a member, to a group with members and an empty group")
async def an_administrator_commits(s: Script) -> None:
    admin = s.member("Admin")
    a = await s.consumer("A").joined()
    for version in (2, 8, 9):
        await admin.commit(1, version)
    await a.leave()
    for version in (2, 8, 9):
        await admin.commit(version, version)
        await admin.commit(7, version, member_id="A")
        await admin.commit(8, version, group_instance_id="i1")
    await s.fetch()
    await s.describe_consumers()


@consumer_scenario("commit: instance ids are ignored")
async def a_static_consumer_commits(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    for instance in (None, "i1", "i9"):
        await a.commit(1, group_instance_id=instance)
    await a.commit(2, member_id="B", group_instance_id="i1")
    await a.fetch()


@consumer_scenario("commit: partitions and topics that are not assigned or do not exist")
async def a_consumer_commits_for_other_partitions(s: Script) -> None:
    a = await s.consumer("A").joined()
    topics = [("payments", 0, ""), ("orders", 1, "x" * 5000), ("orders", 9, ""), ("nothing", 0, "")]
    await a.commit(1, topics=topics)
    await a.fetch()


@consumer_scenario("commit and fetch v10: by topic ids, known and unknown")
async def offsets_by_topic_ids(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.commit(1, 10, topics=[("orders", 0, ""), ("nothing", 0, ""), ("orders", 1, "")])
    await a.fetch(10)
    await a.fetch(10, topics={"orders": (0, 1, 5), "nothing": (0,)})
    await a.fetch(9, topics={"orders": (0, 1, 5), "nothing": (0,)})


@consumer_scenario("fetch: by a member, with current, stale and unknown epochs")
async def consumers_fetch_with_other_epochs(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.commit(1)
    for version in (9, 10):
        for epoch in (2, 3, 1, 0, -1, -2):
            await a.fetch(version, member_epoch=epoch)
        await a.fetch(version, member_id="stranger")
        await a.fetch(version, member_id=None, member_epoch=-1)
        await a.fetch(version, member_id="", member_epoch=-1)
        await a.fetch(version, member_id="stranger", member_epoch=-1)


@consumer_scenario("fetch: null member id with an epoch")
async def a_fetch_with_an_epoch_but_without_a_member(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.commit(1)
    await a.fetch(member_id=None, member_epoch=2)
    await a.fetch(member_id="", member_epoch=2)
    await a.fetch(member_id=None, member_epoch=0)


@consumer_scenario("fetch: in all older versions, and for unknown groups")
async def offsets_of_consumers_are_fetched_in_every_version(s: Script) -> None:
    a = s.consumer("A")
    await a.fetch()
    await a.fetch(member_id=None, member_epoch=-1)
    await a.join()
    await a.commit(1)
    for version in range(1, 9):
        await s.fetch(version, orders=(0, 1))
    for version in range(2, 9):
        await s.fetch(version)


@consumer_scenario("fetch: stable offsets")
async def a_consumer_fetches_stable_offsets(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.commit(1)
    group = {"group_id": s.group, "member_id": "A", "member_epoch": 2, "topics": None}
    await s.send("OffsetFetch", 9, {"groups": [group], "require_stable": True})
    await s.send("OffsetFetch", 9, {"groups": [group, group | {"member_epoch": 7}]})


@consumer_scenario("OffsetDelete: of subscribed topics, of others, of an empty group")
async def offsets_of_consumers_are_deleted(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.commit(1, topics=[("orders", 0, ""), ("orders", 1, ""), ("payments", 0, "")])
    await s.delete_offsets(orders=(0,), payments=(0,), nothing=(0,))
    await s.fetch()
    await a.heartbeat(subscribed_topic_names=("payments",))
    await s.delete_offsets(orders=(0,), payments=(0,))
    await a.leave()
    await s.delete_offsets(orders=(1, 9))
    await s.fetch()


@consumer_scenario("OffsetDelete: of topics that match a regex")
async def offsets_of_topics_of_a_regex_are_deleted(s: Script) -> None:
    a = await s.consumer("A", subscribed_topic_names=None, subscribed_topic_regex="order.").joined()
    await s.until_epoch(2)
    await a.heartbeat()
    await a.commit(1, topics=[("orders", 0, ""), ("payments", 0, "")])
    await s.delete_offsets(orders=(0,), payments=(0,))
    await s.fetch()
