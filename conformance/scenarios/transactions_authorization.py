"""Transactional requests of principals that may not use the transactional id, the group or the
topic."""

from ..producers import (
    Producer,
    describe_producers,
    list_transactions,
    read,
    write_marker,
)
from ..scenario import authorized
from ..script import Script


def transactional_id_of(s: Script, user: str) -> tuple[Producer, str]:
    """Return a producer of the user, and its transactional id as the resource of an ACL."""
    return s.producer(user), f"transactional_id {s.group}.{user}"


@authorized("InitProducerId needs WRITE on the transactional id")
async def init_producer_id_needs_write(s: Script) -> None:
    p, resource = transactional_id_of(s, "alice")
    for version in (0, 3, 5):
        await p.init(version)
    await s.allow("alice", "DESCRIBE", resource)
    await p.init()
    await s.allow("alice", "WRITE", resource)
    await p.init()
    await p.init(producer_id=5, producer_epoch=-1)


@authorized("Requests of an open transaction after WRITE is denied")
async def requests_of_a_transaction_need_write(s: Script) -> None:
    topic = await s.topic(1)
    p, resource = transactional_id_of(s, "alice")
    await s.allow("alice", "WRITE", resource)
    await s.allow("alice", "WRITE", f"topic {topic}")
    await s.allow("alice", "READ", "topic orders")
    await s.allow("alice", "READ", f"group {s.group}")
    await p.init()
    await p.add(topics={topic: (0,)})
    await s.deny("alice", "WRITE", resource)
    for version in (0, 3):
        await p.add(version, topics={topic: (0,)})
        await p.add_offsets(version)
    for version in (9, 12):
        await p.produce(topic, version=version)
    for version in (0, 5):
        await p.commit_offsets(version=version)
        await p.end(version)
    await p.describe()


@authorized("AddPartitionsToTxn needs WRITE on each topic; other partitions are not added")
async def added_topics_need_write(s: Script) -> None:
    topic = await s.topic(1)
    p, resource = transactional_id_of(s, "alice")
    await s.allow("alice", "WRITE", resource)
    await s.allow("alice", "WRITE", f"topic {topic}")
    await p.init()
    for version in range(4):
        await p.add(version, topics={topic: (0,), "orders": (0, 1), "unknown": (0,)})
    await p.produce("orders")
    await p.produce(topic)
    await p.describe()


@authorized("AddPartitionsToTxn from brokers needs CLUSTER_ACTION")
async def brokers_need_cluster_action(s: Script) -> None:
    topic = await s.topic(1)
    p, resource = transactional_id_of(s, "alice")
    await s.allow("alice", "WRITE", resource)
    await p.init()
    for version in (4, 5):
        await p.add(version, topics={topic: (0,)})
    await s.allow("alice", "CLUSTER_ACTION", "cluster")
    for version in (4, 5):
        await p.add(version, topics={topic: (0,)})
        await p.add(version, topics={topic: (0,)}, transactional_id="other")


@authorized("Transactional offsets need READ on the group and the topics")
async def transactional_offsets_need_read(s: Script) -> None:
    p, resource = transactional_id_of(s, "alice")
    await s.allow("alice", "WRITE", resource)
    await p.init()
    await p.add_offsets()
    await p.commit_offsets()
    await s.allow("alice", "READ", f"group {s.group}")
    await p.add_offsets()
    topics = [("orders", 0, ""), ("payments", 0, ""), ("unknown", 0, "")]
    await p.commit_offsets(topics=topics)
    await s.allow("alice", "READ", "topic orders")
    await p.commit_offsets(topics=topics)
    await p.commit()
    await s.fetch()


@authorized("DescribeTransactions and ListTransactions need DESCRIBE")
async def described_transactions_need_describe(s: Script) -> None:
    topic, p = await s.topic_and_producer(1, "admin")
    await p.add(topics={topic: (0,), "orders": (1,)})
    described = {"transactional_ids": (p.transactional_id,)}

    async def describe() -> None:
        await s.send("DescribeTransactions", 0, described, client_id="alice")
        await s.send("ListTransactions", 1, {}, client_id="alice")

    await s.allowing(
        describe, f"DESCRIBE transactional_id {p.transactional_id}", f"DESCRIBE topic {topic}"
    )
    await list_transactions(s)


@authorized("DescribeProducers needs READ; markers need ALTER or CLUSTER_ACTION")
async def producers_and_markers_need_authorization(s: Script) -> None:
    topic, p = await s.topic_and_producer(1, "admin")
    await p.produce(topic)

    async def request() -> None:
        await describe_producers(s, topic, 0, 1, client_id="alice")
        for version in (1, 2):
            await write_marker(s, p, topic, version=version, client_id="alice")

    await request()
    await s.allow("alice", "READ", f"topic {topic}")
    await s.allow("alice", "ALTER", "cluster")
    await request()
    await describe_producers(s, topic)
    await read(s, topic)
    await write_marker(s, p, topic)


@authorized("FindCoordinator of a transactional id needs DESCRIBE")
async def find_coordinator_needs_describe(s: Script) -> None:
    await s.transactions_ready()
    key = f"{s.group}.alice"

    async def find() -> None:
        for version in (1, 3, 4, 6):
            values = {"key_type": 1, "key": key, "coordinator_keys": (key, "other")}
            await s.send("FindCoordinator", version, values, client_id="alice")

    await s.allowing(find, f"DESCRIBE transactional_id {key}")
