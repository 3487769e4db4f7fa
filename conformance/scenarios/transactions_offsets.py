"""TxnOffsetCommit, and other requests while offsets are pending."""

from typing import Any

from ..producers import UNKNOWN_ID
from ..scenario import transactional
from ..script import Script

STRANGER = {"member_id": "stranger", "generation_id": 1}


async def fetch(s: Script, version: int = 9, *, stable: bool = True, **topics: Any) -> None:
    """Send OffsetFetch, by default with require_stable; without topics, for all offsets of the
    group."""
    group = {"group_id": s.group, "member_epoch": -1, "topics": s.fetch_topics(topics) or None}
    values = {"require_stable": stable, **({"groups": [group]} if version >= 8 else group)}
    await s.send("OffsetFetch", version, values)


@transactional(
    "TxnOffsetCommit in every version; since v5 it adds the offsets partition to the transaction"
)
async def txn_offset_commit_in_every_version(s: Script) -> None:
    for version in range(6):
        p = await s.producer(f"P{version}").initialized()
        if version < 5:
            await p.add_offsets()
        await p.commit_offsets(10 + version, version)
        await fetch(s, orders=(0,))
        await p.describe()
        await p.commit(5 if version == 5 else 4)
        await fetch(s, orders=(0,))
    await s.describe()
    await s.list()


@transactional(
    "KIP-890: the offsets partition is not in the transaction, in every version", is_alone=True
)
async def offsets_of_a_partition_that_was_not_added(s: Script) -> None:
    p = await s.producer().initialized()
    for version in range(5):
        await p.commit_offsets(version=version)
    await p.describe()
    await fetch(s, orders=(0,))
    await p.commit_offsets(version=5)
    await p.commit_offsets(version=3)
    await p.describe()


@transactional(
    "TxnOffsetCommit with another producer id, another epoch, or an unknown transactional id"
)
async def committing_offsets_of_a_wrong_producer(s: Script) -> None:
    p = await s.producer().initialized()
    await p.init()
    await p.add_offsets()
    for version in range(6):
        await p.commit_offsets(version=version, producer_id=UNKNOWN_ID)
        await p.commit_offsets(version=version, producer_epoch=0)
        await p.commit_offsets(version=version, producer_epoch=2)
        await p.commit_offsets(version=version, transactional_id="unknown")
        await p.commit_offsets(version=version, transactional_id="")
    await fetch(s)
    await p.describe()


@transactional("TxnOffsetCommit: unknown topics, an empty group id, no topics")
async def offsets_of_unknown_topics(s: Script) -> None:
    p = await s.producer().initialized()
    await p.add_offsets()
    for version in (0, 2, 3, 5):
        topics = [("orders", 0, "x"), ("unknown", 0, ""), ("orders", 7, ""), ("payments", 0, None)]
        await p.commit_offsets(version=version, topics=topics)
        await p.commit_offsets(version=version, group_id="")
        await p.commit_offsets(version=version, topics=[])
        await p.commit_offsets(version=version, topics=[("unknown", 0, "")])
        empty = [("orders", None, None), ("unknown", None, None)]
        await p.commit_offsets(version=version, topics=empty)
    await p.commit(4)
    await fetch(s)


@transactional("TxnOffsetCommit: topics that are listed twice, with and without an error")
async def transactional_offsets_of_repeated_topics(s: Script) -> None:
    p = await s.producer().initialized()
    await p.add_offsets()
    orders, payments, missing = (
        topic
        for name in ("orders", "payments", "unknown")
        for topic in s.commit_topics(5, [(name, 0, "")])
    )
    for topics in ((orders, payments, orders), (orders, orders), (orders, missing, orders)):
        for producer_id in (p.id, UNKNOWN_ID):
            values = {
                "transactional_id": p.transactional_id,
                "group_id": s.group,
                "producer_id": producer_id,
                "producer_epoch": p.epoch,
                "topics": topics,
            }
            for version in (2, 4):
                await s.send("TxnOffsetCommit", version, values)
    await p.commit(4)


@transactional("TxnOffsetCommit: metadata that is too large, negative offsets")
async def invalid_transactional_offsets(s: Script) -> None:
    p = await s.producer().initialized()
    topics = [("orders", 0, "x" * 4097), ("orders", 1, "x" * 4096)]
    await p.commit_offsets(topics=topics)
    await p.commit_offsets(topics=topics[:1])
    await p.commit_offsets(-1, topics=[("payments", 0, "")])
    await p.commit()
    await fetch(s)
    await s.describe()


@transactional("TxnOffsetCommit creates a group in memory even if all metadata is too large")
async def rejected_offsets_of_a_new_group(s: Script) -> None:
    p = await s.producer().initialized()
    await p.commit_offsets(topics=[("orders", 0, "x" * 4097)])
    await p.commit()
    await s.describe()
    await s.list()


