"""kohort serves a data folder of Kafka: its responses equal the responses of Kafka that record.py
recorded."""

import base64
import contextlib
import logging
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kohort.broker.event_loop.timers import Clock, SystemClock
from kohort.log.files import DiskFiles
from kohort.log.log import Log
from support.log import max_timestamp
from support.running_broker import BrokerThread, kohort

from . import consumer_groups
from .group_requests import call, call_until_loaded, classic_protocol_errors, group_state

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


class RecordedClock(SystemClock):
    """Begins a minute after Kafka's last transaction."""

    def __init__(self, data: Path) -> None:
        self._ago_ms = 0
        super().__init__()
        log = Log.open(data / "__transaction_state-0", DiskFiles(), read_only=True)
        newest = max_timestamp(log)
        log.close()
        assert newest is not None
        self._ago_ms = self.now_ms() - newest[1] - 60_000

    def now_ms(self) -> int:
        return super().now_ms() - self._ago_ms

    def wall_ms(self) -> int:
        return super().wall_ms() - self._ago_ms


@contextlib.contextmanager
def serving(data: Path, clock: Clock | None = None) -> Iterator[str]:
    """By default, the open transactions of the folder have not timed out yet."""
    clock = clock or RecordedClock(data)
    with BrokerThread(SETTINGS, data_dir=data, durability="fsync", clock=clock) as broker:
        yield broker.bootstrap


def normalized(state: dict[str, Any]) -> dict[str, Any]:
    """Sort the partitions; share and streams groups have no members in kohort."""
    listed = []
    for group in state["listed"]:
        is_supported = group["group_type"] in ("classic", "consumer")
        listed.append(group if is_supported else {**group, "group_state": "Empty"})
    for committed in (*state["committed"].values(), *state["stable"].values()):
        for topic in committed["topics"]:
            topic["partitions"].sort(key=lambda each: each["partition_index"])
    described = {
        name: {**group, "error_message": None} for name, group in state["described"].items()
    }
    return {**state, "listed": listed, "described": described}


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def test_every_group_equals_kafkas_description_also_after_a_restart(
    kafka_data: Path, kafka_responses: dict[str, Any]
) -> None:
    """The second start reads the topics from kohort's registry."""
    expected = normalized(
        {key: kafka_responses[key] for key in ("listed", "committed", "stable", "described")}
    )
    for _ in range(2):
        with serving(kafka_data) as address:
            assert normalized(group_state(address, kafka_responses["committed"])) == expected


@pytest.mark.parametrize("group", ["modern", "modern-left", "modern-pattern", "never"])
def test_consumer_group_responds_to_the_classic_protocol_like_kafka(
    kafka_data: Path, kafka_responses: dict[str, Any], group: str
) -> None:
    with serving(kafka_data) as address:
        assert (
            classic_protocol_errors(address, group, "orders")
            == kafka_responses["classic requests"][group]
        )


def test_consumer_groups_have_kafkas_epochs_members_and_assignments(
    kafka_data: Path, kafka_responses: dict[str, Any]
) -> None:
    """This also holds after a restart, and after a compaction of all segments."""
    for compacts in (False, False, True):
        if compacts:
            compacted = kohort("log", "compact", kafka_data)
            assert compacted.returncode == 0, compacted.stderr
        with serving(kafka_data) as address:
            found = consumer_groups.described(address, "kafka")
            assert found == kafka_responses["consumer groups"]


def test_members_of_consumer_groups_continue_at_their_epochs(
    kafka_data: Path, kafka_responses: dict[str, Any]
) -> None:
    with serving(kafka_data) as address:
        found = consumer_groups.resume(address, "kafka")
    assert found == kafka_responses["resumed consumer groups"]
    before, after = kafka_responses["consumer groups"], found["heartbeats"]
    assert [after[name]["group_epoch"] for name in before] == [
        group["group_epoch"] for group in before.values()
    ]


