"""Produce: transactional batches, and idempotent batches in the same partitions."""

from typing import Any

from ...log.batch import TRANSACTIONAL
from ..producers import (
    NONE_EPOCH,
    NONE_ID,
    RECORD_TIMESTAMP_MS,
    UNKNOWN_ID,
    Producer,
    describe_producers,
    read,
)
from ..records import NewRecord, build
from ..scenario import transactional
from ..script import Script

IDEMPOTENT = 0  # the attributes of a batch that is not transactional
CONTROL = 0x30
EXPLAINED: Any = {
    "excuse": "kohort returns a message with each error",
    "hides": ("error_message",),
}


@transactional("Produce in every version; since v12 it adds the partition to the transaction")
async def transactional_produce_in_every_version(s: Script) -> None:
    topic = await s.topic(1)
    for version in range(3, 14):
        p = await s.producer(f"P{version}").initialized()
        if version < 12:
            await p.add(topics={topic: (0,)})
        await p.produce(topic, version=version)
        await p.produce(topic, version=version, count=2)
        await p.describe()
        await p.commit(5 if version >= 12 else 4)
    await read(s, topic)


@transactional(
    "KIP-890: a partition that is not in the transaction, in every version", is_alone=True
)
async def a_partition_that_was_not_added(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    for version in range(3, 12):
        await p.produce(topic, version=version)
    await p.describe()
    await p.produce(topic, version=12)
    await p.produce(topic, version=9)
    await p.describe()


@transactional("KIP-890: the first partition is added, but another partition is not", is_alone=True)
async def each_partition_has_to_be_added(s: Script) -> None:
    topic, p = await s.topic_and_producer(2)
    await p.add(topics={topic: (0,)})
    await p.produce(topic, 0, version=11)
    await p.produce(topic, 1, version=11)
    await p.produce(topic, 1, version=9)
    await p.describe()
    await p.commit(4)
    await p.produce(topic, 0, version=11)
    await p.produce(topic, 0, version=10)
    await read(s, topic)


@transactional(
    "Produce with an old or a later epoch, or another producer id or transactional id, in every "
    "version",
    **EXPLAINED,
)
async def produce_of_a_wrong_producer(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.init()
    await p.produce(topic)
    for version in (9, 10, 11, 12):
        await p.produce(topic, version=version, producer_epoch=0)
        await p.produce(topic, version=version, producer_epoch=2)
        await p.produce(topic, version=version, producer_id=UNKNOWN_ID)
    await p.produce(topic, version=12, transactional_id=f"{s.group}.unknown", sequence=7)
    await p.describe()
    await describe_producers(s, topic)


@transactional("Produce by a fenced producer to a partition without its records")
async def a_zombie_produces_to_another_partition(s: Script) -> None:
    topic = await s.topic(2)
    old, new = s.producer(), s.producer()
    await old.init()
    await old.produce(topic, 0)
    await new.init()
    await new.init()
    await new.produce(topic, 0)
    for version in (9, 11, 12):
        await old.produce(topic, 0, version=version)
        await old.produce(topic, 1, version=version)
    await new.commit()
    for version in (9, 11, 12):
        await old.produce(topic, 0, version=version)
        await old.produce(topic, 1, version=version)


@transactional("A batch from a fenced producer does not disturb its successor", **EXPLAINED)
async def a_zombie_produces_in_the_transaction_of_its_successor(s: Script) -> None:
    topic = await s.topic(1)
    old, new = s.producer(), s.producer()
    await old.init()
    for version in (12, 11):
        await new.init()
        await new.add(topics={topic: (0,)})
        await new.produce(topic, version=version)
        await old.produce(topic, version=version)
        await old.produce(topic, version=version, transactional_id=f"{s.group}.unknown")
        await old.produce(topic, version=version, transactional_id="")
        await new.produce(topic, version=version)
        await new.produce(topic, version=version)
        await new.commit()
    await read(s, topic)


@transactional("Batches of two producers, and one without a producer, in one Produce", **EXPLAINED)
async def batches_of_several_producers(s: Script) -> None:
    topic = await s.topic(1)
    first = await s.producer("P").initialized()
    second = await s.producer("Q").initialized()
    other = await s.topic(1, "u")
    for version in (11, 12):
        data = [
            {"name": name, "partition_data": [{"index": 0, "records": _records(p)}]}
            for name, p in ((topic, first), (other, second))
        ]
        values = {"transactional_id": first.transactional_id, "acks": -1, "timeout": 30_000}
        text = "a batch of P, and one of Q"
        await s.send("Produce", version, {**values, "topic_data": data}, text=text)
        await second.describe()
    await first.produce(topic, producer_id=NONE_ID, producer_epoch=NONE_EPOCH, sequence=-1)
    await read(s, topic)


@transactional("Produce with two batches for a partition does not add the partition")
async def two_batches_of_one_partition(s: Script) -> None:
    topic, p = await s.topic_and_producer(2)
    values = {"transactional_id": p.transactional_id, "acks": -1, "timeout": 30_000}
    for version in (11, 12):
        partitions = [{"index": 0, "records": 2 * _records(p)}]
        data = [{"name": topic, "partition_data": partitions}]
        await s.send("Produce", version, {**values, "topic_data": data}, text="two batches of P")
        await p.describe()
        partitions.append({"index": 1, "records": _records(p)})
        text = "two batches of P, and one for another partition"
        await s.send("Produce", version, {**values, "topic_data": data}, text=text)
        await p.describe()


def _records(producer: Producer) -> bytes:
    """Return the first batch of a transaction."""
    return build(
        [NewRecord(b"key", b"value", RECORD_TIMESTAMP_MS)],
        attributes=TRANSACTIONAL,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=0,
    )


@transactional("Sequence numbers in a transaction: duplicates, gaps, the first number", **EXPLAINED)
async def sequence_numbers_in_a_transaction(s: Script) -> None:
    topic, p = await s.topic_and_producer(2)
    await p.produce(topic, 1, sequence=5)
    await p.produce(topic, 1, sequence=0)
    await p.produce(topic, count=2)
    await p.produce(topic, sequence=0, count=2)
    await p.produce(topic, sequence=1, count=1)
    await p.produce(topic, sequence=7)
    await p.produce(topic)
    await p.describe()
    await describe_producers(s, topic, 0, 1)
    await p.commit()
    await p.produce(topic, sequence=3)
    await p.produce(topic)


@transactional(
    "KIP-890: a transaction begins with sequence 0, unless the epoch is the same", **EXPLAINED
)
async def the_first_sequence_of_the_next_transaction(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    for _ in range(2):
        await p.add(topics={topic: (0,)})
        await p.produce(topic, version=11)
        await p.commit(4)
    await p.produce(topic, sequence=0)
    await p.produce(topic, sequence=2)
    await p.commit()
    await p.produce(topic, sequence=1)
    await p.produce(topic, sequence=0)
    await describe_producers(s, topic)


@transactional(
    "A batch that is not transactional, in an open transaction of its producer", **EXPLAINED
)
async def an_idempotent_batch_in_a_transaction(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.produce(topic)
    for version in (9, 11, 12):
        await p.produce(topic, version=version, attributes=IDEMPOTENT)
        await p.produce(topic, version=version, attributes=IDEMPOTENT, transactional_id=None)
    await p.commit()
    await p.produce(topic, attributes=IDEMPOTENT)
    await p.produce(topic, attributes=IDEMPOTENT, transactional_id=None)
    await p.describe()
    await describe_producers(s, topic)
    await p.produce(topic)
    await read(s, topic)


@transactional("A transactional batch without a transactional id", **EXPLAINED)
async def a_transactional_batch_without_an_id(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    for version in (3, 9, 11, 12):
        await p.produce(topic, version=version, transactional_id=None)
    await p.produce(topic, transactional_id="")
    await p.describe()
    await p.produce(topic, sequence=0)
    await p.produce(topic, transactional_id=None)


@transactional(
    "A transactional id, but batches without a producer id or from an idempotent producer",
    **EXPLAINED,
)
async def a_transactional_id_without_transactional_batches(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    q = await s.producer("Q", transactional_id=None).initialized()
    await q.produce(topic, attributes=IDEMPOTENT)
    await q.produce(topic, attributes=IDEMPOTENT, transactional_id=p.transactional_id)
    await q.produce(topic, transactional_id=p.transactional_id)
    await q.produce(topic, 0, producer_id=-1, producer_epoch=-1, sequence=-1)
    await q.produce(topic, producer_id=-1, producer_epoch=-1, sequence=-1, attributes=IDEMPOTENT)
    await p.describe()
    await describe_producers(s, topic)


@transactional("Produce: clients may not send control batches", **EXPLAINED)
async def clients_may_not_produce_control_batches(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.produce(topic, attributes=CONTROL)
    await p.produce(topic, attributes=0x20)
    await p.produce(topic, attributes=CONTROL, version=9)
    await p.describe()


@transactional("Produce in a transaction to unknown topics and partitions", **EXPLAINED)
async def transactional_produce_to_unknown_partitions(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    for version in (9, 11, 12):
        await p.produce(topic, 3, version=version)
        await p.produce("unknown", 0, version=version)
    await p.produce("__consumer_offsets", 0)
    await p.produce("__transaction_state", 0)
    await p.describe()


@transactional("Idempotent producers: epochs, sequences and expiration of their state", **EXPLAINED)
async def idempotent_producers(s: Script) -> None:
    topic = await s.topic(1)
    await s.transactions_ready()
    p = await s.producer(transactional_id=None).initialized()
    for version in (9, 12, 13):
        await p.produce(topic, version=version, attributes=IDEMPOTENT)
    await p.produce(topic, attributes=IDEMPOTENT, sequence=0)
    await p.produce(topic, attributes=IDEMPOTENT, sequence=9)
    await p.produce(topic, attributes=IDEMPOTENT, producer_epoch=1, sequence=4)
    await p.produce(topic, attributes=IDEMPOTENT, producer_epoch=1, sequence=0)
    await p.produce(topic, attributes=IDEMPOTENT, producer_epoch=0, sequence=3)
    for epoch in (NONE_EPOCH - 1, NONE_EPOCH):
        await p.produce(
            topic, attributes=IDEMPOTENT, producer_id=UNKNOWN_ID, producer_epoch=epoch, sequence=0
        )
    await describe_producers(s, topic)
    await read(s, topic)
