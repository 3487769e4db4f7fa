"""InitProducerId: new producers, fencing, epochs."""

from ..producers import UNKNOWN_ID, Producer, describe_producers, read
from ..scenario import transactional
from ..script import Script


@transactional("InitProducerId in every version; each request increments the epoch")
async def init_producer_id_in_every_version(s: Script) -> None:
    p = s.producer()
    for version in range(6):
        await p.init(version)
    await p.describe()


@transactional("InitProducerId without a transactional id returns a new producer")
async def init_producer_id_of_idempotent_producers(s: Script) -> None:
    p = s.producer(transactional_id=None)
    for version in range(6):
        await p.init(version)
    await p.bump()
    await p.bump(2)
    await p.init(producer_id=p.id, producer_epoch=-1)
    await p.init(producer_id=-1, producer_epoch=0)
    await p.init(transaction_timeout=0)
    await p.init(transaction_timeout=-1)


@transactional("InitProducerId for a new transactional id accepts any expected producer")
async def a_new_id_accepts_an_expected_producer(s: Script) -> None:
    await s.producer("A").init(producer_id=0, producer_epoch=0)
    await s.producer("B").init(producer_id=UNKNOWN_ID, producer_epoch=7)
    await s.producer("C").init(3, producer_id=UNKNOWN_ID, producer_epoch=32_767)
    for name in "ABC":
        await s.producer(name).describe()


@transactional("KIP-360: a producer that continues gets the next epoch; a retry gets the same one")
async def a_producer_continues_with_the_next_epoch(s: Script) -> None:
    p = await s.producer().initialized()
    first = {"producer_id": p.id, "producer_epoch": p.epoch}
    await p.bump()
    await p.init(**first)
    await p.init(**first)
    await p.bump()
    await p.init(**first)
    await p.init(3, **first)
    await p.init(2, **first)
    await p.describe()


@transactional("KIP-360: another id, or an epoch that is not the current one, is fenced")
async def a_wrong_expected_producer_is_fenced(s: Script) -> None:
    p = await s.producer().initialized()
    await p.init()
    for version in (3, 4, 5):
        await p.init(version, producer_id=UNKNOWN_ID, producer_epoch=p.epoch)
        await p.init(version, producer_id=p.id, producer_epoch=p.epoch + 1)
        await p.init(version, producer_id=p.id, producer_epoch=0)
    await p.describe()
    await p.bump()


@transactional("InitProducerId: producer id and epoch must be set together")
async def an_expected_producer_has_id_and_epoch(s: Script) -> None:
    p = s.producer()
    await p.init(producer_id=5, producer_epoch=-1)
    await p.init(producer_id=-1, producer_epoch=5)
    await p.describe()
    await p.init()
    await p.init(producer_id=p.id, producer_epoch=-1)
    await p.init(3, producer_id=-1, producer_epoch=p.epoch)
    await p.init(producer_id=-2, producer_epoch=-2)
    await p.describe()


@transactional("InitProducerId: the timeout is positive and at most transaction.max.timeout.ms")
async def invalid_transaction_timeouts(s: Script) -> None:
    p = s.producer()
    for timeout in (0, -1, 60_001, 2_147_483_647):
        await p.init(transaction_timeout=timeout)
    await p.init(0, transaction_timeout=0)
    await p.describe()
    await p.init(transaction_timeout=1)
    await p.init(transaction_timeout=60_000)
    await p.init(transaction_timeout=60_001)
    await p.describe()


@transactional("InitProducerId: an empty transactional id is invalid")
async def an_empty_transactional_id(s: Script) -> None:
    p = s.producer(transactional_id="")
    for version in range(6):
        await p.init(version, transactional_id="")
    await p.init(transactional_id="", transaction_timeout=0)


@transactional("InitProducerId aborts the transaction of the previous producer")
async def a_new_producer_aborts_an_open_transaction(s: Script) -> None:
    topic = await s.topic(1)
    old, new = s.producer(), s.producer()
    await old.init()
    await old.produce(topic)
    await new.init()
    await new.describe()
    await new.init()
    await new.describe()
    await old.produce(topic)
    await old.commit()
    await old.abort()
    await old.bump()
    await new.produce(topic)
    await new.commit()


@transactional("InitProducerId aborts a transaction of the old protocol in the same way")
async def a_new_producer_aborts_an_old_transaction(s: Script) -> None:
    topic = await s.topic(1)
    old, new = s.producer(), s.producer()
    await old.init(1)
    await old.add(0, topics={topic: (0,)})
    await old.produce(topic, version=9)
    await new.init(1)
    await new.init(1)
    await old.produce(topic, version=9)
    await old.add(0, topics={topic: (0,)})
    await old.add(2, topics={topic: (0,)})
    await old.add_offsets(1)
    await old.end(1)
    await old.end(2)
    await new.describe()


