"""Requests of admin clients: DescribeTransactions, ListTransactions, DescribeProducers,
WriteTxnMarkers, FindCoordinator."""

from ..producers import (
    UNKNOWN_ID,
    Producer,
    describe_producers,
    list_transactions,
    read,
    write_marker,
)
from ..scenario import transactional
from ..script import Script


@transactional("DescribeTransactions: unknown, empty and repeated ids, and the states")
async def describe_transactions(s: Script) -> None:
    topic = await s.topic(3)
    p, q = s.producer("P"), s.producer("Q")
    await p.init()
    await p.add(topics={topic: (2, 0), "orders": (1,)})
    await p.add_offsets()
    await q.init()
    ids = (p.transactional_id, "unknown", "", q.transactional_id, p.transactional_id)
    await s.send("DescribeTransactions", 0, {"transactional_ids": ids})
    await s.send("DescribeTransactions", 0, {"transactional_ids": ()})
    await p.commit(4)
    await p.describe()
    await p.add(topics={topic: (0,)})
    await p.abort(4)
    await p.describe()


@transactional("ListTransactions in every version: states and filters")
async def transactions_are_listed(s: Script) -> None:
    topic = await s.topic(1)
    empty, open_, committed, aborted = (s.producer(name) for name in "EOCA")
    for each in (empty, open_, committed, aborted):
        await each.init()
    for each in (open_, committed, aborted):
        await each.produce(topic)
    await committed.commit()
    await aborted.abort()
    for version in (0, 1, 2):
        await list_transactions(s, version)
        for states in (
            ("Ongoing",),
            ("Empty", "CompleteAbort"),
            ("Dead",),
            ("ongoing",),
            ("Unknown", "Ongoing"),
            ("PrepareEpochFence", ""),
        ):
            await list_transactions(s, version, state_filters=states)
        ids = (open_.id, UNKNOWN_ID)
        await list_transactions(s, version, producer_id_filters=ids)
        await list_transactions(
            s, version, producer_id_filters=(empty.id,), state_filters=("Ongoing",)
        )


