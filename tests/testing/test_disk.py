"""Disks that are full, fail, tear writes or lose data: the responses, and the state afterwards."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kohort.protocol.errors import ApiError
from kohort.testing import BarrierTimeout, Kafka, UnusedFault

from .conftest import Committer, NewCommitter

pytestmark = pytest.mark.clients

GROUPS = "__consumer_offsets"


def errors(kafka: Kafka) -> list[str]:
    return [error for each in kafka.history.requests_of("OffsetCommit") for error in each.errors]


# --- failing writes and syncs


@pytest.mark.parametrize("durability", ["none", "os", "fsync"])
def test_a_commit_whose_write_fails_gets_an_error(
    durability: Any, committer_of: NewCommitter
) -> None:
    with Kafka(durability=durability) as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        fault = kafka.disk.fail("append", error="ENOSPC", topic=GROUPS)
        committer.commit(2)  # the client retries
        assert fault.fired == 1
        assert "NOT_COORDINATOR" in errors(kafka)
        kafka.crash()
        assert committer.committed() == 2
        assert [each.offset for each in kafka.group("billing").commits] == [1, 2]


def test_a_commit_whose_sync_fails_gets_an_error(committer_of: NewCommitter) -> None:
    with Kafka(durability="fsync") as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        kafka.disk.fail("sync", topic=GROUPS)
        committer.commit(2)
        assert "NOT_COORDINATOR" in errors(kafka)
        kafka.crash(power=True)
        assert committer.committed() == 2


@pytest.mark.parametrize("written", [1, 70, None])
def test_commits_after_a_torn_tail_survive_the_next_crash(
    written: int | None, committer_of: NewCommitter
) -> None:
    with Kafka(durability="fsync") as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        kafka.disk.tear(written=written, topic=GROUPS)
        with ThreadPoolExecutor(1) as pool:
            torn = pool.submit(committer.commit, 2)
            kafka.wait(lambda: "NOT_COORDINATOR" in errors(kafka))
            kafka.crash()
            torn.result(10)
        for offset in (3, 4):
            committer.commit(offset)
            kafka.crash(power=True)
            assert committer.committed() == offset


def test_the_harness_syncs_records_because_of_flush_messages_as_a_produce_does() -> None:
    with Kafka(durability="fsync") as kafka:
        orders = kafka.topic("orders", partitions=1, config={"flush.messages": "1"})
        orders.produce(["a"])
        kafka.crash(power=True)
        assert [each.value for each in orders.records()] == [b"a"]
        kafka.disk.fail("sync", topic="orders")
        with pytest.raises(ApiError):
            orders.produce(["b"])


# --- full disks and lost folders


def test_a_full_disk_rejects_records_and_commits_until_it_has_space(
    committer_of: NewCommitter,
) -> None:
    with Kafka(durability="os") as kafka:
        committer = committer_of(kafka)
        committer.commit(1)
        full = kafka.disk.fill()
        with ThreadPoolExecutor(1) as pool:
            commit = pool.submit(committer.commit, 2)
            kafka.wait(lambda: "NOT_COORDINATOR" in errors(kafka))
            assert kafka.group("billing").commits[-1].offset == 1
            assert full.fired
            kafka.disk.heal()
            commit.result(15)
        assert committer.committed() == 2


def test_produce_raises_if_the_disk_is_full(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.disk.fill(topic="orders")
    delivered: list[KafkaError | None] = []
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "retries": 0, "linger.ms": 0, "log_level": 0}
    )
    producer.produce("orders", b"a", on_delivery=lambda error, _: delivered.append(error))
    producer.flush(10)
    assert delivered[0] is not None
    assert delivered[0].name() == "KAFKA_STORAGE_ERROR"
    kafka.disk.heal()
    assert kafka.topic("orders").records() == []


def test_lost_partitions_are_empty_after_a_restart(kafka: Kafka, committer: Committer) -> None:
    kafka.topic("orders").produce(["a"], partition=1)
    committer.commit(1)
    with pytest.raises(LookupError, match="The disk has no folder of order"):
        kafka.disk.lose("order")
    kafka.disk.tear()
    with pytest.raises(ApiError):
        kafka.topic("orders").produce(["b"], partition=1)
    kafka.disk.lose(GROUPS)
    kafka.crash()
    assert kafka.group("billing").committed("orders", 0) is None
    assert [each.value for each in kafka.topic("orders").records()] == [b"a"]


@pytest.mark.parametrize("durability", ["none", "fsync"])
def test_a_deleted_topic_leaves_nothing_in_memory(durability: Any) -> None:
    with Kafka(durability=durability) as kafka:
        kept = []
        for _ in range(3):
            kafka.topic("orders", partitions=3).produce([b"x" * 10_000] * 30)
            kafka.topic("orders").delete()
            contents = kafka.call(lambda _broker: kafka.disk.files.image.buffers)
            kept.append(len(contents))
            assert sum(map(len, contents)) < 10_000
        assert kept[2] == kept[1]


# --- faults must fire


def test_a_sync_may_be_slow_and_fail() -> None:
    with Kafka(durability="fsync") as kafka:
        kafka.topic("orders", partitions=1)
        member = kafka.fake_member("billing", ["orders"])
        slow, failing = kafka.disk.slow_sync(ms=1), kafka.disk.fail("sync")
        assert member.commit("orders", 0, 1) is not None
        assert slow.fired >= failing.fired == 1


def test_a_disk_fault_survives_a_power_cut(kafka: Kafka) -> None:
    fault = kafka.disk.fail("append", topic="orders")
    kafka.disk.power_cut()
    with pytest.raises(ApiError, match="Input/output error"):
        kafka.topic("orders", partitions=1).produce(["a"])
    assert fault.fired == 1


def test_a_disk_fault_reports_the_calls_since_it_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.testing.faults.files.CALLS_MAX", 5)
    with Kafka() as kafka:
        kafka.topic("orders", partitions=1).produce(["a"] * 10)
        fault = kafka.disk.fail("remove")
        kafka.topic("orders").produce(["a"])
        assert "since it was set: 1 × append orders-0/00000000000000000000.log" in kafka.call(
            lambda _broker: fault.report()
        )
        kafka.topic("orders").produce(["a"] * 10)
        assert "since it was set: 5 × append orders-0/00000000000000000000.log" in kafka.call(
            lambda _broker: fault.report()
        )
        assert kafka.disk.operations == [("append", "orders-0/00000000000000000000.log")] * 5
        fault.cancel()


def test_an_unused_disk_fault_fails_the_test(kafka: Kafka) -> None:
    remove = kafka.disk.fail("remove", topic="orders", partition=1)
    kafka.disk.fail("append", topic="orders")
    kafka.topic("orders", partitions=1)
    with pytest.raises(ApiError, match="Input/output error"):
        kafka.topic("orders").produce(["a"])
    kafka.disk.heal()
    with pytest.raises(UnusedFault) as raised:
        kafka.faults.check()
    with pytest.raises(BarrierTimeout, match="for a disk fault to fire once\n"):
        remove.wait(timeout=0.01)
    message = str(raised.value)
    assert "disk: remove of orders-1 fails with EIO: Input/output error, fired 0\n" in message
    assert "1 × create orders-0/00000000000000000000.log" in message
    assert "append of orders" not in message


def test_a_cancelled_disk_fault_does_nothing(kafka: Kafka) -> None:
    kafka.disk.fill().cancel()
    kafka.disk.tear().cancel()
    kafka.topic("orders", partitions=1).produce(["a"])


def test_unknown_operations_and_errors_are_rejected(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="Unknown operation 'apend': did you mean append"):
        kafka.disk.fail("apend")
    with pytest.raises(ValueError, match="errno has no 'ENOSPACE': did you mean ENOSPC"):
        kafka.disk.fail("append", error="ENOSPACE")
    with pytest.raises(ValueError, match="times must be at least 1, not 0"):
        kafka.disk.fail("append", times=0)
    for negative in ({"after": -1}, {"written": -1}):
        with pytest.raises(ValueError, match="after and written must not be negative"):
            kafka.disk.fail("append", **negative)
    with pytest.raises(ValueError, match="partition needs a topic"):
        kafka.disk.fill(partition=0)
    with pytest.raises(ValueError, match="With durability none, no record is synced"):
        kafka.disk.fail("sync")


def test_a_broker_that_cannot_start_can_be_restarted_after_heal() -> None:
    with Kafka(durability="fsync") as kafka:
        kafka.topic("orders", partitions=1).produce(["a"])
        kafka.disk.fail("open", times=None)
        with pytest.raises(OSError, match="Input/output error"):
            kafka.crash()
        cause = "not running, because it failed to start: OSError: .* Input/output error"
        with pytest.raises(RuntimeError, match=cause):
            kafka.topic("orders")
        kafka.disk.heal()
        kafka.restart()
        assert len(kafka.topic("orders").records()) == 1