@transactional("KIP-360: a producer that continues aborts its own open transaction")
async def a_producer_that_continues_aborts_its_transaction(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.produce(topic)
    before = {"producer_id": p.id, "producer_epoch": p.epoch}
    await p.bump()
    await p.describe()
    await p.init(**before)
    await p.describe()
    await p.init(**before)
    await p.produce(topic)
    await p.commit()


@transactional("KIP-360: a fenced producer cannot continue, but aborts its successor's transaction")
async def a_zombie_cannot_continue(s: Script) -> None:
    topic = await s.topic(1)
    old = await s.producer().initialized()
    new = await s.producer().initialized()
    await new.produce(topic)
    await old.bump()
    await old.bump(3)
    await new.describe()
    await new.commit()
    await old.bump()
    await new.describe()


@transactional("InitProducerId after a commit and after an abort, with both protocols")
async def init_producer_id_after_transactions(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    await p.produce(topic)
    await p.commit()
    await p.bump()
    await p.produce(topic)
    await p.abort()
    await p.init()
    await p.add(topics={topic: (0,)})
    await p.commit(4)
    await p.bump()
    await p.init()
    await p.describe()


@transactional("KIP-890: after a commit, the previous epoch identifies a retry")
async def the_epoch_before_a_commit_is_a_retry(s: Script) -> None:
    topic, p = await s.topic_and_producer()
    before = {"producer_id": p.id, "producer_epoch": p.epoch}
    await p.produce(topic)
    await p.commit()
    await p.init(**before)
    await p.describe()
    await p.produce(topic)
    await p.commit()
    await p.init(**before)
    await p.describe()


@transactional("InitProducerId: the last timeout applies")
async def the_timeout_of_the_last_request_applies(s: Script) -> None:
    topic, p = await s.topic_and_producer(timeout_ms=30_000)
    await p.describe()
    await p.bump(transaction_timeout=500)
    await p.describe()
    await p.produce(topic)
    await p.timed_out()
    await p.describe()
    await p.bump()
    await p.init()


async def near_the_last_epoch(s: Script, name: str, epoch: int) -> Producer:
    """Return a producer whose current epoch is `epoch`. Producers may use epochs up to 32766."""
    p = await s.producer(name).initialized()
    await s.use_epochs(f"{s.group}.{name}", epoch - 1)
    await p.init()
    return p


@transactional("When all epochs are used, InitProducerId returns another producer id")
async def init_producer_id_after_the_last_epoch(s: Script) -> None:
    p = await near_the_last_epoch(s, "P", 32_764)
    await p.bump()
    await p.init()
    before = {"producer_id": p.id, "producer_epoch": p.epoch}
    await p.bump()
    await p.init(**before)
    await p.init(producer_id=before["producer_id"], producer_epoch=32_765)
    await p.describe()
    await p.bump()
    await p.init()


@transactional("When all epochs are used, EndTxn returns another producer id")
async def end_txn_with_the_last_epoch(s: Script) -> None:
    topic = await s.topic(1)
    p = await near_the_last_epoch(s, "P", 32_764)
    for commit in (True, False, True):
        await p.produce(topic)
        before = {"producer_id": p.id, "producer_epoch": p.epoch}
        await p.end(commit=commit)
        await p.describe()
        await p.end(commit=commit, **before)
        await p.end(commit=not commit, **before)
    await p.init(**before)
    await read(s, topic)
    await describe_producers(s, topic)


@transactional("The transaction of a producer with the last epoch is aborted by its successor")
async def a_transaction_with_the_last_epoch_is_fenced(s: Script) -> None:
    topic = await s.topic(1)
    p = await near_the_last_epoch(s, "P", 32_766)
    await p.add(topics={topic: (0,)})
    await p.produce(topic, version=11)
    before = {"producer_id": p.id, "producer_epoch": p.epoch}
    await p.init()
    await p.describe()
    await p.init(**before)
    await p.init()
    await p.produce(topic)
    await p.commit()
    await read(s, topic)


@transactional("A transaction of the old protocol with the last epoch")
async def an_old_transaction_with_the_last_epoch(s: Script) -> None:
    topic = await s.topic(1)
    p = await near_the_last_epoch(s, "P", 32_766)
    await p.add(topics={topic: (0,)})
    await p.produce(topic, version=11)
    await p.commit(4)
    await p.describe()
    await p.bump()
    await p.abort()
    await p.describe()
