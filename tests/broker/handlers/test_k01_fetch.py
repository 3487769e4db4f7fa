"""Fetch: whole batches, limits, long polls, errors."""

import gc

import pytest
from kio.schema.errors import ErrorCode
from kohort.broker.fetch_sessions import CachedPartition
from kohort.broker.handlers.k01_fetch import JOINED_BYTES_MAX
from kohort.log.batch import BatchBuilder, BatchProducer
from kohort.log.producer_state import ABORT, EndMarker, encode_marker
from kohort.log.segment import SLICE_BYTES_MIN
from kohort.protocol.budgets import FIRST_STEPS_MAX
from kohort.topics.names import OFFSETS_TOPIC
from support.broker import BrokerHarness, batch
from support.log import NewRecord, build


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders", 2)
    return broker


SIZE = len(batch(b"x"))
TRANSACTIONAL = 0x10


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch_in_every_version(broker: BrokerHarness, version: int) -> None:
    broker.produce("orders", batch(b"x"))
    got = broker.fetch(broker.topic().id if version >= 13 else "orders", version=version)
    assert (got.error_code, got.high_watermark, got.last_stable_offset) == (0, 1, 1)
    assert len(got.records) == SIZE


@pytest.mark.parametrize("version", range(4, 19))
def test_large_records_are_sent_without_copying(broker: BrokerHarness, version: int) -> None:
    sent = [batch(bytes([number]) * JOINED_BYTES_MAX) for number in range(2)]
    for number in range(2):
        broker.produce("orders", sent[number], number)
    topic = broker.topic()
    asked = broker.send_fetch(
        topic.id if version >= 13 else "orders", {1: 0, 0: 0}, version=version
    )
    got = asked.response.responses[0].partitions
    assert [each.records[61:] for each in got] == [sent[1][61:], sent[0][61:]]
    assert asked.context is not None
    assert [len(piece) for piece in asked.context.response if len(piece) > JOINED_BYTES_MAX] == [
        len(sent[1]),
        len(sent[0]),
    ]


def test_records_begin_with_the_batch_that_contains_the_offset(broker: BrokerHarness) -> None:
    broker.produce("orders", batch(b"a", b"b"))
    broker.produce("orders", batch(b"c"))
    assert len(broker.fetch("orders", 1).records) == len(batch(b"a", b"b")) + SIZE
    assert len(broker.fetch("orders", 2).records) == SIZE
    assert broker.fetch("orders", 3).records == b""


@pytest.mark.parametrize("offset", [-1, 2, 100])
def test_offsets_out_of_range_are_rejected(broker: BrokerHarness, offset: int) -> None:
    broker.produce("orders", batch(b"x"))
    got = broker.fetch("orders", offset)
    assert got.error_code is ErrorCode.offset_out_of_range
    assert (got.high_watermark, got.log_start_offset, got.records) == (-1, -1, b"")


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(-2, ErrorCode.none), (-1, ErrorCode.none), (0, ErrorCode.none), (1, 75)],
)
def test_a_wrong_leader_epoch_is_rejected(broker: BrokerHarness, epoch: int, error: int) -> None:
    assert broker.fetch("orders", current_leader_epoch=epoch).error_code == error


def test_the_first_batch_is_returned_whole_whatever_the_limits(broker: BrokerHarness) -> None:
    broker.produce("orders", batch(b"x"))
    broker.produce("orders", batch(b"x"), 1)
    for limits in ({"max_bytes": 1}, {"max_bytes": 0}, {"partition_max_bytes": 0}):
        asked = broker.send_fetch("orders", {1: 0, 0: 0}, **limits)
        first, second = asked.response.responses[0].partitions
        assert (len(first.records), len(second.records)) == (SIZE, 0)
        assert second.high_watermark == 1


def test_limits_apply_to_whole_batches(broker: BrokerHarness) -> None:
    for _ in range(4):
        broker.produce("orders", batch(b"x"))
    assert len(broker.fetch("orders", partition_max_bytes=3 * SIZE - 1).records) == 2 * SIZE
    assert len(broker.fetch("orders", max_bytes=3 * SIZE).records) == 3 * SIZE


