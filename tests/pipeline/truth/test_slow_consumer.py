"""The slow consumer, end to end: real consumers on `kohort serve`, the pipeline, and the report
of `kohort why`."""

import json
from pathlib import Path
from typing import Any

import pytest
from log_builder import run_pipeline
from support.running_broker import config_flags, start_broker
from truth.live import LiveGroup, Writer, kohort, make_topic

pytestmark = [pytest.mark.spark, pytest.mark.clients, pytest.mark.slow]

SETTINGS = ("group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
CONSUMER = {"session_ms": 2_500, "max_poll_ms": 5_000, "commit_ms": 500}
TIMES = 2


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of a broker on which one of three consumers was too slow twice."""
    folder = tmp_path_factory.mktemp("slow")
    data, topic = folder / "data", "topic-orders"
    where = ("--port", "0", "--durability", "os", "--data-dir", data)
    with start_broker(folder, *where, *config_flags(SETTINGS)) as broker:
        make_topic(broker.bootstrap, topic, 6)
        group = LiveGroup(data, broker.bootstrap, "orders", "kafka-python", **CONSUMER)
        try:
            with Writer(broker.bootstrap, topic):
                group.start("quick", "steady", "slow")
                for _ in range(TIMES):
                    group.slow("slow", CONSUMER["max_poll_ms"] / 1_000 * 1.6)
                run_pipeline(spark, data, folder / "lake")
        finally:
            group.close()
    return folder / "lake"


def test_report_names_the_slow_consumer_and_its_remedies(lake: Path) -> None:
    output = kohort("why", "orders", "--lake", lake)
    text = " ".join(output.split()).lower()
    assert "orders-slow" in text
    assert "orders-quick went" not in text
    assert "max.poll.interval.ms" in text
    assert "static" in text
    assert "cooperative" in text


def test_each_slow_poll_is_a_rebalance_with_that_cause(lake: Path) -> None:
    (report,) = json.loads(kohort("why", "orders", "--lake", lake, "--format", "json"))
    assert report["verdict"] == "SLOW_CONSUMER"
    slow = [each for each in report["rebalances"] if each["cause"] == "SLOW_POLL"]
    assert [each["client_id"] for each in slow] == ["orders-slow"] * TIMES
