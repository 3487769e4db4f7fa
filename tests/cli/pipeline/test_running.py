"""`kohort pipeline run` as a process with Spark: follows a broker, is told to end, has no room."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kohort.pipeline.lake import Lake
from kohort.testing import Kafka
from support.broker_process import QUIET

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# A session of Spark on a busy machine, and a batch.
PATIENCE_SECONDS = 240


@contextmanager
def running(
    *args: str | Path, limits: str = "", supervised: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """`limits`: what a shell does before; `supervised`: in a process group of its own."""
    command = shlex.join([sys.executable, "-m", "kohort", "pipeline", "run", *map(str, args)])
    process = subprocess.Popen(
        ["/bin/bash", "-c", f"{limits}exec {command}"],
        env=QUIET,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=supervised,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_with(process: subprocess.Popen[str], what: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if what in line:
            return line
    raise AssertionError(f"it ended without {what!r}: {process.communicate()[1]}")


def commit(kafka: Kafka, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "orders"})
    consumer.commit(offsets=[TopicPartition("clicks", 0, offset)], asynchronous=False)
    consumer.close()


def test_a_broker_is_followed_until_a_signal_and_the_batch_is_finished(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with Kafka() as kafka:
        kafka.topic("clicks", partitions=1).produce([b"v"] * 10)
        commit(kafka, 3)
        where = ("--bootstrap-server", kafka.bootstrap_servers, "--lake", lake)
        with running(*where, "--follow", "--every", "1s", supervised=True) as process:
            line_with(process, "batch 0: 1 records in")
            commit(kafka, 7)
            # Not the batch of samples alone that may have begun before this commit.
            line_with(process, ": 1 records to read")
            # As a terminal and a supervisor do it: to all that were started with it.
            os.killpg(process.pid, signal.SIGINT)
            said, complained = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, complained
    assert "ends after this batch" in complained
    assert "Traceback" not in complained
    assert f"{lake}: " in said
    found = Lake(lake)
    assert found.read("silver_commit")["offset"].to_pylist() == [3, 7]
    (status,) = found.read("gold_partition_status").to_pylist()
    assert (status["committed"], status["log_end"], status["lag"]) == (7, 10, 3)


def test_a_disk_without_room_is_one_sentence_and_the_lake_stays_as_it_was(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with Kafka() as kafka:
        kafka.topic("clicks", partitions=1).produce([b"v"])
        commit(kafka, 1)
        where = ("--bootstrap-server", kafka.bootstrap_servers, "--lake", lake)
        # No file may have a block: what Spark says to its log is lost as well.
        with running(*where, limits="ulimit -f 1; ") as process:
            _, complained = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 2, complained
        assert "File too large" in complained
        assert "Traceback" not in complained
        assert not Lake.exists(lake)
        with running(*where) as process:
            _, complained = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, complained
    assert Lake(lake).rows("silver_commit") == 1