def test_fetch_max_bytes_limits_every_response() -> None:
    broker = BrokerHarness({"fetch.max.bytes": "1024"})
    broker.create_topic("orders")
    for _ in range(4):
        broker.produce("orders", batch(b"x" * 400))
    assert len(broker.fetch("orders").records) == 2 * len(batch(b"x" * 400))


@pytest.mark.parametrize(("max_bytes", "expected"), [(SIZE, ()), (SIZE + 1, None)])
def test_aborted_transactions_are_null_if_only_a_part_of_the_first_batch_fits(
    broker: BrokerHarness, max_bytes: int, expected: tuple[()] | None
) -> None:
    broker.produce("orders", batch(b"x"))
    broker.produce("orders", batch(b"x"), 1)
    asked = broker.send_fetch("orders", {1: 0, 0: 0}, isolation_level=1, max_bytes=max_bytes)
    first, second = asked.response.responses[0].partitions
    assert (first.aborted_transactions, second.aborted_transactions) == ((), expected)


@pytest.mark.parametrize("value_bytes", [1_000, SLICE_BYTES_MIN])
def test_only_aborted_transactions_of_the_returned_records_are_listed(
    broker: BrokerHarness, value_bytes: int
) -> None:
    """There are three aborted transactions. The list is null if the records do not fit."""
    log = broker.log()
    for producer in range(3):
        records = [NewRecord(b"k", bytes(value_bytes), broker.now_ms)]
        producing = {"producer_id": producer, "producer_epoch": 0, "base_offset": log.end_offset}
        log.append(build(records, attributes=TRANSACTIONAL, **producing))
        marker = BatchBuilder(BatchProducer(producer, 0, is_control=True))
        marker.add(*encode_marker(EndMarker(ABORT, 0)), broker.now_ms)
        log.append_built(marker)
    broker.produce("orders", batch(b"x"), 1)

    def aborted(offsets: dict[int, int], **limits: int) -> list[int] | None:
        got = broker.send_fetch("orders", offsets, isolation_level=1, **limits)
        *_, partition = got.response.responses[0].partitions
        found = partition.aborted_transactions
        return None if found is None else [each.producer_id for each in found]

    assert aborted({0: 0}, partition_max_bytes=1) == [0]
    assert aborted({0: 2}, partition_max_bytes=1) == [1]
    assert aborted({0: 0}, partition_max_bytes=2**31 - 1) == [0, 1, 2]
    assert aborted({1: 0, 0: 0}, partition_max_bytes=200) is None


def test_a_long_poll_responds_as_soon_as_records_arrive(broker: BrokerHarness) -> None:
    asked = broker.send_fetch("orders", {0: 0, 1: 0})
    assert asked.is_muted
    assert not asked.is_done
    broker.send_produce("orders", {1: batch(b"news")})
    got = asked.response.responses[0].partitions
    assert [len(each.records) for each in got] == [0, len(batch(b"news"))]
    assert broker.timers.pending == []


def test_a_long_poll_waits_for_min_bytes_over_all_its_partitions(broker: BrokerHarness) -> None:
    asked = broker.send_fetch("orders", {0: 0, 1: 0}, min_bytes=3 * SIZE)
    broker.produce("orders", batch(b"x"))
    broker.produce("orders", batch(b"x"), 1)
    assert not asked.is_done
    broker.produce("orders", batch(b"x"), 1)
    assert sum(len(each.records) for each in asked.response.responses[0].partitions) == 3 * SIZE


