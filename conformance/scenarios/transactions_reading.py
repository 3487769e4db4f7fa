"""Fetch and ListOffsets by isolation level."""

from ...log.batch import NO_TIMESTAMP
from ..producers import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    RECORD_TIMESTAMP_MS,
    describe_producers,
    list_offset,
    read,
)
from ..scenario import transactional
from ..script import Script


@transactional("read_committed ends at the last stable offset")
async def records_of_an_open_transaction_are_hidden(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await s.produce(topic, 0)
    await p.produce(topic, count=2)
    await s.produce(topic, 0)
    for offset in range(5):
        await read(s, topic, offset)
    await read(s, topic, isolation=READ_UNCOMMITTED)
    await p.commit()
    for offset in range(6):
        await read(s, topic, offset)
    await read(s, topic, 6)


@transactional("Fetch in every version: aborted transactions are listed")
async def read_committed_in_every_version(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.produce(topic)
    await p.abort()
    await p.produce(topic)
    for version in range(4, 19):
        await read(s, topic, version=version)
        await read(s, topic, version=version, isolation=READ_UNCOMMITTED)


@transactional("Control batches: marker records, producer epoch, sequence")
async def the_markers_of_both_protocols(s: Script) -> None:
    topic, p = await s.topic_and_producer(2)
    for commit in (True, False):
        await p.add(topics={topic: (0, 1)})
        await p.produce(topic, version=11)
        await p.end(4, commit=commit)
        await p.produce(topic)
        await p.end(5, commit=commit)
    await read(s, topic)
    # Partitions that were added without records have markers too.
    await read(s, topic, index=1)
    await describe_producers(s, topic, 0, 1)


@transactional("The aborted transactions of a fetch, with two producers")
async def aborted_transactions_of_two_producers(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    q = await s.producer("Q").initialized()
    await p.produce(topic)  # 0
    await q.produce(topic)  # 1
    await p.abort()  # 2
    await read(s, topic)
    await p.produce(topic)  # 3
    await q.commit()  # 4
    await read(s, topic)
    await q.produce(topic)  # 5
    await p.produce(topic)  # 6
    await q.abort()  # 7
    await p.abort()  # 8
    for offset in range(10):
        await read(s, topic, offset)
    for version in (11, 13, 18):
        await read(s, topic, 4, version=version)


@transactional(
    "The aborted transactions of a fetch that is limited by bytes",
    excuse="aborted transactions after the returned records are omitted; Kafka lists them up to "
    "the next entry of its offset index",
    hides=("aborted_transactions",),
)
async def aborted_transactions_of_a_part_of_the_log(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    for commit in (False, True, False, True, False):
        await p.produce(topic, count=3)
        await p.end(commit=commit)
    for max_bytes in (1, 100, 200, 400, 600):
        await read(s, topic, max_bytes=max_bytes)
        await read(s, topic, 4, max_bytes=max_bytes)
        await read(s, topic, 9, max_bytes=max_bytes)


@transactional("A fetch that waits for records of an open transaction")
async def a_committed_transaction_completes_a_waiting_fetch(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await read(s, topic, max_wait=60_000)
    await p.produce(topic)
    await p.commit()
    await read(s, topic, 2, max_wait=60_000)
    await p.produce(topic)
    await p.abort()


@transactional("ListOffsets: the latest offset by isolation level")
async def latest_offsets_by_isolation_level(s: Script) -> None:
    topic, p = await s.topic_and_producer()

    async def list_all() -> None:
        for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
            for timestamp in (LATEST, EARLIEST):
                await list_offset(s, topic, timestamp, isolation)

    await list_all()
    await p.produce(topic, count=2)
    await list_all()
    await s.produce(topic, 0)
    await list_all()
    await p.commit()
    await list_all()
    await p.produce(topic)
    await p.abort()
    await list_all()


@transactional("ListOffsets in every version, in an open transaction")
async def list_offsets_in_every_version(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await s.produce(topic, 0)
    await p.produce(topic)
    for version in range(2, 12):
        for timestamp in (LATEST, EARLIEST, RECORD_TIMESTAMP_MS):
            for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
                await list_offset(s, topic, timestamp, isolation, version)
    for version in range(1, 12):
        await list_offset(s, topic, LATEST, READ_COMMITTED, version)


@transactional("ListOffsets by timestamp: records after the last stable offset are not found")
async def offsets_by_timestamp_and_isolation_level(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    for n in range(3):
        await p.produce(topic, count=2, timestamp_ms=RECORD_TIMESTAMP_MS + 100 * n)
        if n == 1:
            await p.commit()

    async def list_all() -> None:
        for after in (0, 1, 100, 101, 102, 200, 201, 202):
            for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
                await list_offset(s, topic, RECORD_TIMESTAMP_MS + after, isolation)

    await list_all()
    await p.abort()
    await list_all()


@transactional("ListOffsets: the largest timestamp, with markers and without timestamps")
async def the_largest_timestamp(s: Script) -> None:
    topic, p = await s.topic_and_producer()

    async def list_both() -> None:
        for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
            await list_offset(s, topic, MAX_TIMESTAMP, isolation)

    for _ in range(2):
        await p.produce(topic, timestamp_ms=NO_TIMESTAMP)
        await list_both()
    await p.produce(topic, count=2)
    await list_both()
    await p.commit()
    await list_both()


@transactional("DeleteRecords in transactions: the log start offset passes them")
async def records_of_transactions_are_deleted(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    for commit in (False, True, False):
        await p.produce(topic, count=2)
        await p.end(commit=commit)
    await s.delete_records(topic, 0, 7)
    await read(s, topic, 7)
    await read(s, topic, 0)
    await p.produce(topic)
    await s.delete_records(topic, 0, 10)
    await read(s, topic, 10)
    await list_offset(s, topic, LATEST, READ_COMMITTED)
    await describe_producers(s, topic)
    await p.commit()
    await read(s, topic, 10)
