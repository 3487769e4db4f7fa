"""The same actions by real consumers of three libraries, on kohort and on a real Kafka."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from clients.adapter import LIBRARIES
from support.kafka_process import KafkaFolder
from support.running_broker import config_flags, start_broker
from truth.compare import Matrix, compare_live, matrices
from truth.live import LiveGroup, Writer, make_topic

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
}
CONSUMER = {"session_ms": 2_500, "max_poll_ms": 5_000, "commit_ms": 500}


def play(data: Path, bootstrap: str, library: str, settings: dict[str, Any]) -> LiveGroup:
    group = LiveGroup(data, bootstrap, f"of-{library}", library, **settings)
    topic = f"topic-of-{library}"
    make_topic(bootstrap, topic, 4)
    try:
        with Writer(bootstrap, topic):
            group.start("a", "b")
            group.slow("b", settings["max_poll_ms"] / 1_000 * 1.6)
            group.crash("b")
            group.start("b")
            group.leave("a")
            group.start("c")
            group.restart("c")
            group.grow(6)
            group.crash("b")
    finally:
        group.close()
    return group


def play_static(data: Path, bootstrap: str, settings: dict[str, Any]) -> LiveGroup:
    """A static member that polls too slowly sends no LeaveGroup: its session expires."""
    group = LiveGroup(data, bootstrap, "static", "kafka-python", is_static=True, **settings)
    make_topic(bootstrap, "topic-static", 4)
    try:
        with Writer(bootstrap, "topic-static"):
            group.start("a", "b")
            group.slow("b", (settings["max_poll_ms"] + settings["session_ms"]) / 1_000 * 1.6)
            group.crash("b")
    finally:
        group.close()
    return group


def play_all(data: Path, bootstrap: str, settings: dict[str, Any]) -> list[LiveGroup]:
    """Play all groups concurrently, because most of the time is waiting."""
    with ThreadPoolExecutor(len(LIBRARIES) + 1) as pool:
        played = [pool.submit(play, data, bootstrap, library, settings) for library in LIBRARIES]
        played.append(pool.submit(play_static, data, bootstrap, settings))
        return [each.result() for each in played]


def compare_groups(data: Path, groups: list[LiveGroup]) -> dict[bool, Matrix]:
    known = {group.group_id: (group.oracle, group.last_offset) for group in groups}
    return matrices(compare_live(data, round(time.time() * 1_000), known))


@pytest.mark.clients
@pytest.mark.toolchain  # a minute, most of it waiting for sessions to expire
@pytest.mark.slow
def test_actions_of_real_consumers_on_kohort_are_diagnosed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = config_flags(f"{key}={value}" for key, value in SETTINGS.items())
    where = ("--port", "0", "--durability", "os", "--data-dir", data)
    with start_broker(tmp_path, *where, *options) as broker:
        groups = play_all(data, broker.bootstrap, CONSUMER)
        assert broker.stop() == 0
    of_log, of_events = compare_groups(data, groups).values()
    assert of_log.total >= 30
    assert of_log.share >= 0.9, "\n".join(of_log.lines())
    # Four of forty causes may be wrong: a library that leaves without a reason before its first
    # commit cannot be distinguished from one that closes. Simulated worlds must reach 99 %.
    assert of_events.share >= 0.9, "\n".join(of_events.lines())


@pytest.mark.toolchain
@pytest.mark.slow
def test_actions_of_real_consumers_on_kafka_are_diagnosed(kafka_jars: Path, tmp_path: Path) -> None:
    kafka = KafkaFolder(kafka_jars, tmp_path, SETTINGS)
    kafka.format()
    with kafka.running() as bootstrap:
        groups = play_all(kafka.data, bootstrap, CONSUMER)
    of_log = compare_groups(kafka.data, groups)[False]
    assert of_log.total >= 30
    assert of_log.share >= 0.9, "\n".join(of_log.lines())