def test_members_of_streams_groups_are_not_imported(
    kafka_data: Path, kafka_responses: dict[str, Any]
) -> None:
    with serving(kafka_data) as address:
        errors = classic_protocol_errors(address, "streams", "orders")
        assert errors == kafka_responses["classic requests"]["modern-left"]


def test_share_group_rejects_the_classic_protocol_and_can_be_deleted(
    kafka_data: Path, kafka_responses: dict[str, Any]
) -> None:
    expected = dict(kafka_responses["classic requests"]["share"])
    # In Kafka the group had a member.
    assert expected.popitem() == ("8 DeleteGroups", ["non_empty_group"])
    with serving(kafka_data) as address:
        errors = classic_protocol_errors(address, "share", "orders")
        assert errors.popitem() == ("8 DeleteGroups", ["none"])
        assert errors == expected
    with serving(kafka_data) as address:
        listed = call_until_loaded(address, "ListGroups", 5, {})["groups"]
        assert "share" not in {group["group_id"] for group in listed}


def fetched(address: str, *, stable: bool) -> Any:
    topics = [{"name": "orders", "partition_indexes": [0, 1]}]
    group = {"group_id": "txn-open", "topics": topics, "member_epoch": -1}
    values = {"groups": [group], "require_stable": stable}
    response = call_until_loaded(address, "OffsetFetch", 9, values)
    partitions = response["groups"][0]["topics"][0]["partitions"]
    return [(each["committed_offset"], each["error_code"]) for each in partitions]


def test_open_transactions_of_kafka_are_aborted_by_their_timeout(kafka_data: Path) -> None:
    ids = {"transactional_ids": ["t2", "open1", "open2"]}
    with serving(kafka_data) as address:
        states = call_until_loaded(address, "DescribeTransactions", 0, ids)["transaction_states"]
        found = [each["transaction_state"] for each in states]
        assert found == ["CompleteCommit", "Ongoing", "Ongoing"]
        assert {each["topic"] for each in states[1]["topics"]} == {"orders", "__consumer_offsets"}
        before = end_offsets(address)
        assert before[1] < before[0]
    with serving(kafka_data, SystemClock()) as address:
        while "CompleteAbort" not in states_of(address, ids["transactional_ids"])[2]:
            pass  # aborted when the partition is loaded; each turn is a request
        assert states_of(address, ids["transactional_ids"])[1:] == ["CompleteAbort"] * 2
        assert fetched(address, stable=True) == [(-1, "none"), (-1, "none")]
        uncommitted, committed = end_offsets(address)
        assert uncommitted == committed == before[0] + 2  # the markers


def states_of(address: str, transactional_ids: list[str]) -> list[str]:
    values = {"transactional_ids": transactional_ids}
    response = call_until_loaded(address, "DescribeTransactions", 0, values)
    return [each["transaction_state"] for each in response["transaction_states"]]


def end_offsets(address: str) -> list[int]:
    """Return the end of orders-2 for read_uncommitted and read_committed."""
    ends = []
    for level in (0, 1):
        topics = [{"name": "orders", "partitions": [{"partition_index": 2, "timestamp": -1}]}]
        values = {"replica_id": -1, "isolation_level": level, "topics": topics}
        response = call(address, "ListOffsets", 6, values)
        ends.append(response["topics"][0]["partitions"][0]["offset"])
    return ends


def test_open_transaction_blocks_stable_offsets_until_the_group_is_deleted(
    kafka_data: Path,
) -> None:
    with serving(kafka_data) as address:
        assert fetched(address, stable=False) == [(-1, "none"), (-1, "none")]
        assert fetched(address, stable=True) == [(-1, "unstable_offset_commit"), (-1, "none")]
    with serving(kafka_data) as address:
        assert fetched(address, stable=True)[0] == (-1, "unstable_offset_commit")
        deleted = call(address, "DeleteGroups", 2, {"groups_names": ["txn-open"]})
        assert deleted["results"][0]["error_code"] == "none"
    with serving(kafka_data) as address:
        assert fetched(address, stable=True) == [(-1, "none"), (-1, "none")]


