"""Spark's Kafka connector reads and writes topics of kohort."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from kohort.testing import Kafka
from support.java import fetched_jars

pytestmark = [pytest.mark.java, pytest.mark.spark, pytest.mark.toolchain, pytest.mark.slow]
HERE = Path(__file__).parent
OFFSETS_PARTITIONS = 4


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of the program, which runs in another process, because the JVM loads the jars
    when it starts."""
    jars = sorted(fetched_jars(HERE / "pom.xml", "spark-connector").glob("*.jar"))
    config = {
        "kohort.offsets.mirror": "offsets-log",
        "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    }
    with Kafka(config=config) as kafka:
        kafka.topic("orders", partitions=3)
        kafka.topic("seen", partitions=1)
        kafka.topic("paid", partitions=1).produce(["one"])
        billing = KafkaConsumer(
            "paid",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
        )
        with contextlib.closing(billing):
            next(billing)
            billing.commit()
        folder = tmp_path_factory.mktemp("connector")
        done = subprocess.run(
            [sys.executable, HERE / "program.py", kafka.bootstrap_servers, folder, *jars],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "SPARK_LOCAL_DIRS": str(folder)},
        )
    assert done.returncode == 0, done.stderr[-4000:]
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


def test_records_written_in_a_batch_are_read_in_a_batch(found: dict[str, Any]) -> None:
    assert found["written and read"] == 1000
    assert found["partitions"] == [0, 1, 2]
    assert found["by pattern"] == 1000
    assert found["sums"] == {str(key): sum(range(key, 1000, 10)) for key in range(10)}


def test_a_read_is_limited_by_starting_and_ending_offsets(found: dict[str, Any]) -> None:
    rows = found["from offsets to offsets"]
    assert rows["0"] == [10, 10]
    assert rows["1"] == [20, 20]
    assert rows["2"][0] == 30


def test_a_stream_continues_at_its_checkpoint(found: dict[str, Any]) -> None:
    assert found["streamed"] == [1000, 1000]
    assert found["first streamed"] == "seen 0"


def test_the_offsets_topic_is_read_through_its_mirror(found: dict[str, Any]) -> None:
    """The connector skips internal topics, on Kafka as well."""
    assert found["offsets topic"] == 0
    assert found["mirror"] > 2
    billing = b"billing".hex()
    assert all(billing in key for key in found["keys of the mirror"])
