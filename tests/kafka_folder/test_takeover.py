"""A folder that a real Kafka wrote, served by us: what Kafka said of it is said here.

record.py made the folder and asked Kafka; everything in it is Kafka's own bytes.
"""

import base64
import contextlib
import logging
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_thread import BrokerThread
from confluent_kafka import Consumer, TopicPartition

from .asking import ask, ask_until_loaded, said_of_groups, said_to_strangers

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@contextlib.contextmanager
def serving(data: Path) -> Iterator[str]:
    with BrokerThread(SETTINGS, data_dir=data, durability="fsync") as broker:
        yield broker.bootstrap


def of_groups(said: dict[str, Any]) -> dict[str, Any]:
    """Comparable: in one order; groups of kinds that have no members here as without them."""
    listed = []
    for group in said["listed"]:
        is_classic = group["group_type"] == "classic"
        listed.append(group if is_classic else {**group, "group_state": "Empty"})
    for committed in (*said["committed"].values(), *said["stable"].values()):
        for topic in committed["topics"]:
            topic["partitions"].sort(key=lambda each: each["partition_index"])
    described = {
        name: {**group, "error_message": None} for name, group in said["described"].items()
    }
    return {**said, "listed": listed, "described": described}


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def test_every_group_is_what_kafka_said_it_is(data: Path, said: dict[str, Any]) -> None:
    """Transactions, every codec, classic and other groups, tombstones; and again after a restart,
    from a registry of our own."""
    kafkas = of_groups({key: said[key] for key in ("listed", "committed", "stable", "described")})
    for _ in range(2):
        with serving(data) as address:
            assert of_groups(said_of_groups(address, said["committed"])) == kafkas


def test_kafka_said_something_of_everything(said: dict[str, Any]) -> None:
    kinds = {group["group_type"] for group in said["listed"]}
    assert kinds == {"classic", "consumer", "share", "streams"}
    assert said["committed"]["txn-committed"] != said["committed"]["txn-aborted"]
    unstable = [name for name in said["stable"] if "unstable" in str(said["stable"][name])]
    assert unstable == ["txn-open-after-plain"]


@pytest.mark.parametrize("group", ["modern-left", "modern-pattern", "never"])
def test_a_group_of_another_kind_answers_as_kafkas_without_members(
    data: Path, said: dict[str, Any], group: str
) -> None:
    with serving(data) as address:
        assert said_to_strangers(address, group, "orders") == said["to strangers"][group]


@pytest.mark.parametrize("group", ["modern", "streams"])
def test_members_of_other_kinds_are_taken_for_gone(
    data: Path, said: dict[str, Any], group: str
) -> None:
    with serving(data) as address:
        found = said_to_strangers(address, group, "orders")
        assert found == said["to strangers"]["modern-left"]


def test_a_share_group_is_no_classic_one_and_can_be_deleted(
    data: Path, said: dict[str, Any]
) -> None:
    kafkas = dict(said["to strangers"]["share"])
    assert kafkas.popitem() == ("8 DeleteGroups", ["non_empty_group"])  # its member was there
    with serving(data) as address:
        found = said_to_strangers(address, "share", "orders")
        assert found.popitem() == ("8 DeleteGroups", ["none"])
        assert found == kafkas
    with serving(data) as address:
        listed = ask_until_loaded(address, "ListGroups", 5, {})["groups"]
        assert "share" not in {group["group_id"] for group in listed}


def test_an_open_transaction_holds_its_partition_back_until_it_is_forgotten(data: Path) -> None:
    def fetched(address: str, *, stable: bool) -> Any:
        topics = [{"name": "orders", "partition_indexes": [0, 1]}]
        group = {"group_id": "txn-open", "topics": topics, "member_epoch": -1}
        asked = {"groups": [group], "require_stable": stable}
        answer = ask_until_loaded(address, "OffsetFetch", 9, asked)
        partitions = answer["groups"][0]["topics"][0]["partitions"]
        return [(each["committed_offset"], each["error_code"]) for each in partitions]

    with serving(data) as address:
        assert fetched(address, stable=False) == [(-1, "none"), (-1, "none")]
        assert fetched(address, stable=True) == [(-1, "unstable_offset_commit"), (-1, "none")]
    with serving(data) as address:
        assert fetched(address, stable=True)[0] == (-1, "unstable_offset_commit")
        deleted = ask(address, "DeleteGroups", 2, {"groups_names": ["txn-open"]})
        assert deleted["results"][0]["error_code"] == "none"
    with serving(data) as address:
        assert fetched(address, stable=True) == [(-1, "none"), (-1, "none")]


def test_topics_keep_their_ids_partitions_and_configurations(data: Path) -> None:
    with serving(data) as address:
        topics = ask(address, "Metadata", 12, {"topics": None})["topics"]
        found = {topic["name"]: (topic["topic_id"], len(topic["partitions"])) for topic in topics}
        assert {name: count for name, (_, count) in found.items()} == {
            "__consumer_offsets": 4,
            "orders": 3,
            "prices": 1,
        }
        for name in found:
            assert found[name][0] == kafkas_id(data / f"{name}-0")
        assert configs_of(address, "orders") == {
            "max.message.bytes": "2000000",
            "segment.bytes": "1048576",
        }
        assert configs_of(address, "__consumer_offsets")["cleanup.policy"] == "compact"


def configs_of(address: str, topic: str) -> dict[str, str]:
    """A topic's own."""
    resource = {"resource_type": 2, "resource_name": topic, "configuration_keys": None}
    told = ask(address, "DescribeConfigs", 4, {"resources": [resource]})["results"][0]
    return {each["name"]: each["value"] for each in told["configs"] if each["config_source"] == 1}