@pytest.mark.interpreted
def test_a_waiting_fetch_that_raises_does_not_fail_the_produce_that_woke_it(
    broker: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = broker.send_fetch("orders", {0: 0})
    monkeypatch.setattr("kohort.broker.handlers.k01_fetch._Fetch._look_up", lambda _self: 1 / 0)
    assert broker.produce("orders", batch(b"x")).error_code is ErrorCode.none
    assert asked.close_reason == "a request failed"


def test_bytes_that_do_not_fit_into_the_response_do_not_count(broker: BrokerHarness) -> None:
    asked = broker.send_fetch("orders", {0: 0, 1: 0}, min_bytes=2 * SIZE, partition_max_bytes=SIZE)
    for _ in range(5):
        broker.produce("orders", batch(b"x"))
    assert not asked.is_done
    broker.produce("orders", batch(b"x"), 1)
    assert asked.is_done


def test_bytes_cut_off_by_a_limit_count_as_available(broker: BrokerHarness) -> None:
    """Only whole batches are sent. If they have fewer bytes than min_bytes, but more are available,
    the poll does not wait (Kafka sends a part of the next batch)."""
    for _ in range(3):
        broker.produce("orders", batch(b"x"))
    limit = 2 * SIZE + 5
    asked = broker.send_fetch("orders", {0: 0}, min_bytes=limit, partition_max_bytes=limit)
    assert len(asked.response.responses[0].partitions[0].records) == 2 * SIZE
    # The last two batches have fewer bytes than the limit.
    asked = broker.send_fetch("orders", {0: 1}, min_bytes=limit, partition_max_bytes=limit)
    assert not asked.is_done


def test_errors_of_unknown_partitions_wait_for_the_others(broker: BrokerHarness) -> None:
    asked = broker.send_fetch("orders", {0: 0, 9: 0})
    assert not asked.is_done
    broker.send_produce("orders", {0: batch(b"news")})
    known, unknown = asked.response.responses[0].partitions
    assert len(known.records) == len(batch(b"news"))
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition


def test_a_long_poll_ends_if_one_of_its_partitions_is_deleted(broker: BrokerHarness) -> None:
    broker.create_topic("gone")
    part = {"current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": 1000}
    fetch_topics = tuple(
        {"topic": name, "partitions": ({"partition": 0, **part},)}
        for name in ("gone", "orders", "nobody")
    )
    asked = broker.send(
        "Fetch",
        11,
        replica_id=-1,
        max_wait=500,
        min_bytes=1,
        session_id=0,
        session_epoch=-1,
        topics=fetch_topics,
        forgotten_topics_data=(),
    )
    assert not asked.is_done
    topic = broker.topic("gone")
    broker.topics.delete(topic)
    result = [(each.topic, each.partitions[0].error_code) for each in asked.response.responses]
    assert result == [("gone", 3), ("orders", 0), ("nobody", 3)]


def test_a_produce_to_several_partitions_becomes_visible_at_once(broker: BrokerHarness) -> None:
    asked = broker.send_fetch("orders", {0: 0, 1: 0})
    broker.send_produce("orders", {0: batch(b"x"), 1: batch(b"x")})
    assert [len(each.records) for each in asked.response.responses[0].partitions] == [SIZE, SIZE]


def test_a_long_poll_responds_at_its_deadline_with_what_there_is(broker: BrokerHarness) -> None:
    broker.produce("orders", batch(b"x"))
    asked = broker.send_fetch("orders", {0: 0}, min_bytes=1000, max_wait_ms=500)
    broker.advance(499)
    assert not asked.is_done
    broker.advance(1)
    assert len(asked.response.responses[0].partitions[0].records) == SIZE


def test_an_error_ends_a_long_poll_at_once(broker: BrokerHarness) -> None:
    asked = broker.send_fetch("orders", {0: 0, 1: 55}, min_bytes=1000)
    assert asked.response.responses[0].partitions[1].error_code is ErrorCode.offset_out_of_range


def test_deleting_a_topic_ends_its_long_polls(broker: BrokerHarness) -> None:
    asked = broker.send_fetch("orders", {0: 0})
    broker.topics.delete(broker.topic())
    got = asked.response.responses[0].partitions[0]
    assert got.error_code is ErrorCode.unknown_topic_or_partition


def test_a_disconnected_client_leaves_no_long_poll_behind(broker: BrokerHarness) -> None:
    broker.send_fetch("orders", {0: 0})
    partition = broker.topic().partitions[0]
    assert len(partition.delayed_fetches.waiting) == 1
    broker.last_context.disconnected()
    assert len(partition.delayed_fetches.waiting) == 0
    assert broker.timers.pending == []


def test_a_long_fetch_whose_deadline_passes_between_slices_responds_once(
    broker: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.broker.handlers.k01_fetch.PARTITIONS_PER_STEP", 1)
    count = FIRST_STEPS_MAX + 1
    broker.create_topic("wide", count)
    topic = {"topic": "wide", "partitions": [{"partition": n} for n in range(count)]}
    pending = broker.send("Fetch", 11, max_wait=500, min_bytes=1, session_epoch=0, topics=[topic])
    broker.run_loop()
    assert not pending.is_done
    broker.send_produce("wide", {0: batch(b"x")})
    while broker.node.cluster.scheduler.is_idle:
        broker.callbacks.pop(0)()
    broker.advance(500)
    broker.run_loop()
    assert pending.is_done
    assert len(broker.node.fetch_sessions) == 1


def test_a_long_fetch_whose_client_disconnects_between_slices_does_not_wait(
    broker: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing would cancel the wait, and the partitions of the fetch would still count towards
    PARKED_PARTITIONS_MAX. The request is completed, because it may count as a long request."""
    monkeypatch.setattr("kohort.broker.handlers.k01_fetch.PARTITIONS_PER_STEP", 1)
    count = FIRST_STEPS_MAX + 1
    broker.create_topic("wide", count)
    topic = {"topic": "wide", "partitions": [{"partition": n} for n in range(count)]}
    pending = broker.send("Fetch", 11, max_wait=60_000, min_bytes=1, topics=[topic])
    assert pending.is_muted
    pending.is_disconnected = True
    broker.last_context.disconnected()
    broker.run_loop()
    assert pending.is_done
    assert broker.node.cluster.parked_partitions == 0
    assert broker.timers.pending == []


@pytest.mark.parametrize("ends", ["deadline", "disconnected"])
def test_a_long_poll_needs_no_garbage_collection(broker: BrokerHarness, ends: str) -> None:
    """Reference cycles of thousands of partitions would be freed late, by a long collection."""
    gc.collect()
    gc.disable()
    try:
        before = fetched_partitions()
        asked = broker.send_fetch("orders", {0: 0, 1: 0}, max_wait_ms=500)
        assert fetched_partitions() == before + 2
        if ends == "deadline":
            broker.advance(500)
            assert asked.is_done
            asked.context = None
        else:
            broker.last_context.disconnected()
        del broker.last_context
        assert fetched_partitions() == before
    finally:
        gc.enable()


def fetched_partitions() -> int:
    return sum(isinstance(each, CachedPartition) for each in gc.get_objects())


def test_records_of_the_offsets_topic_are_readable_once_durable(broker: BrokerHarness) -> None:
    partition = broker.topics.ensure_coordinator_topic(OFFSETS_TOPIC).partitions[3]
    broker.group_commit.append(partition.log, [(b"key", b"value")], broker.now_ms)
    asked = broker.send_fetch("__consumer_offsets", {3: 0})
    partition.log.append(batch(b"not synced"))
    partition.delayed_fetches.complete_all()
    assert not asked.is_done
    partition.log.sync()
    partition.delayed_fetches.complete_all()
    assert asked.is_done


def test_a_fetch_does_not_wait_if_too_many_partitions_are_waited_for(
    broker: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetches wait again once others have received their responses."""
    monkeypatch.setattr("kohort.broker.handlers.k01_fetch.PARKED_PARTITIONS_MAX", 3)
    broker.create_topic("wide", 3)
    waiting = broker.send_fetch("wide", {0: 0, 1: 0})
    assert not waiting.is_done
    assert broker.send_fetch("wide", {0: 0, 1: 0}).is_done
    single = broker.send_fetch("wide", {2: 0})
    assert not single.is_done
    broker.produce("wide", batch(b"x"))
    assert waiting.is_done
    assert not broker.send_fetch("wide", {1: 0, 2: 0}).is_done
