"""Long requests of many clients at once: what each needs in memory is many times its size."""

from contextlib import ExitStack

import pytest
from kohort.protocol.budgets import ITEMS_MAX
from support.wire import connect

from .conftest import FULL, Target

CLIENTS = 100 if FULL else 8
PARTITIONS = ITEMS_MAX - 1 if FULL else 6_000


@pytest.mark.parametrize("max_wait", [0, 60_000], ids=["at once", "parked"])
def test_fetches_of_many_partitions_of_many_clients(attack, max_wait):
    target = attack()
    create_topic(target, 10_000 if FULL else PARTITIONS)
    with target.client() as client:
        partitions = [{"partition": n, "partition_max_bytes": 1} for n in range(PARTITIONS)]
        topics = [{"topic": "orders", "partitions": partitions}]
        fetch = client.encode("Fetch", 11, max_wait=max_wait, min_bytes=1, topics=topics)
    with ExitStack() as closing:
        clients = [closing.enter_context(connect(target.address)) for _ in range(CLIENTS)]
        for each in clients:
            each.sendall(fetch)
        for each in clients:
            assert each.recv(1) or FULL


def create_topic(target: Target, partitions: int) -> None:
    topic = {"name": "orders", "num_partitions": partitions, "replication_factor": 1}
    with target.client() as client:
        created = client.call("CreateTopics", 7, topics=[topic], timeout=60_000)
    assert created["topics"][0]["error_code"] == "none"
