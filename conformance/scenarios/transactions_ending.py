"""EndTxn, and transactions that time out."""

from ..producers import UNKNOWN_ID, describe_producers
from ..scenario import transactional
from ..script import Script


@transactional("EndTxn in every version; since v5 the response has the next epoch")
async def end_txn_in_every_version(s: Script) -> None:
    topic = await s.topic(1)
    for version in range(6):
        p = await s.producer(f"P{version}").initialized()
        for commit in (True, False):
            await p.add(3 if version < 5 else 5, topics={topic: (0,)})
            await p.end(version, commit=commit)
            await p.describe()


@transactional("EndTxn without a transaction, in every version")
async def end_txn_without_a_transaction(s: Script) -> None:
    for version in range(6):
        p = await s.producer(f"P{version}").initialized()
        await p.commit(version)
        await p.describe()
        await p.abort(version)
        await p.describe()


@transactional("KIP-890: aborts without a transaction use up epochs")
async def aborts_without_a_transaction(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    before = p.epoch
    await p.abort()
    await p.abort()
    await p.describe()
    await p.abort(producer_epoch=before)
    await p.commit()
    await p.produce(topic)
    await p.commit()
    await p.abort()
    await p.describe()


@transactional("EndTxn up to v4: a retry succeeds; the opposite result is invalid")
async def retries_of_old_clients(s: Script) -> None:
    topic = await s.topic(1)
    for version in (0, 2, 4):
        p = await s.producer(f"P{version}").initialized()
        for commit in (True, False):
            await p.add(topics={topic: (0,)})
            await p.end(version, commit=commit)
            await p.end(version, commit=commit)
            await p.end(version, commit=not commit)
        await p.describe()


@transactional("KIP-890: a retry has the previous epoch")
async def retries_of_new_clients(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    for commit in (True, False):
        before = {"producer_id": p.id, "producer_epoch": p.epoch}
        await p.produce(topic)
        await p.end(commit=commit)
        await p.end(commit=commit, **before)
        await p.end(commit=not commit, **before)
        await p.describe()
        await p.end(4, commit=commit, **before)


@transactional("KIP-890: commit after commit, abort after abort, with the new epoch")
async def the_new_epoch_without_a_transaction(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.produce(topic)
    await p.commit()
    await p.commit()
    await p.abort()
    await p.describe()
    await p.produce(topic)
    await p.abort()
    await p.abort()
    await p.commit()
    await p.describe()


@transactional("EndTxn with an unknown or empty transactional id, in every version")
async def the_end_of_an_unknown_transactional_id(s: Script) -> None:
    p = s.producer()
    await s.producer("other").init()
    for version in range(6):
        await p.end(version, producer_id=5, producer_epoch=0)
        await s.producer("empty", transactional_id=None).end(version, transactional_id="")


@transactional("EndTxn with another producer id, or another epoch, in every version")
async def the_end_of_a_wrong_producer(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.init()
    await p.produce(topic)
    for version in range(6):
        await p.end(version, producer_id=UNKNOWN_ID)
        await p.end(version, producer_epoch=0)
        await p.end(version, producer_epoch=2)
        await p.end(version, producer_epoch=-1)
    await p.describe()
    await p.commit()


@transactional("EndTxn with other epochs after the transaction")
async def wrong_epochs_after_a_transaction(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.init()
    await p.init()
    await p.produce(topic)
    await p.commit()
    for version in (4, 5):
        for epoch in (0, 1, 2, 4, 5):
            await p.end(version, producer_epoch=epoch)
    await p.describe()


@transactional("A transaction times out; its producer is fenced")
async def a_transaction_times_out(s: Script) -> None:
    topic, p = await s.topic_and_producer(timeout_ms=500)
    await p.produce(topic)
    await p.timed_out()
    await p.describe()
    await describe_producers(s, topic)
    await p.commit()
    await p.abort()
    await p.commit(4)
    await p.produce(topic)
    await p.add(5, topics={topic: (0,)})
    await p.bump()
    await p.init()
    await p.produce(topic)
    await p.commit()


@transactional("A transaction of the old protocol times out; its producer is fenced")
async def a_transaction_of_the_old_protocol_times_out(s: Script) -> None:
    topic = await s.topic(1)
    p = s.producer(timeout_ms=500)
    await p.init(1)
    await p.add(topics={topic: (0,)})
    await p.produce(topic, version=11)
    await p.timed_out()
    await p.describe()
    await describe_producers(s, topic)
    await p.commit(1)
    await p.commit(2)
    await p.abort(3)
    await p.add(1, topics={topic: (0,)})
    await p.add(2, topics={topic: (0,)})
    await p.produce(topic, version=11)
    await p.bump(3)
    await p.bump(4)
    await p.describe()


@transactional("A transaction that produced nothing times out too")
async def a_transaction_without_records_times_out(s: Script) -> None:
    topic, p = await s.topic_and_producer(2, timeout_ms=500)
    await p.add(topics={topic: (0, 1)})
    await p.add_offsets()
    await p.timed_out()
    await p.describe()
    await describe_producers(s, topic, 0, 1)


@transactional("One producer uses both protocols in turn")
async def the_protocols_of_one_producer_alternate(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.add(topics={topic: (0,)})
    await p.produce(topic, version=11)
    await p.commit(5)
    await p.describe()
    await p.produce(topic)
    await p.commit(4)
    await p.describe()
    await p.produce(topic)
    await p.commit(5)
    await p.describe()
    await describe_producers(s, topic)
