"""Kafka's TransactionalMessageCopier copies a topic, with its offsets, in transactions, and aborts
some of them. Meanwhile, the broker is killed with SIGKILL repeatedly, and the copier once. Each
message is in the copy exactly once."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.java import java
from support.running_broker import TIMEOUT_SECONDS, BrokerProcess, start_broker

MESSAGES = 4_000
TRANSACTION_SIZE = 20
# A new copier first reads the committed offsets, which waits for a transaction that its predecessor
# left open.
TRANSACTION_TIMEOUT_MS = 10_000
KILLS = 5
COPY_SECONDS_MAX = 120
PROGRESS_BYTES = 2_000  # reports of about 15 transactions

pytestmark = [pytest.mark.crash, pytest.mark.java, pytest.mark.slow]


def prepare(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    new = [NewTopic(name, num_partitions=1) for name in ("input", "output")]
    for created in admin.create_topics(new).values():
        created.result(TIMEOUT_SECONDS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(MESSAGES):
        producer.produce("input", str(number), str(number), partition=0)
    assert producer.flush(TIMEOUT_SECONDS) == 0


@contextlib.contextmanager
def copier(jars: Path, bootstrap: str, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    arguments = {
        "input-topic": "input",
        "input-partition": "0",
        "output-topic": "output",
        "broker-list": bootstrap,
        "consumer-group": "copiers",
        "transactional-id": "copier",
        "transaction-size": str(TRANSACTION_SIZE),
        "transaction-timeout": str(TRANSACTION_TIMEOUT_MS),
    }
    flags = [each for name, value in arguments.items() for each in (f"--{name}", value)]
    command = [*java(jars, "tools"), "org.apache.kafka.tools.TransactionalMessageCopier", *flags]
    command += ["--enable-random-aborts", "--use-group-metadata"]
    with output.open("ab") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait(TIMEOUT_SECONDS)


def wait_for_progress(output: Path, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the copier has reported more transactions; return False if it has ended before."""
    begin = output.stat().st_size
    deadline = time.monotonic() + COPY_SECONDS_MAX
    while process.poll() is None:
        if output.stat().st_size >= begin + PROGRESS_BYTES:
            return True
        assert time.monotonic() < deadline, "the copier makes no progress"
        time.sleep(0.005)
    return False


def copied(broker: BrokerProcess) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("output", 0, 0)])
    found = []
    while True:
        message = consumer.poll(TIMEOUT_SECONDS)
        assert message is not None
        if message.error() is not None:
            consumer.close()
            return found  # the end of the partition
        found.append(int(message.value() or b""))


def test_each_message_is_copied_exactly_once(tmp_path: Path, kafka_jars: Path) -> None:
    data, output = tmp_path / "data", tmp_path / "progress"
    output.touch()
    port = "0"

    def start() -> contextlib.AbstractContextManager[BrokerProcess]:
        return start_broker(tmp_path, "--port", port, "--data-dir", data)

    with start() as broker:
        prepare(broker)
        port = str(broker.port)
    kills, copiers = 0, 0
    while True:
        # A copier ends with an error if it is fenced; its successor then continues.
        copiers += 1
        assert copiers < 20
        with contextlib.ExitStack() as stack:
            broker = stack.enter_context(start())
            process = stack.enter_context(copier(kafka_jars, broker.bootstrap, output))
            while wait_for_progress(output, process):
                if kills == 2 and copiers == 1:
                    break  # the copier is killed, with its transaction open
                if kills < KILLS:
                    kills += 1
                    broker.stop(9)
                    broker = stack.enter_context(start())
            if process.poll() == 0:
                assert copied(broker) == list(range(MESSAGES))
                assert broker.stop() == 0
                break
    assert kills == KILLS
    assert copiers > 1
