"""AddPartitionsToTxn and AddOffsetsToTxn."""

from ..producers import UNKNOWN_ID
from ..scenario import transactional
from ..script import Script


@transactional("AddPartitionsToTxn in the versions of clients")
async def add_partitions_in_the_versions_of_clients(s: Script) -> None:
    topic, p = await s.topic_and_producer(5)
    for version in range(4):
        await p.add(version, topics={topic: (version,)})
    await p.describe()
    await p.add(topics={topic: (0, 1, 4), "orders": (1, 0)})
    await p.describe()
    await p.add(topics={topic: (0,)})
    await p.commit(4)
    await p.describe()


@transactional("AddPartitionsToTxn: one unknown partition fails all")
async def unknown_partitions_fail_all(s: Script) -> None:
    topic, p = await s.topic_and_producer(2)
    for version in range(4):
        await p.add(version, topics={topic: (0, 2), "orders": (0,)})
    await p.add(topics={topic: (0, 1), "unknown": (0, 1)})
    await p.add(topics={topic: (-1,)})
    await p.add(topics={"bad name": (0,), topic: (0,)})
    await p.describe()
    await p.add(topics={topic: (0, 0), "orders": ()})
    await p.describe()


@transactional("AddPartitionsToTxn: clients may not add internal topics")
async def internal_topics_are_added_by_brokers(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    for version in (0, 3):
        await p.add(version, topics={"__consumer_offsets": (0,), topic: (0,)})
        await p.add(version, topics={"__transaction_state": (99,), "__share_group_state": (0,)})
    await p.describe()
    for version in (4, 5):
        await p.add(version, topics={"__consumer_offsets": (0,)})
    await p.describe()


@transactional("AddPartitionsToTxn: when repeated partitions and empty topics are in the response")
async def repeated_partitions_and_empty_topics(s: Script) -> None:
    topic, p = await s.topic_and_producer(2)
    valid = {topic: (0, 0), "orders": ()}
    invalid = {**valid, "unknown": (1, 1)}
    for version in (0, 3):
        await p.add(version, topics=invalid)
        await p.add(version, topics=valid)
    for version in (4, 5):
        for verify_only in (False, True):
            await p.add(version, topics=invalid, verify_only=verify_only)
            await p.add(version, topics=valid, verify_only=verify_only)
            await p.add(version, topics=valid, verify_only=verify_only, producer_epoch=7)


@transactional("AddPartitionsToTxn without partitions")
async def a_transaction_without_partitions(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.add(topics={})
    await p.add(topics={topic: ()})
    await p.describe()
    await p.commit(4)
    await p.describe()


@transactional("AddPartitionsToTxn with an unknown or empty transactional id, in every version")
async def partitions_of_an_unknown_transactional_id(s: Script) -> None:
    topic = await s.topic(1)
    p = s.producer()
    await s.producer("other").init()
    for version in range(6):
        await p.add(version, topics={topic: (0,)}, producer_id=5, producer_epoch=0)
    for version in (0, 3, 4, 5):
        await p.add(version, topics={topic: (0,)}, transactional_id="")
    await p.add(3, topics={"unknown": (0,)})
    await p.add(4, topics={"unknown": (0,)})


@transactional("AddPartitionsToTxn with another producer id, or another epoch, in every version")
async def partitions_of_a_wrong_producer(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.init()
    for version in range(6):
        await p.add(version, topics={topic: (0,)}, producer_id=UNKNOWN_ID)
        await p.add(version, topics={topic: (0,)}, producer_epoch=0)
        await p.add(version, topics={topic: (0,)}, producer_epoch=2)
    await p.add(5, topics={topic: (0,)}, producer_id=-1, producer_epoch=-1)
    await p.describe()


@transactional("KIP-890: brokers add partitions in v4 and v5")
async def brokers_add_partitions(s: Script) -> None:
    topic, p = await s.topic_and_producer(4)
    await p.add(4, topics={topic: (0,)})
    await p.add(5, topics={topic: (0, 1)})
    await p.add(5, topics={topic: (2, 9)})
    await p.add(5, topics={"unknown": (0,), topic: (3,)})
    await p.describe()
    await p.commit()
    await p.describe()


@transactional("KIP-890: brokers verify partitions")
async def brokers_verify_partitions(s: Script) -> None:
    topic, p = await s.topic_and_producer(3)
    for version in (4, 5):
        await p.add(version, topics={topic: (0,)}, verify_only=True)
    await p.describe()
    await p.add(3, topics={topic: (0,)})
    for version in (4, 5):
        await p.add(version, topics={topic: (0,)}, verify_only=True)
        await p.add(version, topics={topic: (0, 1)}, verify_only=True)
        await p.add(version, topics={topic: (0, 7)}, verify_only=True)
        await p.add(version, topics={topic: (0,)}, verify_only=True, producer_epoch=7)
        await p.add(version, topics={topic: (0,)}, verify_only=True, producer_id=UNKNOWN_ID)
    await p.describe()
    await p.commit(4)
    await p.add(5, topics={topic: (0,)}, verify_only=True)


@transactional("KIP-890: several transactions in one request")
async def several_transactions_in_one_request(s: Script) -> None:
    topic = await s.topic(2)
    a, b, c = s.producer("A"), s.producer("B"), s.producer("C")
    await a.init()
    await b.init()
    await a.add(topics={topic: (0,)})

    for version in (4, 5):
        transactions = [
            a.adding({topic: (0, 1)}, verify_only=True),
            b.adding({topic: (1,)}, verify_only=False),
            c.adding({topic: (0,)}, verify_only=False),
        ]
        await s.send("AddPartitionsToTxn", version, {"transactions": transactions})
        transactions = [
            a.adding({topic: (1,)}, verify_only=False),
            b.adding({"unknown": (1,)}, verify_only=False),
        ]
        await s.send("AddPartitionsToTxn", version, {"transactions": transactions})
    await a.describe()
    await b.describe()


@transactional("AddPartitionsToTxn: after a complete transaction, the next begins")
async def the_next_transaction_begins(s: Script) -> None:
    topic, p = await s.topic_and_producer(2)
    for commit in (True, False):
        await p.add(topics={topic: (0,)})
        await p.end(4, commit=commit)
        await p.describe()
        await p.add(topics={topic: (1,)})
        await p.describe()
        await p.end(4, commit=commit)


@transactional("AddOffsetsToTxn in every version")
async def add_offsets_in_every_version(s: Script) -> None:
    for version in range(5):
        p = await s.producer(f"P{version}").initialized()
        await p.add_offsets(version)
        await p.add_offsets(version)
        await p.describe()
        await p.commit(4)
        await p.describe()


@transactional(
    "AddOffsetsToTxn with another producer id, another epoch, or an unknown transactional id"
)
async def adding_offsets_of_a_wrong_producer(s: Script) -> None:
    p = s.producer()
    await s.producer("other").init()
    for version in range(5):
        await p.add_offsets(version, producer_id=5, producer_epoch=0)
    await p.init()
    await p.init()
    for version in range(5):
        await p.add_offsets(version, producer_id=UNKNOWN_ID)
        await p.add_offsets(version, producer_epoch=0)
        await p.add_offsets(version, transactional_id="")
    await p.add_offsets(group_id="")
    await p.describe()