@transactional("TxnOffsetCommit to an unknown group: with a generation or a member id")
async def transactional_offsets_of_an_unknown_group(s: Script) -> None:
    p = await s.producer().initialized()
    await p.add_offsets()
    for version in (2, 3, 4, 5):
        await p.commit_offsets(version=version, **STRANGER)
    await p.commit_offsets(version=4, generation_id=0)
    await s.describe()
    await p.commit_offsets(1, version=3, member_id="stranger")
    await p.commit_offsets(2, version=3, group_instance_id="i1")
    await s.describe()
    await p.commit(4)
    await fetch(s)
    await p.add_offsets()
    await p.commit_offsets(version=3, **STRANGER)


@transactional("TxnOffsetCommit to a stable classic group: member id and generation")
async def transactional_offsets_of_a_stable_group(s: Script) -> None:
    p = await s.producer().initialized()
    a, b = await s.stable("A", "B", instances={"B": "i1"})
    for version in (2, 3, 5):
        await p.add_offsets(producer_epoch=p.epoch)
        await p.commit_offsets(version=version)
        await p.commit_offsets(version=version, **STRANGER)
        await p.commit_offsets(version=version, member_id=a.id, generation_id=a.generation)
        await p.commit_offsets(version=version, member_id=a.id, generation_id=a.generation - 1)
        await p.commit_offsets(version=version, member_id=a.id, generation_id=a.generation + 1)
        await p.commit_offsets(version=version, member_id=a.id)
        await p.commit_offsets(version=version, generation_id=a.generation)
        member_b = {"member_id": b.id, "generation_id": b.generation}
        await p.commit_offsets(version=version, group_instance_id="i1", **member_b)
        await p.commit_offsets(version=version, group_instance_id="i9", **member_b)
        await p.commit_offsets(
            version=version, group_instance_id="i1", member_id=a.id, generation_id=a.generation
        )
    await p.commit()
    await fetch(s)


@transactional("TxnOffsetCommit while a classic group rebalances, and when it is empty")
async def transactional_offsets_during_a_rebalance(s: Script) -> None:
    p = await s.producer().initialized()
    a, b = s.member("A"), s.member("B")
    await a.enter()
    await p.commit_offsets(1, member_id=a.id, generation_id=a.generation)
    await p.commit_offsets(2)
    await a.sync({a: "1"})
    await b.enter()
    await p.commit_offsets(3, member_id=a.id, generation_id=a.generation)
    await p.commit_offsets(4)
    await p.commit_offsets(5, member_id=a.id, generation_id=a.generation + 1)
    await a.leave()
    await b.sync({b: "1"})
    await b.leave()
    await s.describe()
    await p.commit_offsets(6, member_id=a.id, generation_id=a.generation)
    await p.commit_offsets(7, member_id="stranger")
    await p.commit_offsets(8)
    await p.commit()
    await fetch(s)


@transactional("TxnOffsetCommit to a consumer group: member id and epoch")
async def transactional_offsets_of_a_consumer_group(s: Script) -> None:
    p = await s.producer().initialized()
    a = await s.consumer("A").joined()
    await s.converge(a)
    for version in (2, 3, 4, 5):
        await p.add_offsets()
        await p.commit_offsets(version=version)
        await p.commit_offsets(version=version, **STRANGER)
        for epoch in (a.epoch, a.epoch - 1, a.epoch + 1, -1):
            await p.commit_offsets(version=version, member_id=a.id, generation_id=epoch)
    await p.commit()
    await fetch(s)
    await a.leave()
    await p.commit_offsets(20)
    await p.commit_offsets(21, member_id=a.id, generation_id=a.epoch)
    await p.commit()
    await fetch(s)


@transactional(
    "KIP-1251: a member may commit with an older epoch for partitions that it owned then"
)
async def transactional_offsets_with_an_older_epoch(s: Script) -> None:
    p = await s.producer().initialized()
    a, b = s.consumer("A"), s.consumer("B")
    await a.join()
    await s.converge(a)
    old = a.epoch
    await b.join()
    await a.heartbeat()
    for index in (0, 1):
        topics = [("orders", index, "")]
        await p.commit_offsets(3, topics=topics, member_id=a.id, generation_id=old)
    await s.converge(a, b)
    for index in (0, 1):
        topics = [("orders", index, "")]
        await p.commit_offsets(4, topics=topics, member_id=a.id, generation_id=old)
        await p.commit_offsets(5, topics=topics, member_id=a.id, generation_id=a.epoch)
    await p.commit()
    await fetch(s)


@transactional("OffsetFetch with require_stable: pending offsets are unstable")
async def pending_offsets_are_unstable(s: Script) -> None:
    p = await s.producer().initialized()
    await s.member("A").commit(1, topics=[("orders", 0, ""), ("orders", 1, "")])
    await p.commit_offsets(2)
    for version in range(7, 11):
        for stable in (True, False):
            await fetch(s, version, stable=stable, orders=(0, 1), payments=(0,))
            await fetch(s, version, stable=stable)
    await p.commit()
    await fetch(s, orders=(0, 1))
    await fetch(s)


