"""Disks that fill up, fail, tear and forget: what clients are told, what is there afterwards."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kohort.protocol.errors import ApiError
from kohort.testing import Kafka, UnusedFault

pytestmark = pytest.mark.clients

NewCommitter = Callable[..., Any]
"""Committer of conftest.py"""
GROUPS = "__consumer_offsets"


def answers(kafka: Kafka) -> list[str]:
    return [error for each in kafka.history.requests_of("OffsetCommit") for error in each.errors]


# --- the mistakes that others make


@pytest.mark.parametrize("durability", ["none", "os", "fsync"])
def test_mistake_1_a_commit_that_could_not_be_written_is_not_answered_as_if_it_were(
    durability: Any, committer_of: NewCommitter
) -> None:
    with Kafka(durability=durability) as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        fault = kafka.disk.fail("append", error="ENOSPC", topic=GROUPS)
        committer.commit(2)  # the client tries again, as it would with Kafka
        assert fault.met == 1
        assert "NOT_COORDINATOR" in answers(kafka)
        kafka.crash()
        assert committer.committed() == 2
        assert [each.offset for each in kafka.group("billing").commits] == [1, 2]


def test_mistake_1_a_commit_that_could_not_be_synced_is_not_answered_as_if_it_were(
    committer_of: NewCommitter,
) -> None:
    with Kafka(durability="fsync") as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        kafka.disk.fail("sync", topic=GROUPS)
        committer.commit(2)
        assert "NOT_COORDINATOR" in answers(kafka)
        kafka.crash(power=True)
        assert committer.committed() == 2


@pytest.mark.parametrize("written", [1, 70, None])
def test_mistake_2_what_is_committed_behind_a_torn_tail_is_there_after_the_next_crash(
    written: int | None, committer_of: NewCommitter
) -> None:
    with Kafka(durability="fsync") as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        kafka.disk.tear(written=written, topic=GROUPS)
        with ThreadPoolExecutor(1) as pool:
            torn = pool.submit(committer.commit, 2)
            kafka.wait(lambda: "NOT_COORDINATOR" in answers(kafka))
            kafka.crash()
            torn.result(10)
        for offset in (3, 4):
            committer.commit(offset)
            kafka.crash(power=True)
            assert committer.committed() == offset


def test_mistake_3_what_was_renamed_stays_so_when_the_power_goes() -> None:
    """Method: a deleted topic is renamed before the client is told; it must not come back."""
    with Kafka(durability="fsync") as kafka:
        kafka.topic("orders", partitions=1).produce(["a"])
        kafka.topic("billing", partitions=1)
        kafka.topic("orders").delete()
        kafka.disk.power_cut()
        topics = kafka.ask(lambda broker: [each.name for each in broker.node.topics])
        assert "billing" in topics
        assert "orders" not in topics
        assert kafka.topic("orders", partitions=3).records() == []


def test_mistake_3_each_rename_is_followed_by_a_sync_of_its_folder() -> None:
    with Kafka(durability="fsync") as kafka:
        kafka.topic("orders", partitions=2).produce(["a"])
        kafka.topic("orders").delete()
        kafka.run(kafka.settled())
        did = [operation for operation, _ in kafka.disk.operations]
        assert "rename" in did
        last = len(did) - did[::-1].index("rename")
        assert "sync_folder" in did[last:]


# --- what else a disk does


def test_a_full_disk_refuses_producers_and_commits_until_there_is_room(
    committer_of: NewCommitter,
) -> None:
    with Kafka(durability="os") as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        full = kafka.disk.fill()
        with ThreadPoolExecutor(1) as pool:
            commit = pool.submit(committer.commit, 2)
            kafka.wait(lambda: "NOT_COORDINATOR" in answers(kafka))
            assert kafka.group("billing").commits[-1].offset == 1
            assert full.met
            kafka.disk.heal()
            commit.result(15)
        assert committer.committed() == 2


def test_a_producer_is_told_that_the_disk_is_full(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.disk.fill(topic="orders")
    told: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "retries": 0, "linger.ms": 0, "log_level": 0}
    )
    producer.produce("orders", b"a", on_delivery=lambda error, _: told.append(error))
    producer.flush(10)
    assert told[0] is not None
    assert told[0].name() == "KAFKA_STORAGE_ERROR"
    kafka.disk.heal()
    assert kafka.topic("orders").records() == []


def test_partitions_that_are_lost_are_empty_after_the_next_start(
    kafka: Kafka, committer: Any
) -> None:
    kafka.topic("orders").produce(["a"], partition=1)
    committer.commit(1)
    with pytest.raises(LookupError, match="there is nothing of order on the disk"):
        kafka.disk.lose("order")
    kafka.disk.lose(GROUPS)
    kafka.crash()
    assert kafka.group("billing").committed("orders", 0) is None
    assert [each.value for each in kafka.topic("orders").records()] == [b"a"]


@pytest.mark.parametrize("durability", ["none", "fsync"])
def test_a_topic_that_is_deleted_leaves_nothing_in_memory(durability: Any) -> None:
    with Kafka(durability=durability) as kafka:
        kept = []
        for _ in range(3):
            kafka.topic("orders", partitions=3).produce([b"x" * 10_000] * 30)
            kafka.topic("orders").delete()
            contents = kafka.ask(lambda _broker: kafka.disk.files.platter.contents)
            kept.append(len(contents))
            assert sum(map(len, contents)) < 10_000
        assert kept[2] == kept[1]


# --- faults that must be met


def test_a_fault_outlives_the_power(kafka: Kafka) -> None:
    fault = kafka.disk.fail("append", topic="orders")
    kafka.disk.power_cut()
    with pytest.raises(ApiError, match="Input/output error"):
        kafka.topic("orders", partitions=1).produce(["a"])
    assert fault.met == 1


def test_a_fault_tells_what_the_disk_did_since_however_much_that_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kohort.testing.faulty_files.CALLS_MAX", 5)
    with Kafka() as kafka:
        kafka.topic("orders", partitions=1).produce(["a"] * 10)
        fault = kafka.disk.fail("remove")
        kafka.topic("orders").produce(["a"])
        assert "since it was set: 1 × append orders-0/00000000000000000000.log" in fault.tell()
        kafka.topic("orders").produce(["a"] * 10)
        assert "since it was set: 5 × append orders-0/00000000000000000000.log" in fault.tell()
        assert kafka.disk.operations == [("append", "orders-0/00000000000000000000.log")] * 5
        fault.cancel()


def test_a_fault_of_the_disk_that_is_never_met_fails_the_test(kafka: Kafka) -> None:
    kafka.disk.fail("remove", topic="orders", partition=1)
    kafka.disk.fail("append", topic="orders")
    kafka.topic("orders", partitions=1)
    with pytest.raises(ApiError, match="Input/output error"):
        kafka.topic("orders").produce(["a"])
    kafka.disk.heal()
    with pytest.raises(UnusedFault) as raised:
        kafka.faults.check()
    told = str(raised.value)
    assert "the disk: remove of orders-1 fails with EIO: Input/output error, met 0\n" in told
    assert "1 × create orders-0/00000000000000000000.log" in told
    assert "append of orders" not in told


def test_a_fault_of_the_disk_that_is_cancelled_does_nothing(kafka: Kafka) -> None:
    kafka.disk.fill().cancel()
    kafka.disk.tear().cancel()
    kafka.topic("orders", partitions=1).produce(["a"])


def test_a_word_that_no_disk_knows_is_told_at_once(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="a disk knows no apend: did you mean append"):
        kafka.disk.fail("apend")
    with pytest.raises(ValueError, match="errno has no ENOSPACE: did you mean ENOSPC"):
        kafka.disk.fail("append", error="ENOSPACE")
    with pytest.raises(ValueError, match="times counts from 1"):
        kafka.disk.fail("append", times=0)
    with pytest.raises(ValueError, match="with durability none nothing is synced"):
        kafka.disk.fail("sync")


def test_a_broker_that_cannot_start_on_its_disk_says_so_and_starts_when_it_is_healed() -> None:
    with Kafka(durability="fsync") as kafka:
        kafka.topic("orders", partitions=1).produce(["a"])
        kafka.disk.fail("open", times=None)
        with pytest.raises(OSError, match="Input/output error"):
            kafka.crash()
        kafka.disk.heal()
        kafka.restart()
        assert len(kafka.topic("orders").records()) == 1
