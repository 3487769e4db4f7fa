"""`kohort pipeline run` as a process with Spark: --follow, signals, a full disk."""

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
from kohort.pipeline.lake.reader import Lake
from kohort.testing import Kafka
from support.running_broker import CLEAN_ENVIRONMENT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# The time for a Spark session and a batch on a busy machine.
TIMEOUT_SECONDS = 240


@contextmanager
def running(
    *args: str | Path, limits: str = "", own_group: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """`limits`: shell commands to run before; `own_group`: start it in its own process group."""
    command = shlex.join([sys.executable, "-m", "kohort", "pipeline", "run", *map(str, args)])
    process = subprocess.Popen(
        ["/bin/bash", "-c", f"{limits}exec {command}"],
        env=CLEAN_ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=own_group,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_with(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"the process ended without {text!r}: {process.communicate()[1]}")


def commit(kafka: Kafka, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "orders"})
    consumer.commit(offsets=[TopicPartition("clicks", 0, offset)], asynchronous=False)
    consumer.close()


def test_follow_ends_after_the_current_batch_on_a_signal(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with Kafka() as kafka:
        kafka.topic("clicks", partitions=1).produce([b"v"] * 10)
        commit(kafka, 3)
        flags = ("--bootstrap-server", kafka.bootstrap_servers, "--lake", lake)
        with running(*flags, "--follow", "--every", "1s", own_group=True) as process:
            line_with(process, "batch 0: 1 records in")
            commit(kafka, 7)
            # Ignore a batch that started before this commit and has only samples.
            line_with(process, ": reading 1 records")
            # Terminals and supervisors also send signals to the process group.
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 0, err
    assert "stopping after this batch" in err
    assert "Traceback" not in err
    assert f"{lake}: " in out
    found = Lake(lake)
    assert found.read("silver_commit")["offset"].to_pylist() == [3, 7]
    (status,) = found.read("gold_partition_status").to_pylist()
    assert (status["committed"], status["log_end"], status["lag"]) == (7, 10, 3)


def test_a_full_disk_is_an_error_and_no_batch_is_written(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with Kafka() as kafka:
        kafka.topic("clicks", partitions=1).produce([b"v"])
        commit(kafka, 1)
        flags = ("--bootstrap-server", kafka.bootstrap_servers, "--lake", lake)
        # No file may have more than a block; Spark cannot write its log either.
        with running(*flags, limits="ulimit -f 1; ") as process:
            _, err = process.communicate(timeout=TIMEOUT_SECONDS)
        assert process.returncode == 2, err
        assert "File too large" in err
        assert "Traceback" not in err
        assert not Lake.exists(lake)