@transactional("OffsetFetch: pending offsets of a group without committed offsets")
async def pending_offsets_of_a_new_group(s: Script) -> None:
    p = await s.producer().initialized()
    await p.commit_offsets(2)
    for stable in (True, False):
        await fetch(s, stable=stable, orders=(0, 1))
        await fetch(s, stable=stable)
    await s.describe()
    await s.list()
    await p.abort()
    await fetch(s, orders=(0, 1))
    await fetch(s)
    await s.describe()
    await s.list()


@transactional("Offsets of an aborted transaction are dropped")
async def aborted_offsets_are_dropped(s: Script) -> None:
    p = await s.producer().initialized()
    await s.member("A").commit(1)
    await p.commit_offsets(2)
    await p.abort()
    await fetch(s, orders=(0,))
    await p.commit_offsets(3)
    await p.commit()
    await fetch(s, orders=(0,))


@transactional("Of several commits of a partition in a transaction, the last one applies")
async def the_last_commit_of_a_transaction_counts(s: Script) -> None:
    p = await s.producer().initialized()
    await p.commit_offsets(5)
    await p.commit_offsets(3)
    await p.commit_offsets(4, topics=[("orders", 1, "note")])
    await p.commit()
    await fetch(s, orders=(0, 1))


@transactional("A plain commit while an offset is pending")
async def a_plain_commit_supersedes_a_pending_one(s: Script) -> None:
    p = await s.producer().initialized()
    await p.commit_offsets(2)
    await s.member("A").commit(7)
    await fetch(s, orders=(0,))
    await fetch(s, stable=False, orders=(0,))
    await p.commit()
    await fetch(s, orders=(0,))
    await p.commit_offsets(3)
    await s.member("A").commit(8)
    await p.abort()
    await fetch(s, orders=(0,))


@transactional("Two transactions with offsets of the same partition")
async def two_transactions_of_one_partition(s: Script) -> None:
    p, q = await s.producer("P").initialized(), await s.producer("Q").initialized()
    await p.commit_offsets(1)
    await q.commit_offsets(2)
    await q.commit()
    await fetch(s, orders=(0,))
    await p.commit()
    await fetch(s, orders=(0,))
    await p.commit_offsets(3)
    await q.commit_offsets(4)
    await p.commit()
    await fetch(s, orders=(0,))
    await q.abort()
    await fetch(s, orders=(0,))


@transactional("Offsets of a transaction that times out")
async def offsets_of_a_transaction_that_times_out(s: Script) -> None:
    p = await s.producer(timeout_ms=500).initialized()
    await p.commit_offsets(1)
    await fetch(s, orders=(0,))
    await p.timed_out()
    await fetch(s, orders=(0,))
    await p.commit_offsets(2)
    await p.commit_offsets(2, version=4)
    await s.describe()


@transactional("TxnOffsetCommit from a fenced producer, also with another transactional id")
async def offsets_of_a_fenced_producer(s: Script) -> None:
    p = await s.producer().initialized()
    await p.commit_offsets(1)
    await p.commit()
    old = {"producer_epoch": 0}
    for version in (4, 5):
        await p.commit_offsets(2, version=version, **old)
        unknown = f"{s.group}.unknown"
        await p.commit_offsets(2, version=version, **old, transactional_id=unknown)
        await p.commit_offsets(2, version=version, **old, transactional_id="")
    await fetch(s, orders=(0,))


@transactional("DeleteGroups while offsets are pending")
async def a_group_with_pending_offsets_is_deleted(s: Script) -> None:
    p = await s.producer().initialized()
    await s.member("A").commit(1, topics=[("payments", 0, "")])
    await p.commit_offsets(2)
    await s.delete()
    await fetch(s)
    await s.describe()
    await p.commit()
    await fetch(s)
    await s.describe()
    await s.delete()
    await fetch(s)


@transactional("DeleteGroups of a group that has only pending offsets")
async def a_group_with_only_pending_offsets_is_deleted(s: Script) -> None:
    p = await s.producer().initialized()
    await p.commit_offsets(2)
    await s.delete()
    await fetch(s, orders=(0,))
    await s.list()
    await p.commit()
    await fetch(s, orders=(0,))
    await s.list()


@transactional("OffsetDelete while offsets are pending")
async def pending_offsets_are_deleted(s: Script) -> None:
    p = await s.producer().initialized()
    await s.member("A").commit(1, topics=[("orders", 0, ""), ("payments", 0, "")])
    await p.commit_offsets(2, topics=[("orders", 0, ""), ("orders", 1, "")])
    await s.delete_offsets(orders=(0, 1))
    await fetch(s)
    await fetch(s, orders=(0, 1))
    await p.commit()
    await fetch(s)


@transactional("DeleteTopics while offsets of the topic are pending")
async def a_topic_with_pending_offsets_is_deleted(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.commit_offsets(2, topics=[(topic, 0, ""), ("orders", 0, "")])
    await p.produce(topic)
    await s.delete_topic(topic)
    await p.describe()
    await fetch(s)
    await p.commit()
    await p.describe()
    await fetch(s)
