"""Transactions that are wide, numerous or repeatedly described, or that all time out together."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from kohort.protocol.budgets import ITEMS_MAX
from support.log import NewRecord, build
from support.wire import Client

from .conftest import FULL

PARTITIONS = 10_000 if FULL else 500
IDS = 20_000 if FULL else 300
# Requests in flight on one connection. They are so few that no buffer of either side is full.
PIPELINED = 100


class Producer(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int


def pipelined(client: Client, api: str, version: int, requests: Sequence[Any]) -> list[Any]:
    responses = []
    for start in range(0, len(requests), PIPELINED):
        part = requests[start : start + PIPELINED]
        client.socket.sendall(b"".join(client.encode(api, version, **each) for each in part))
        responses += [client.receive() for _ in part]
    return responses


def producers(client: Client, count: int, timeout_ms: int = 60_000) -> list[Producer]:
    """Return new producers with transactional ids."""
    names = [f"id-{number}" for number in range(count)]
    # The first request creates __transaction_state.
    first = {"transactional_id": "first", "transaction_timeout": timeout_ms}
    while client.call("InitProducerId", 4, **first)["error_code"] != "none":
        pass
    found = pipelined(
        client,
        "InitProducerId",
        4,
        [{"transactional_id": name, "transaction_timeout": timeout_ms} for name in names],
    )
    assert {each["error_code"] for each in found} == {"none"}
    return [
        Producer(name, each["producer_id"], each["producer_epoch"])
        for name, each in zip(names, found, strict=True)
    ]


def adding(producer: Producer, partitions: Sequence[int]) -> dict[str, Any]:
    """Return the values of AddPartitionsToTxn v3."""
    return {
        "v3_and_below_transactional_id": producer.transactional_id,
        "v3_and_below_producer_id": producer.producer_id,
        "v3_and_below_producer_epoch": producer.epoch,
        "v3_and_below_topics": [{"name": "orders", "partitions": partitions}],
    }


def begin(client: Client, producer: Producer, partitions: Sequence[int]) -> None:
    added = client.call("AddPartitionsToTxn", 3, **adding(producer, partitions))
    results = added["results_by_topic_v3_and_below"][0]["results_by_partition"]
    assert {each["partition_error_code"] for each in results} == {"none"}


def end(client: Client, producer: Producer, *, commit: bool) -> str:
    return client.call(
        "EndTxn",
        4,
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        committed=commit,
    )["error_code"]


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_a_transaction_of_thousands_of_partitions(attack, durability):
    """When it ends, the logs of its partitions are opened to append markers and to be synced."""
    target = attack("--durability", durability)
    with target.client() as client:
        client.socket.settimeout(120)
        client.create_topics("orders", partitions=PARTITIONS)
        (producer,) = producers(client, 1)
        begin(client, producer, range(PARTITIONS // 2))
        # One partition at a time: each request stores all partitions of the transaction.
        for partition in range(PARTITIONS // 2, PARTITIONS // 2 + 100):
            begin(client, producer, [partition])
        begin(client, producer, range(PARTITIONS))
        assert end(client, producer, commit=True) == "none"


def test_thousands_of_transactions_that_time_out_at_once(attack):
    target = attack()
    ids, timeout_ms = (3_000, 10_000) if FULL else (300, 3_000)
    with target.client() as client:
        client.create_topics("orders", partitions=50)
        found = producers(client, ids, timeout_ms)
        started = pipelined(
            client, "AddPartitionsToTxn", 3, [adding(each, range(5)) for each in found]
        )
        assert len(started) == ids
        states = {"Ongoing"}
        while states != {"CompleteAbort"}:
            listed = client.call("ListTransactions", 1, duration_filter=0)["transaction_states"]
            states = {
                each["transaction_state"] for each in listed if each["transactional_id"] != "first"
            }


def test_thousands_of_transactional_ids_that_are_filtered_by_thousands(attack):
    target = attack()
    with target.client() as client:
        producers(client, IDS)
        ids = [2**40 + number for number in range(ITEMS_MAX // 2)]
        states = ["Ongoing"] * (ITEMS_MAX // 2 - 1)
        for filters in ({"producer_id_filters": ids}, {"state_filters": states}):
            listed = client.call("ListTransactions", 0, **filters)
            assert (listed["error_code"], listed["transaction_states"]) == ("none", [])


def test_a_wide_transaction_that_is_described_again_and_again(attack):
    target = attack()
    with target.client() as client:
        client.create_topics("orders", partitions=PARTITIONS)
        (producer,) = producers(client, 1)
        begin(client, producer, range(PARTITIONS))
        ids = [producer.transactional_id] * (ITEMS_MAX - 1)
        with pytest.raises((ConnectionError, EOFError)):
            client.call("DescribeTransactions", 0, transactional_ids=ids)
    assert target.has_logged("request less data")


def test_offsets_of_thousands_of_partitions_in_transactions(attack):
    """The offsets of one transaction and of many small ones are pending in the same partition."""
    target = attack("-o", "offsets.topic.num.partitions=1")
    ids = 2_000 if FULL else 50
    with target.client() as client:
        client.socket.settimeout(120)
        client.create_topics("orders", partitions=PARTITIONS)
        *small, first, second = producers(client, ids)
        for producer in (first, second):
            commit_offsets(client, producer, range(PARTITIONS))
        pipelined(client, "TxnOffsetCommit", 5, [committing(each, [0]) for each in small])
        for producer in (first, second):
            assert end(client, producer, commit=True) == "none"


def committing(producer: Producer, partitions: Sequence[int]) -> dict[str, Any]:
    """Return the values of TxnOffsetCommit v5, which adds the offsets partition."""
    entries = [{"partition_index": index, "committed_offset": 1} for index in partitions]
    return {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "group_id": "billing",
        "generation_id": -1,
        "topics": [{"name": "orders", "partitions": entries}],
    }


def commit_offsets(client: Client, producer: Producer, partitions: Sequence[int]) -> None:
    committed = client.call("TxnOffsetCommit", 5, **committing(producer, partitions))
    assert {each["error_code"] for each in committed["topics"][0]["partitions"]} == {"none"}


def test_a_partition_with_thousands_of_producers_that_is_described_again_and_again(attack):
    target = attack()
    with target.client() as client:
        client.create_topics("orders")
        write_as_many_producers(client, IDS)
        topics = [{"name": "orders", "partition_indexes": [0] * (ITEMS_MAX - 2)}]
        with pytest.raises((ConnectionError, EOFError)):
            client.call("DescribeProducers", 0, topics=topics)
    assert target.has_logged("request less data")


def write_as_many_producers(client: Client, count: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    requests = []
    for number in range(count):
        records = build(
            [NewRecord(None, b"x", now_ms)],
            producer_id=2**40 + number,
            producer_epoch=0,
            base_sequence=0,
        )
        data = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
        requests.append({"acks": 1, "timeout": 9_000, "topic_data": data})
    for response in pipelined(client, "Produce", 9, requests):
        (partition,) = response["responses"][0]["partition_responses"]
        assert partition["error_code"] == "none"
