"""`kohort log` on the logs that transactions write: __transaction_state, batches and markers."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kohort.cli.main import main
from kohort.log.segment import segment_name
from support.log import NewRecord, build
from support.running_broker import BrokerThread

from .conftest import NOW_MS, write_log

FIRST = segment_name(0)
TOOL = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a committed, an aborted and an open transaction, each with a record in
    orders-0 and an offset of the group that has its name."""
    folder = tmp_path_factory.mktemp("transactions") / "data"
    config = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
    with BrokerThread(config, data_dir=folder, durability="os") as broker:
        for name in ("committed", "aborted", "open"):
            settings = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
            producer = Producer({**settings, "transactional.id": name})
            producer.init_transactions(10)
            producer.begin_transaction()
            producer.produce("orders", name.encode(), partition=0)
            producer.flush()
            consumer = Consumer({**settings, "group.id": name})
            offsets = [TopicPartition("orders", 0, 7)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            consumer.close()
            if name == "committed":
                producer.commit_transaction()
            elif name == "aborted":
                producer.abort_transaction()
    return folder


def dumped(capsys: pytest.CaptureFixture[str], folder: Path) -> list[dict[str, Any]]:
    assert main(["log", "dump", "--format", "json", str(folder)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_states_of_transactions_are_printed_with_their_names(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = dumped(capsys, data / "__transaction_state-0")
    assert {record["kind"] for record in records} == {"TransactionLog"}
    assert [r["value"]["transactionStatus"] for r in records[:5]] == [0, 1, 1, 2, 4]
    assert main(["log", "dump", str(data / "__transaction_state-0")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " TransactionLog transactionalId=committed = producerId=0 " in lines[0]
    states = [re.findall(r"transactionStatus=(\w+)", line)[0] for line in lines]
    assert states[:5] == ["Empty", "Ongoing", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert states[5:10] == ["Empty", "Ongoing", "Ongoing", "PrepareAbort", "CompleteAbort"]


def test_transactional_records_and_markers_are_printed_as_such(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "dump", str(data / "orders-0")]) == 0
    lines = [line.split(" ", 3)[3] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        'Record null = "committed" (transactional, producer 0/0)',
        "COMMIT version=0 type=1 = coordinatorEpoch=0 (transactional, producer 0/0)",
        'Record null = "aborted" (transactional, producer 1/0)',
        "ABORT version=0 type=0 = coordinatorEpoch=0 (transactional, producer 1/0)",
        'Record null = "open" (transactional, producer 2/0)',
    ]


def test_all_logs_of_transactions_are_valid(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", str(data)]) == 0
    assert "problem" not in capsys.readouterr().err


def test_an_undecodable_transaction_record_is_a_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "__transaction_state-0"
    record = NewRecord(b"\0\0\0\1t", b"\0\1short", NOW_MS)
    write_log(folder, [lambda at: build([record], base_offset=at)])
    assert main(["log", "verify", str(folder)]) == 1
    assert "a record with a valid checksum cannot be decoded" in capsys.readouterr().out


@pytest.mark.java
def test_kafkas_dump_tool_prints_the_same_transaction_log(
    data: Path, kafka_tool: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = data / "__transaction_state-0"
    printed = kafka_tool(TOOL, "--transaction-log-decoder", "--files", folder / FIRST)
    found = re.findall(r"offset: (\d+) CreateTime.* key: (\{.*\}) payload: (.*)", printed)
    theirs = [(int(o), json.loads(key)["data"], json.loads(value)) for o, key, value in found]
    ours = [
        (r["offset"], r["key"], {"version": str(r["version"]), "data": r["value"]})
        for r in dumped(capsys, folder)
    ]
    assert len(ours) == 13
    assert ours == theirs