@transactional("ListTransactions: duration filter")
async def list_transactions_by_duration(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    q = await s.producer("Q").initialized()
    await s.producer("R").init()
    await p.produce(topic)
    await q.produce(topic)
    await q.commit()
    await s.pass_ms(200)
    for duration in (-2, -1, 0, 100, 50_000):
        await list_transactions(s, 1, duration_filter=duration)
    await list_transactions(s, 2, duration_filter=100, state_filters=("CompleteCommit",))


@transactional("KIP-1152: ListTransactions by a pattern")
async def list_transactions_by_pattern(s: Script) -> None:
    for name in ("pay-1", "pay-2", "bill"):
        await s.producer(name).init()
    for pattern in ("", ".*pay-.*", ".*pay", f"{s.group}\\.bill", ".*[", "(", "(?i).*BILL", "bill"):
        await list_transactions(s, transactional_id_pattern=pattern)
    await list_transactions(s, transactional_id_pattern=None)


@transactional("DescribeProducers during and after transactions")
async def producers_are_described(s: Script) -> None:
    topic = await s.topic(2)
    p, q = s.producer("P"), s.producer("Q", transactional_id=None)
    await describe_producers(s, topic)
    await p.init()
    await q.init()
    await q.produce(topic, attributes=0, count=3)
    await p.produce(topic, count=2)
    await describe_producers(s, topic, 0, 1, 7)
    await p.produce(topic)
    await describe_producers(s, topic)
    await p.commit()
    await describe_producers(s, topic)
    await p.produce(topic)
    await p.abort()
    await describe_producers(s, topic)
    await describe_producers(s, "unknown")
    await describe_producers(s, "bad name")


@transactional("DescribeProducers after transactions of the old protocol")
async def describe_producers_of_old_clients(s: Script) -> None:
    topic, p = await s.topic_and_producer(2)
    await p.add(topics={topic: (0, 1)})
    await p.produce(topic, version=11, count=2)
    await p.commit(4)
    await describe_producers(s, topic, 0, 1)
    await p.init()
    await p.add(topics={topic: (0, 1)})
    await p.abort(4)
    await describe_producers(s, topic, 0, 1)


async def in_transaction(s: Script, topic: str) -> Producer:
    """Return a producer with an open transaction, after a committed one."""
    p = await s.producer().initialized()
    await p.produce(topic)
    await p.commit()
    await p.produce(topic)
    return p


@transactional("kafka-transactions aborts a hanging transaction")
async def a_hanging_transaction_is_aborted(s: Script) -> None:
    topic = await s.topic(1)
    p = await in_transaction(s, topic)
    await read(s, topic)
    await write_marker(s, p, topic)
    await describe_producers(s, topic)
    await read(s, topic)
    await p.describe()
    await write_marker(s, p, topic)
    await read(s, topic)
    # The coordinator writes its own marker too.
    await p.commit()
    await read(s, topic)


@transactional("WriteTxnMarkers v2: since KIP-890 the epoch is higher than the producer's")
async def the_epochs_of_markers(s: Script) -> None:
    topic = await s.topic(1)
    p = await in_transaction(s, topic)
    await write_marker(s, p, topic, version=2, transaction_version=2)
    await write_marker(s, p, topic, version=2, transaction_version=2, producer_epoch=0)
    await write_marker(s, p, topic, version=2, transaction_version=1, producer_epoch=0)
    await write_marker(s, p, topic, version=1, producer_epoch=0)
    await describe_producers(s, topic)
    await write_marker(
        s, p, topic, version=2, transaction_version=2, producer_epoch=p.epoch + 1, commit=True
    )
    await describe_producers(s, topic)
    # These are a retry, and two markers with an old epoch.
    await write_marker(
        s, p, topic, version=2, transaction_version=2, producer_epoch=p.epoch + 1, commit=True
    )
    await write_marker(s, p, topic, version=2, transaction_version=2)
    await write_marker(s, p, topic, version=2, transaction_version=0)
    await read(s, topic)


@transactional("WriteTxnMarkers: the epoch of the coordinator")
async def the_coordinator_epochs_of_markers(s: Script) -> None:
    topic = await s.topic(1)
    p = await in_transaction(s, topic)
    await write_marker(s, p, topic, coordinator_epoch=-1)
    await write_marker(s, p, topic, coordinator_epoch=5)
    await describe_producers(s, topic)
    await write_marker(s, p, topic, coordinator_epoch=4)
    await write_marker(s, p, topic, coordinator_epoch=5, commit=True)
    await write_marker(s, p, topic, coordinator_epoch=6)
    await describe_producers(s, topic)
    await read(s, topic)


@transactional("WriteTxnMarkers for unknown producers, topics and partitions; several markers")
async def markers_of_unknown_producers_and_partitions(s: Script) -> None:
    topic = await s.topic(2)
    p = await in_transaction(s, topic)
    for version in (1, 2):
        await write_marker(s, p, topic, 0, 7, version=version)
        await write_marker(s, p, "unknown", version=version)
        await write_marker(s, p, topic, 1, version=version, producer_id=UNKNOWN_ID)
        await s.send("WriteTxnMarkers", version, {"markers": []})
    await write_marker(s, p, topic, topics=[])
    await describe_producers(s, topic, 0, 1)
    await read(s, topic)
    await read(s, topic, index=1)


@transactional("WriteTxnMarkers: a negative producer id leaves no state; unknown partitions twice")
async def markers_of_negative_producer_ids(s: Script) -> None:
    topic = await s.topic(2)
    p = await in_transaction(s, topic)
    for epoch in (1, 0):
        await write_marker(s, p, topic, 0, 7, producer_id=-5, producer_epoch=epoch)
    await describe_producers(s, topic)
    await read(s, topic)
    unknown = {"name": "unknown", "partition_indexes": (0, 1, 0)}
    other = {"name": topic, "partition_indexes": (7, 8, 7)}
    await write_marker(s, p, topic, topics=[unknown, other, unknown])


@transactional("WriteTxnMarkers without a producer id or an epoch writes nothing")
async def markers_without_a_producer(s: Script) -> None:
    topic = await s.topic(2)
    p = await in_transaction(s, topic)
    for fields in ({"producer_id": -1}, {"producer_epoch": -1}):
        await write_marker(s, p, topic, 0, 7, **fields)
        await write_marker(s, p, "unknown", **fields)
    await write_marker(s, p, "__consumer_offsets", producer_epoch=-1)
    await describe_producers(s, topic, 0, 1)
    await read(s, topic)


@transactional("WriteTxnMarkers to an offsets partition: pending offsets are dropped or committed")
async def markers_of_offsets_partitions(s: Script) -> None:
    p = await s.producer().initialized()
    for commit in (False, True):
        await p.commit_offsets(3)
        await write_marker(s, p, "__consumer_offsets", commit=commit)
        await s.fetch(orders=(0,))
    await p.describe()


@transactional("FindCoordinator of transactional ids, in every version")
async def find_coordinator_of_transactional_ids(s: Script) -> None:
    await s.transactions_ready()
    key = f"{s.group}.P"
    for version in range(1, 7):
        await s.send(
            "FindCoordinator",
            version,
            {"key_type": 1, "key": key, "coordinator_keys": (key, "other", key)},
        )
        await s.send(
            "FindCoordinator", version, {"key_type": 1, "key": "", "coordinator_keys": ("",)}
        )
