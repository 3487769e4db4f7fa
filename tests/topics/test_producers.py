"""Sequence numbers of idempotent producers, with the results of Kafka 4.3. The scenario
`idempotent_producers` has the usual errors: repeated batches, gaps and fenced epochs.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kohort.log.batch import TRANSACTIONAL, read_header, with_base_offset
from kohort.log.errors import InvalidProducerEpoch, InvalidTransaction, OutOfOrderSequence
from kohort.log.producer_state import COMMIT, UNDECIDED_MAX, ProducerStates
from support.broker import NOW_MS, BrokerHarness
from support.log import NewRecord, build, marker

DAY_MS = 86_400_000
SEQUENCE_MAX = 2**31 - 1


def sent(sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0) -> bytes:
    return build(
        [NewRecord(b"k", b"v", NOW_MS)] * count,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders")
    return broker


def offset(broker: BrokerHarness, data: bytes) -> int:
    response = broker.produce("orders", data)
    assert response.error_code is ErrorCode.none, response.error_message
    return int(response.base_offset)


def error(broker: BrokerHarness, data: bytes) -> ErrorCode:
    return ErrorCode(broker.produce("orders", data).error_code)


def test_the_last_five_batches_are_recognized_as_duplicates(broker: BrokerHarness) -> None:
    for sequence in range(8):
        offset(broker, sent(sequence))
    assert offset(broker, sent(3)) == 3
    assert error(broker, sent(2)) is ErrorCode.out_of_order_sequence_number


def test_an_unknown_producer_may_begin_with_any_sequence(broker: BrokerHarness) -> None:
    assert offset(broker, sent(10, 2, epoch=3)) == 0
    assert offset(broker, sent(12, 2, epoch=3)) == 2
    assert error(broker, sent(13, 3, epoch=3)) is ErrorCode.out_of_order_sequence_number
    assert error(broker, sent(12, 3, epoch=3)) is ErrorCode.out_of_order_sequence_number


@pytest.mark.parametrize(
    ("first", "count", "following"),
    [(SEQUENCE_MAX - 1, 2, 0), (SEQUENCE_MAX - 1, 3, 1), (SEQUENCE_MAX, 1, 0)],
)
def test_sequences_wrap_to_0(broker: BrokerHarness, first: int, count: int, following: int) -> None:
    offset(broker, sent(first, count))
    assert offset(broker, sent(first, count)) == 0
    assert error(broker, sent(following + 1)) is ErrorCode.out_of_order_sequence_number
    assert offset(broker, sent(following)) == count


def test_an_epoch_of_minus_1_disables_the_check_as_in_kafka(broker: BrokerHarness) -> None:
    assert offset(broker, sent(0, epoch=-1)) == 0
    assert offset(broker, sent(4, epoch=-1)) == 1


def test_a_restart_restores_the_producers_from_the_log(broker: BrokerHarness) -> None:
    for sequence in range(7):
        offset(broker, sent(sequence))
    again = broker.restart()
    assert offset(again, sent(6)) == 6
    assert error(again, sent(1)) is ErrorCode.out_of_order_sequence_number
    assert offset(again, sent(7)) == 7


def test_a_batch_that_could_not_be_written_may_be_sent_again(broker: BrokerHarness) -> None:
    offset(broker, sent(0))
    broker.files.fail("append")
    assert error(broker, sent(1)) is ErrorCode.kafka_storage_error
    assert offset(broker, sent(1)) == 1


def test_idle_producers_are_removed_when_new_ones_come() -> None:
    producers = ProducerStates()
    for number in range(100):
        producers.on_batch(read_header(sent(0, producer=number)), b"", NOW_MS + number)
    producers.on_batch(read_header(sent(1, producer=0)), b"", NOW_MS + 100)
    producers.remove_expired(NOW_MS + DAY_MS + 50, DAY_MS)
    assert len(producers) == 50
    producers.validate(read_header(sent(2, producer=0)), "orders-0")
    with pytest.raises(OutOfOrderSequence):
        producers.validate(read_header(sent(9, producer=0)), "orders-0")


def test_producers_that_were_loaded_together_expire_together() -> None:
    producers = ProducerStates()
    for number in range(3):
        producers.on_batch(read_header(sent(0, producer=number)), b"", 0)
    producers.remove_expired(NOW_MS, DAY_MS)
    assert len(producers) == 3
    producers.remove_expired(NOW_MS + DAY_MS, DAY_MS)
    assert len(producers) == 0


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    producers = ProducerStates()
    for number, attributes in enumerate((TRANSACTIONAL, 0)):
        header = read_header(sent(0, producer=number))._replace(attributes=attributes)
        producers.on_batch(header, b"", NOW_MS)
    later_ms = NOW_MS + 2 * DAY_MS
    assert [each for each, _ in producers.active(later_ms, DAY_MS)] == [0]
    assert len(list(producers.active(later_ms, 3 * DAY_MS))) == 2
    producers.remove_expired(later_ms, DAY_MS)
    assert len(producers) == 1


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6), st.integers(1, 3)), max_size=40))
def test_no_record_is_stored_twice_or_out_of_order(batches: list[tuple[int, int, int]]) -> None:
    """Whatever the producer sends, the stored sequence of an epoch has no gaps or duplicates."""
    producers = ProducerStates()
    stored: dict[int, list[int]] = {0: [], 1: []}
    for epoch, sequence, count in batches:
        header = read_header(sent(sequence, count, epoch=epoch))
        if producers.find_duplicate(header) is not None:
            continue
        try:
            producers.validate(header, "orders-0")
        except (InvalidProducerEpoch, OutOfOrderSequence):
            continue
        producers.on_batch(header, b"", NOW_MS)
        stored[epoch] += range(sequence, sequence + count)
    for sequences in filter(None, stored.values()):
        assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    if stored[0] and stored[1]:
        assert 0 in (stored[0][0], stored[1][0])


def transactional(sequence: int = 0, *, epoch: int = 0, offset: int = 0) -> bytes:
    batch = build(
        [NewRecord(b"k", b"v", NOW_MS)],
        attributes=TRANSACTIONAL,
        producer_id=7,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return with_base_offset(batch, offset, 0)


def append(producers: ProducerStates, batch: bytes) -> None:
    producers.on_batch(read_header(batch), batch, NOW_MS)


def test_a_verification_ends_with_the_transaction() -> None:
    producers, header = ProducerStates(), read_header(transactional())
    with pytest.raises(InvalidTransaction):
        producers.validate(header, "orders-0")
    late = producers.begin_verification(header, "orders-0", adds=False)
    producers.validate(header, "orders-0", late)
    append(producers, marker(COMMIT, 7))
    with pytest.raises(InvalidTransaction):
        producers.validate(header, "orders-0", late)
    current = producers.begin_verification(header, "orders-0", adds=False)
    with pytest.raises(InvalidTransaction):
        producers.validate(header, "orders-0", late)
    producers.validate(header, "orders-0", current)
    append(producers, transactional())
    producers.validate(read_header(transactional(1)), "orders-0")
    append(producers, marker(COMMIT, 7))
    with pytest.raises(InvalidTransaction):
        producers.validate(read_header(transactional(1)), "orders-0", current)


def test_a_fenced_producer_is_not_verified() -> None:
    producers = ProducerStates()
    append(producers, transactional(epoch=1))
    with pytest.raises(InvalidProducerEpoch):
        producers.begin_verification(read_header(transactional(epoch=0)), "orders-0", adds=True)
    producers.validate(read_header(transactional(1, epoch=1)), "orders-0")


def test_transactions_that_nobody_reads_take_bounded_memory() -> None:
    producers = ProducerStates()
    count = UNDECIDED_MAX + 10
    for number in range(count):
        append(producers, transactional(number, offset=2 * number))
        append(producers, marker(COMMIT, 7, base_offset=2 * number + 1))
    assert len(producers._undecided) == UNDECIDED_MAX
    assert producers.first_unstable_offset(0) == 0
    assert producers.first_unstable_offset(2 * count - 1) == 2 * count - 2
    assert producers.first_unstable_offset(2 * count) is None
