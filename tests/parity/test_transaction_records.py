"""The records that transactions leave on disk, kohort's and those of a running Kafka after the same
requests, as Kafka's DumpLogSegments reads both."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from kohort.conformance.broker import RemoteBroker
from kohort.conformance.player import LONG_QUIET_MS
from kohort.conformance.producers import Producer
from kohort.conformance.script import Script
from kohort.conformance.settings import SETTINGS
from support.running_broker import config_flags, start_broker

from .brokers import kafka_broker

GROUP = "records"
DECODERS = {
    "__transaction_state-0": ("--transaction-log-decoder",),
    "__consumer_offsets-0": ("--offsets-decoder",),
    f"{GROUP}.topic-0": (),
}
CHECKSUM = re.compile(r"crc: \d+")
# All but those of the scripts.
TIME = re.compile(r"\b1[7-9]\d{11}\b")
# Kafka's are in the order of a hash map.
PARTITIONS = re.compile(r'"transactionPartitions":(\[.*?\]\}\])')
PRODUCER_ID = re.compile(r'(roducerId"?: ?)(\d+)')


async def transactions(script: Script) -> None:
    topic = await script.topic(1)
    members = {name: script.producer(name) for name in ("new", "old", "late", "fenced")}
    for producer in members.values():
        await producer.init()
    await _both_protocols(topic, members["new"], members["old"])
    late = members["late"]
    await late.bump(transaction_timeout=500)
    await late.produce(topic)
    await late.timed_out()
    await members["fenced"].produce(topic)
    await members["fenced"].init()
    await members["fenced"].init()
    await members["new"].abort()


async def _both_protocols(topic: str, new: Producer, old: Producer) -> None:
    for commit in (True, False):
        await new.produce(topic, count=2)
        await new.commit_offsets(topics=[("orders", 0, "note"), (topic, 0, None)])
        await new.end(commit=commit)
        await old.add(topics={topic: (0,), "orders": (1, 0)})
        await old.produce(topic, version=11)
        await old.add_offsets()
        await old.commit_offsets(version=3)
        await old.end(4, commit=commit)
    await new.bump()
    await new.produce(topic)
    await new.commit()


async def run(broker: RemoteBroker) -> None:
    broker.quiet_ms = LONG_QUIET_MS
    async with Script(broker, GROUP) as script:
        await script.transactions_ready()
        await transactions(script)


def dumps(kafka_tool: Callable[..., str], data: Path) -> dict[str, list[str]]:
    """The lines for batches and records, by partition. Producers are numbered."""
    ids: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"{match[1]}#{ids.setdefault(match[2], len(ids))}"

    found = {}
    for partition, decoder in DECODERS.items():
        (segment,) = (data / partition).glob("*.log")
        options = (*decoder, "--print-data-log", "--deep-iteration", "--files", segment)
        output = kafka_tool("org.apache.kafka.tools.DumpLogSegments", *options)
        lines = [
            each for each in output.splitlines() if each.startswith(("baseOffset", "| offset"))
        ]
        text = TIME.sub("TIME", CHECKSUM.sub("", "\n".join(lines)))
        text = PARTITIONS.sub(lambda match: str(sorted(json.loads(match[1]), key=str)), text)
        found[partition] = PRODUCER_ID.sub(number, text).splitlines()
    return found


@pytest.mark.java
@pytest.mark.parity
@pytest.mark.slow
async def test_records_of_transactions_are_those_of_kafka(
    kafka_jars: Path, kafka_tool: Callable[..., str], tmp_path: Path
) -> None:
    settings = SETTINGS["transactions"]
    flags = config_flags(f"{name}={value}" for name, value in settings.items())
    where = ("--port", "0", "--data-dir", tmp_path / "kohort")
    with start_broker(tmp_path, *where, *flags) as kohort:
        broker = RemoteBroker("127.0.0.1", kohort.port)
        await broker.inspect()
        await broker.prepare()
        await run(broker)
        await asyncio.to_thread(kohort.stop)
    async with kafka_broker(kafka_jars, tmp_path / "kafka", settings) as broker:
        await run(broker)
    expected = dumps(kafka_tool, tmp_path / "kafka" / "data")
    assert all(expected.values())
    for partition, lines in dumps(kafka_tool, tmp_path / "kohort").items():
        assert lines == expected[partition], partition
