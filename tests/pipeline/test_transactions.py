"""Offsets that are committed in transactions, in a folder that a broker has written."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kohort.pipeline.lake.reader import Lake
from log_builder import run_pipeline
from support.broker_thread import BrokerThread

pytestmark = [pytest.mark.spark, pytest.mark.clients]

LAYERS = ("generations", "commits")
# `kohort.events=all`: the lines of transactions must not disturb those of groups.
CONFIG = {"offsets.topic.num.partitions": "1", "kohort.events": "all"}


def transactional(broker: BrokerThread, name: str) -> Producer:
    """A producer whose transaction commits an offset of the group with the same name."""
    settings = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    producer = Producer({**settings, "transactional.id": name})
    producer.init_transactions(10)
    producer.begin_transaction()
    producer.produce("orders", b"paid", partition=0)  # creates the topic
    producer.flush()
    consumer = Consumer({**settings, "group.id": name})
    offsets = [TopicPartition("orders", 0, 7)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
    consumer.close()
    return producer


def committed(spark: Any, data: Path, lake: Path) -> dict[str, int]:
    """Run the pipeline; return group -> offset of the commits in the lake."""
    run_pipeline(spark, data, lake, layers=LAYERS)
    rows = Lake(lake).read("silver_commit").to_pylist()
    return {row["group"]: row["offset"] for row in rows}


def test_commits_of_a_transaction_take_effect_with_its_marker(spark: Any, tmp_path: Path) -> None:
    data, lake = tmp_path / "data", tmp_path / "lake"
    with BrokerThread(CONFIG, data_dir=data, durability="os") as broker:
        producers = {name: transactional(broker, name) for name in ("kept", "dropped", "late")}
        producers["kept"].commit_transaction()
        producers["dropped"].abort_transaction()
        assert committed(spark, data, lake) == {"kept": 7}
        producers["late"].commit_transaction()
        assert committed(spark, data, lake) == {"kept": 7, "late": 7}