def kafkas_id(folder: Path) -> str:
    text = (folder / "partition.metadata").read_text().split("topic_id: ")[1].strip()
    return str(uuid.UUID(bytes=base64.urlsafe_b64decode(text + "==")))


def test_leaders_are_newer_than_any_that_a_client_has_seen(data: Path) -> None:
    with serving(data) as address:
        topics = ask(address, "Metadata", 12, {"topics": None})["topics"]
    for topic in topics:
        for partition in topic["partitions"]:
            name = f"{topic['name']}-{partition['partition_index']}"
            seen = (data / name / "leader-epoch-checkpoint").read_text().split("\n")[2:-1]
            assert partition["leader_epoch"] > max(int(line.split()[0]) for line in seen)


def test_records_of_aborted_transactions_are_for_those_alone_who_read_all(data: Path) -> None:
    def values(address: str, isolation: str) -> set[str]:
        settings = {"group.id": "nobody", "isolation.level": isolation, "enable.auto.commit": False}
        alone = Consumer({"bootstrap.servers": address, "enable.partition.eof": True, **settings})
        alone.assign([TopicPartition("orders", 2, 0)])
        found: set[str] = set()
        while (message := alone.poll(30)) is not None and message.error() is None:
            found.add((message.value() or b"").decode())
        assert message is not None
        alone.close()
        return found

    with serving(data) as address:
        everything = values(address, "read_uncommitted")
        aborted = {"txn-aborted-3", "txn-aborted-after-plain-4"}
        assert {"txn-committed-2", *aborted} < everything
        assert values(address, "read_committed") == everything - aborted


def test_producer_ids_that_kafka_gave_away_are_not_given_again(data: Path) -> None:
    with serving(data) as address:
        asked = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
        given = ask(address, "InitProducerId", 4, {**asked, "transaction_timeout": 1000})
    assert given["producer_id"] >= 1000  # Kafka gives them by the thousand


def test_nothing_is_removed_but_what_would_mislead_kafka(data: Path) -> None:
    before = files_of(data)
    with serving(data) as address:
        said_of_groups(address, ["classic"])
    after = files_of(data)
    gone = {".kafka_cleanshutdown", "recovery-point-offset-checkpoint"}
    assert before.keys() - after.keys() == gone
    # The groups' coordinator goes on writing; everything else is as it was.
    changed = {name for name in after.keys() & before.keys() if after[name] != before[name]}
    assert all(name.startswith("__consumer_offsets-") for name in changed)
    assert all(after[name].startswith(before[name]) for name in changed)


def test_folders_of_partitions_alone_are_taken_over_without_configurations(
    data: Path, said: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(data / "__cluster_metadata-0")
    with caplog.at_level(logging.WARNING, logger="kohort"), serving(data) as address:
        assert (
            said_of_groups(address, ["plain"])["committed"]["plain"] == (said["committed"]["plain"])
        )
        topics = ask(address, "Metadata", 12, {"topics": None})["topics"]
        # Who does not know for how long they are to be kept removes nothing.
        assert configs_of(address, "orders") == {"retention.ms": "-1", "retention.bytes": "-1"}
        assert configs_of(address, "__consumer_offsets")["cleanup.policy"] == "compact"
    assert {"orders", "prices"} <= {topic["name"] for topic in topics}
    assert "Topic configurations are not imported" in caplog.text
    assert "__transaction_state is not imported" in caplog.text


def test_a_copy_of_a_running_kafka_has_a_torn_tail_and_full_indexes(
    data: Path, said: dict[str, Any]
) -> None:
    """Method: what a copy that was made while Kafka wrote looks like."""
    (data / ".kafka_cleanshutdown").unlink()
    for folder in data.glob("__consumer_offsets-*"):
        log = folder / f"{0:020}.log"
        log.write_bytes(log.read_bytes() + b"\0\0\0\0\0\0\0\x99\0\0\1\0torn")
        (folder / f"{0:020}.index").write_bytes(bytes(1 << 20))
    with serving(data) as address:
        found = said_of_groups(address, said["committed"])
        assert of_groups(found)["committed"] == of_groups(said)["committed"]


def test_what_we_knew_of_a_log_that_kafka_has_had_since_is_forgotten(data: Path) -> None:
    """At first, and each time that Kafka's checkpoint says that it has been here again."""
    (data / "orders-0" / "some.derived").write_bytes(b"older than a tombstone")
    with serving(data):
        assert list(data.glob("*/*.derived")) == []
    (data / "orders-0" / "some.derived").write_bytes(b"older than a tombstone")
    with serving(data):
        assert len(list(data.glob("*/*.derived"))) == 1
    (data / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    with serving(data):
        assert list(data.glob("*/*.derived")) == []


def test_a_folder_of_no_topic_is_set_aside_for_one_that_is_made(data: Path) -> None:
    (data / "strange-0").mkdir()
    (data / "strange-0" / f"{0:020}.log").write_bytes(b"not ours")
    with serving(data) as address:
        topic = {"name": "strange", "num_partitions": 1, "replication_factor": 1}
        made = ask(address, "CreateTopics", 7, {"topics": [topic], "timeout": 9000})
        assert made["topics"][0]["error_code"] == "none"
    (aside,) = data.glob("strange-0.*-stray")
    assert (aside / f"{0:020}.log").read_bytes() == b"not ours"


def test_partitions_of_two_topics_of_one_name_are_refused(data: Path) -> None:
    shutil.copy(data / "prices-0" / "partition.metadata", data / "orders-1")
    with pytest.raises(Exception, match="belong to several topics"), serving(data):
        pass