def test_topics_keep_their_ids_partitions_and_configurations(kafka_data: Path) -> None:
    with serving(kafka_data) as address:
        topics = call(address, "Metadata", 12, {"topics": None})["topics"]
        found = {topic["name"]: (topic["topic_id"], len(topic["partitions"])) for topic in topics}
        assert {name: count for name, (_, count) in found.items()} == {
            "__consumer_offsets": 4,
            "__transaction_state": 1,
            "orders": 3,
            "prices": 1,
        }
        for name in found:
            assert found[name][0] == topic_id(kafka_data / f"{name}-0")
        assert configs_of(address, "orders") == {
            "max.message.bytes": "2000000",
            "segment.bytes": "1048576",
        }
        assert configs_of(address, "__consumer_offsets")["cleanup.policy"] == "compact"


def configs_of(address: str, topic: str) -> dict[str, str]:
    """Return the topic's configuration without defaults."""
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    result = call(address, "DescribeConfigs", 4, {"resources": [resource]})["results"][0]
    return {each["name"]: each["value"] for each in result["configs"] if each["config_source"] == 1}


def topic_id(folder: Path) -> str:
    text = (folder / "partition.metadata").read_text().split("topic_id: ")[1].strip()
    return str(uuid.UUID(bytes=base64.urlsafe_b64decode(text + "==")))


def test_leader_epochs_are_greater_than_all_of_kafka(kafka_data: Path) -> None:
    with serving(kafka_data) as address:
        topics = call(address, "Metadata", 12, {"topics": None})["topics"]
    assert topics
    for topic in topics:
        for partition in topic["partitions"]:
            name = f"{topic['name']}-{partition['partition_index']}"
            epochs = (kafka_data / name / "leader-epoch-checkpoint").read_text().split("\n")[2:-1]
            assert partition["leader_epoch"] > max(int(line.split()[0]) for line in epochs)


def test_only_committed_records_are_visible_to_read_committed(kafka_data: Path) -> None:
    def values(address: str, isolation: str) -> set[str]:
        settings = {"group.id": "reader", "isolation.level": isolation, "enable.auto.commit": False}
        reader = Consumer({"bootstrap.servers": address, "enable.partition.eof": True, **settings})
        reader.assign([TopicPartition("orders", 2, 0)])
        found: set[str] = set()
        while (message := reader.poll(30)) is not None and message.error() is None:
            found.add((message.value() or b"").decode())
        assert message is not None
        reader.close()
        return found

    with serving(kafka_data) as address:
        everything = values(address, "read_uncommitted")
        aborted = {"txn-aborted-3", "txn-aborted-after-plain-4"}
        assert {"txn-committed-2", *aborted} < everything
        still_open = {"txn-open-2", "txn-open-after-plain-5"}
        assert values(address, "read_committed") == everything - aborted - still_open


def test_producer_ids_allocated_by_kafka_are_not_reused(kafka_data: Path) -> None:
    with serving(kafka_data) as address:
        values = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
        response = call(address, "InitProducerId", 4, {**values, "transaction_timeout": 1000})
    assert response["producer_id"] >= 1000  # Kafka allocates blocks of a thousand


def test_import_removes_only_kafkas_recovery_checkpoints(kafka_data: Path) -> None:
    before = files_of(kafka_data)
    with serving(kafka_data) as address:
        group_state(address, ["classic"])
    after = files_of(kafka_data)
    removed = {".kafka_cleanshutdown", "recovery-point-offset-checkpoint"}
    assert before.keys() - after.keys() == removed
    # Only the coordinator has appended records.
    changed = {name for name in after.keys() & before.keys() if after[name] != before[name]}
    assert all(name.startswith("__consumer_offsets-") for name in changed)
    assert all(after[name].startswith(before[name]) for name in changed)


def test_a_topic_of_the_metadata_without_a_folder_is_reported(
    kafka_data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(kafka_data / "prices-0")
    with caplog.at_level(logging.WARNING, logger="kohort"), serving(kafka_data) as address:
        topics = call(address, "Metadata", 12, {"topics": None})["topics"]
    assert "prices" not in [topic["name"] for topic in topics]
    assert "Topics without a folder are not imported: prices\n" in caplog.text


def test_live_copy_with_truncated_batch_and_preallocated_index_is_imported(
    kafka_data: Path, kafka_responses: dict[str, Any]
) -> None:
    """The folder is a copy that was made while Kafka was writing."""
    (kafka_data / ".kafka_cleanshutdown").unlink()
    for folder in kafka_data.glob("__consumer_offsets-*"):
        log = folder / f"{0:020}.log"
        log.write_bytes(log.read_bytes() + b"\0\0\0\0\0\0\0\x99\0\0\1\0torn")
        (folder / f"{0:020}.index").write_bytes(bytes(1 << 20))
    with serving(kafka_data) as address:
        found = group_state(address, kafka_responses["committed"])
        assert normalized(found)["committed"] == normalized(kafka_responses)["committed"]


def test_derived_files_are_deleted_if_kafka_has_written_to_the_folder(kafka_data: Path) -> None:
    """This happens at the first import, and whenever Kafka has written its recovery checkpoint
    again."""
    (kafka_data / "orders-0" / "some.derived").write_bytes(b"outdated")
    with serving(kafka_data):
        assert list(kafka_data.glob("*/*.derived")) == []
    (kafka_data / "orders-0" / "some.derived").write_bytes(b"outdated")
    with serving(kafka_data):
        assert len(list(kafka_data.glob("*/*.derived"))) == 1
    (kafka_data / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    with serving(kafka_data):
        assert list(kafka_data.glob("*/*.derived")) == []


def test_folder_of_an_unknown_topic_is_renamed_when_the_topic_is_created(kafka_data: Path) -> None:
    (kafka_data / "unknown-0").mkdir()
    (kafka_data / "unknown-0" / f"{0:020}.log").write_bytes(b"unknown")
    with serving(kafka_data) as address:
        topic = {"name": "unknown", "num_partitions": 1, "replication_factor": 1}
        created = call(address, "CreateTopics", 7, {"topics": [topic], "timeout": 9000})
        assert created["topics"][0]["error_code"] == "none"
    (stray,) = kafka_data.glob("unknown-0.*-stray")
    assert (stray / f"{0:020}.log").read_bytes() == b"unknown"


def test_folders_and_files_without_segments_are_not_partitions(tmp_path: Path) -> None:
    (tmp_path / "logs-2024011501").mkdir()
    (tmp_path / "logs-2024011501" / "app.log").write_bytes(b"a line")
    (tmp_path / "dump-0").write_bytes(b"a file")
    with serving(tmp_path, SystemClock()) as address:
        assert not call(address, "Metadata", 12, {"topics": None})["topics"]
    assert (tmp_path / "dump-0").exists()


def test_a_partition_of_a_former_topic_is_renamed_and_starts_empty(kafka_data: Path) -> None:
    shutil.copy(kafka_data / "prices-0" / "partition.metadata", kafka_data / "orders-2")
    stored = (kafka_data / "orders-2" / f"{0:020}.log").read_bytes()
    for _ in range(2):
        with serving(kafka_data) as address:
            assert end_offsets(address) == [0, 0]
    (stray,) = kafka_data.glob("orders-2.*-stray")
    assert (stray / f"{0:020}.log").read_bytes() == stored


def test_without_metadata_partitions_with_different_topic_ids_are_rejected(
    kafka_data: Path,
) -> None:
    shutil.rmtree(kafka_data / "__cluster_metadata-0")
    shutil.copy(kafka_data / "prices-0" / "partition.metadata", kafka_data / "orders-1")
    expected = r"different topics: move those of the deleted topic elsewhere \(.*orders-1 to "
    with pytest.raises(Exception, match=expected), serving(kafka_data):
        pass
