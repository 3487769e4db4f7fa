"""What a test sees of transactions and makes them do, with librdkafka's transactional producers."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kohort.log.batch import BatchBuilder, BatchProducer
from kohort.testing import BarrierTimeout, Kafka, UnusedFault
from kohort.testing.loop_thread import LoopThread
from kohort.testing.timeline.drawing import draw
from kohort.testing.timeline.timeline import timeline

from .conftest import (
    TRANSACTION_TIMEOUT_MS,
    NewProducer,
    begin,
    client_settings,
    transactional_producer,
)

pytestmark = pytest.mark.clients


@pytest.fixture
def reader(kafka: Kafka) -> Iterator[Consumer]:
    """A consumer with read_committed that has fetched."""
    kafka.topic("orders", partitions=1)
    consumer = Consumer(
        client_settings(
            kafka,
            group_id="ledger",
            client_id="reader",
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_wait_max_ms=50,
        )
    )
    consumer.subscribe(["orders"])
    yield consumer
    consumer.close()


def poll_until_fetched(kafka: Kafka, consumer: Consumer) -> None:
    while not kafka.history.requests_of("Fetch", client_id="reader"):
        assert consumer.poll(0.05) is None


def test_a_transaction_is_open_and_then_committed(kafka: Kafka, new_producer: NewProducer) -> None:
    producer = new_producer()
    assert kafka.transactions.describe("billing-1").state == "Empty"
    begin(producer)
    found = kafka.transactions.wait("billing-1", "open")
    assert found.partitions == (("orders", 0),)
    assert found.timeout_ms == TRANSACTION_TIMEOUT_MS
    kafka.clock.advance(seconds=12)
    (found,) = kafka.transactions.all
    assert found.age_ms is not None
    assert 12_000 <= found.age_ms < TRANSACTION_TIMEOUT_MS
    producer.commit_transaction()
    found = kafka.transactions.wait("billing-1", "committed")
    assert (found.state, found.age_ms, found.partitions) == ("CompleteCommit", None, ())
    assert (found.producer_id, found.node_id) == (0, 1)


def test_an_aborted_transaction_is_not_committed(kafka: Kafka, new_producer: NewProducer) -> None:
    producer = new_producer()
    begin(producer)
    producer.abort_transaction()
    kafka.transactions.wait("billing-1", "aborted")
    with pytest.raises(BarrierTimeout, match="waiting for transaction billing-1 to be committed"):
        kafka.transactions.wait("billing-1", "committed", timeout=0.01)


def test_a_wait_does_not_miss_a_commit_that_the_next_transaction_follows(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    producer = new_producer()
    begin(producer)
    changes = kafka.history.transaction_changes
    kafka.faults.delay("EndTxn", ms=50)

    def commit_and_begin() -> None:
        producer.commit_transaction()
        begin(producer)

    thread = threading.Thread(target=commit_and_begin)
    thread.start()
    found = kafka.transactions.wait("billing-1", "committed")
    thread.join()
    assert found.transactional_id == "billing-1"
    assert "CompleteCommit" in [each.after for each in changes("billing-1")]


def test_a_failed_wait_explains_what_the_transaction_waits_for(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    begin(new_producer())
    kafka.clock.freeze()
    age_ms = kafka.transactions.describe("billing-1").age_ms or 0
    kafka.clock.advance(ms=12_000 - age_ms)
    with pytest.raises(BarrierTimeout) as raised:
        kafka.transactions.wait("billing-1", "committed", timeout=0.01)
    first, second, *rest = str(raised.value).splitlines()
    assert first == "timed out after 0.01 s waiting for transaction billing-1 to be committed"
    assert second == (
        "Transaction billing-1 has been open for 12 s (timeout 1 min): producer 0 in epoch 0, "
        "orders-0."
    )
    assert any("AddPartitionsToTxn" in each for each in rest)


def test_a_failed_wait_says_that_an_empty_transaction_sends_nothing(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    producer = new_producer()
    hint = r" \(a transaction without records or offsets sends nothing to the broker\)\.\n"
    for begun in ("not begun it", "not begun another"):
        producer.begin_transaction()
        producer.commit_transaction()
        with pytest.raises(BarrierTimeout, match=f" has {begun}{hint}"):
            kafka.transactions.wait("billing-1", "committed", timeout=0.01)
        begin(producer)
        producer.abort_transaction()


def test_a_timeout_that_the_broker_does_not_allow_is_explained(kafka: Kafka) -> None:
    identity = {"transactional_id": "billing-1", "client_id": "payments"}
    producer = Producer(client_settings(kafka, transaction_timeout_ms=3_600_000, **identity))
    with pytest.raises(KafkaException):
        producer.init_transactions(10)
    sentence = (
        "Producer payments could not initialize billing-1: its transaction.timeout.ms of 3600000 "
        "is not between 1 and the broker's transaction.max.timeout.ms of 900000. Set the "
        "client's timeout within this range, or raise transaction.max.timeout.ms on the broker."
    )
    assert sentence in kafka.report()
    with pytest.raises(BarrierTimeout) as raised:
        kafka.transactions.wait("billing-1", "open", timeout=0.01)
    assert sentence in str(raised.value)
    transactional_producer(kafka, "billing-1", "payments")
    assert "could not initialize" not in kafka.report()


def test_an_open_transaction_of_a_client_that_has_disconnected_is_explained(
    kafka: Kafka, reader: Consumer
) -> None:
    producer = transactional_producer(kafka, "billing-1", "payments")
    begin(producer)
    poll_until_fetched(kafka, reader)
    connected = kafka.transactions.explain("billing-1")
    assert "disconnected" not in connected
    del producer
    sentence = "(timeout 1 min), and its client payments has disconnected"
    kafka.wait(lambda: sentence in kafka.transactions.explain("billing-1"))
    assert "transaction billing-1 has been open for " in kafka.group("ledger").explain()
    assert f"{sentence}." in kafka.group("ledger").explain()


def test_an_unknown_id_is_reported_with_a_similar_one(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    new_producer()
    message = "billing-2 does not exist: did you mean billing-1"
    with pytest.raises(LookupError, match=message):
        kafka.transactions.describe("billing-2")
    with pytest.raises(BarrierTimeout, match=message):
        kafka.transactions.wait("billing-2", "open", timeout=0.01)
    with pytest.raises(LookupError, match=message):
        kafka.transactions.abort("billing-2")
    with pytest.raises(LookupError, match=message):
        kafka.transactions.expire("billing-2")


@pytest.mark.parametrize(
    ("until", "hint"),
    [
        ("comitted", ": did you mean committed?"),
        ("Aborted", ": did you mean aborted?"),
        ("Ongoing", ": Ongoing is 'open'"),
        ("CompleteCommit", ": CompleteCommit is 'committed'"),
        ("CompleteAbort", ": CompleteAbort is 'aborted'"),
        ("gone", ""),
    ],
)
def test_a_wait_for_an_unknown_state_suggests_the_word(kafka: Kafka, until: Any, hint: str) -> None:
    with pytest.raises(ValueError, match="until must be one of") as raised:
        kafka.transactions.wait("billing-1", until)
    assert str(raised.value) == (
        f"until must be one of open, committed, aborted, not {until!r}{hint}"
    )


def test_a_transaction_times_out_by_the_clock(kafka: Kafka, new_producer: NewProducer) -> None:
    begin(new_producer())
    kafka.clock.freeze()
    began_ms = kafka.clock.now_ms - (kafka.transactions.describe("billing-1").age_ms or 0)
    kafka.clock.advance(hours=1)
    kafka.transactions.wait("billing-1", "aborted")
    prepared = next(
        each for each in kafka.history.transaction_changes() if each.after == "PrepareAbort"
    )
    assert (prepared.cause, prepared.is_by_test) == ("timed out", True)
    assert prepared.at_ms == began_ms + TRANSACTION_TIMEOUT_MS


def test_abort_ends_a_transaction_and_fences_its_producer(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    producer = new_producer()
    with pytest.raises(ValueError, match=r"Transaction billing-1 is not open\. .* is Empty"):
        kafka.transactions.abort("billing-1")
    begin(producer)
    kafka.transactions.abort("billing-1")
    kafka.transactions.wait("billing-1", "aborted")
    with pytest.raises(KafkaException) as raised:
        producer.commit_transaction()
    assert raised.value.args[0].fatal()
    assert (
        "Producer payments is fenced: its EndTxn for billing-1 with epoch 0 got "
        "INVALID_PRODUCER_EPOCH (fenced by epoch 1; cause: aborted by request)."
    ) in kafka.transactions.explain("billing-1")
    assert kafka.client_checks.findings == []  # the test did it


@pytest.mark.parametrize("by_clock", [True, False])
def test_the_markers_of_a_transaction_that_the_test_ended_are_by_the_test(
    kafka: Kafka, new_producer: NewProducer, by_clock: bool
) -> None:
    begin(new_producer())
    if by_clock:
        kafka.clock.advance(ms=TRANSACTION_TIMEOUT_MS)
    else:
        kafka.transactions.abort("billing-1")
    kafka.transactions.wait("billing-1", "aborted")
    *_, prepared, complete = kafka.history.transaction_changes("billing-1")
    assert (prepared.after, complete.after) == ("PrepareAbort", "CompleteAbort")
    assert (prepared.is_by_test, complete.is_by_test) == (True, True)


def test_the_markers_of_a_transaction_that_the_client_ended_are_not_by_the_test(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    producer = new_producer()
    begin(producer)
    with kafka.transactions.hold_markers() as held:
        producer.commit_transaction()
        held.wait()
        with kafka.history.by_test():  # as while the clock is advanced
            held.release()
            kafka.transactions.wait("billing-1", "committed")
    *_, prepared, complete = kafka.history.transaction_changes("billing-1")
    assert (prepared.is_by_test, complete.is_by_test) == (False, False)


def test_an_expired_id_is_unknown_to_its_producer(kafka: Kafka, new_producer: NewProducer) -> None:
    producer = new_producer()
    begin(producer)
    with pytest.raises(ValueError, match=r"billing-1 cannot expire\. .* has been open for "):
        kafka.transactions.expire("billing-1")
    producer.commit_transaction()
    new_producer("billing-2")
    kafka.transactions.expire("billing-1")
    with pytest.raises(LookupError, match=r"billing-1 no longer exists$"):
        kafka.transactions.describe("billing-1")
    assert [each.transactional_id for each in kafka.transactions.all] == ["billing-2"]
    assert (
        " ago, and requests of its producer fail with INVALID_PRODUCER_ID_MAPPING"
    ) in kafka.transactions.explain("billing-1")
    last = kafka.history.transaction_changes("billing-1")[-1]
    assert (last.before, last.after, last.cause) == ("CompleteCommit", "Dead", "expired")
    assert last.is_by_test
    assert any("= billing-1: Dead in epoch 0 (expired)" in each for each in timeline(kafka.history))
    assert "billing-1: Dead in epoch 0 (expired)</title>" in draw(kafka.history)
    begin(producer)
    with pytest.raises(KafkaException):
        producer.commit_transaction()
    *_, rejected = kafka.history.requests_of("AddPartitionsToTxn")
    assert rejected.errors == ("INVALID_PRODUCER_ID_MAPPING",)
    begin(new_producer())


def test_records_are_read_as_by_a_read_committed_consumer(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    aborts, commits = new_producer("aborts"), new_producer("commits")
    begin(aborts, b"aborted")
    begin(commits, b"committed")
    commits.commit_transaction()
    aborts.abort_transaction()
    kafka.topic("orders").produce(["plain"])
    begin(commits, b"open")
    kafka.topic("orders").produce(["behind it"])

    def values(**options: bool) -> list[bytes | None]:
        return [each.value for each in kafka.topic("orders").records(**options)]

    assert values() == [b"aborted", b"committed", b"plain", b"open", b"behind it"]
    assert values(read_committed=True) == [b"committed", b"plain"]
    commits.commit_transaction()
    kafka.transactions.wait("commits", "committed")
    assert values(read_committed=True) == [b"committed", b"plain", b"open", b"behind it"]


def test_an_id_that_was_not_used_for_a_week_has_expired(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    new_producer()
    kafka.clock.run_until(lambda: kafka.history.transaction_changes("billing-1")[1:])
    last = kafka.history.transaction_changes("billing-1")[-1]
    assert (last.before, last.after, last.cause) == ("Empty", "Dead", "expired")
    explained = kafka.transactions.explain("billing-1")
    assert explained.startswith("Transactional id billing-1 expired ")
    new_producer()
    assert kafka.transactions.describe("billing-1").state == "Empty"


def test_a_failed_wait_says_why_the_last_transaction_was_aborted(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    def explained() -> str:
        kafka.transactions.wait("billing-1", "aborted")
        with pytest.raises(BarrierTimeout) as raised:
            kafka.transactions.wait("billing-1", "committed", timeout=0.01)
        return str(raised.value)

    producer = new_producer()
    begin(producer)
    producer.abort_transaction()
    assert " ago by its producer; producer 0 in epoch 0 has not begun another" in explained()
    begin(producer)
    kafka.clock.advance(ms=TRANSACTION_TIMEOUT_MS)
    assert (
        " ago (timed out after 1 min); producer 0 in epoch 1 has not begun another" in explained()
    )
    begin(new_producer())
    kafka.transactions.abort("billing-1")
    assert " ago (aborted by request); " in explained()


def test_a_second_producer_fences_the_first_which_is_reported(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    first = new_producer(client_id="old")
    begin(first)
    new_producer(client_id="new")
    with pytest.raises(KafkaException):
        first.commit_transaction()
    (finding,) = kafka.client_checks.findings
    assert finding.kind == "zombie producer"
    assert finding.message == (
        "old sent EndTxn for billing-1 with epoch 0 and got INVALID_PRODUCER_EPOCH (fenced by "
        "epoch 1; cause: a new producer was initialized)"
    )
    assert "Producer old is fenced" in kafka.report()
    kafka.client_checks.ignore("zombie producer")


def test_held_markers_keep_records_from_read_committed_consumers(
    kafka: Kafka, new_producer: NewProducer, reader: Consumer
) -> None:
    producer = new_producer()
    with kafka.transactions.hold_markers("billing-1") as held:
        begin(producer)
        producer.commit_transaction()
        assert held.wait() == ["billing-1"]
        assert kafka.transactions.describe("billing-1").state == "PrepareCommit"
        poll_until_fetched(kafka, reader)
        assert (
            "Consumer reader (read_committed) waits at offset 0 of orders-0: transaction billing-1 "
            "is in state PrepareCommit: its markers have not been written (the test holds them "
            "back)."
        ) in kafka.group("ledger").explain()
    kafka.transactions.wait("billing-1", "committed")
    message = reader.poll(10)
    assert message is not None
    assert message.value() == b"paid"


def test_a_hold_is_of_one_transactional_id_or_of_all(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    one, two = new_producer("one"), new_producer("two")
    with kafka.transactions.hold_markers("two") as held:
        for each in (one, two):
            begin(each)
            each.commit_transaction()
        kafka.transactions.wait("one", "committed")
        assert held.transactional_ids == ["two"]
        with pytest.raises(BarrierTimeout, match="the markers of 2 × two: 1 held"):
            held.wait(2, timeout=0.01)
    with kafka.transactions.hold_markers() as held:
        for each in (one, two):
            begin(each)
            each.commit_transaction()
        assert sorted(held.wait(2)) == ["one", "two"]


def test_an_unused_hold_is_reported_after_the_broker_has_stopped() -> None:
    with LoopThread() as loop:
        kafka = Kafka(loop=loop).start()
        kafka.transactions.hold_markers("billing-1")
        kafka.stop()
        with pytest.raises(UnusedFault, match=r"markers .*billing-1\): held back, fired 0"):
            kafka.faults.check()


def test_a_hold_that_holds_nothing_is_reported_like_an_unused_fault(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    producer = new_producer()
    begin(producer)
    kafka.transactions.hold_markers("billing1")
    kafka.transactions.hold_markers()
    kafka.transactions.hold_markers("cancelled").cancel()
    with pytest.raises(UnusedFault) as raised:
        kafka.faults.check()
    assert str(raised.value).splitlines() == [
        "unused faults at the end of the test",
        "markers (transactional_id billing1): held back, fired 0",
        "    Transactional id billing1 does not exist: did you mean billing-1?",
        "      no request has mentioned this transactional id",
        "markers: held back, fired 0",
    ]
    kafka.faults.check()  # they were removed
    with (
        pytest.raises(UnusedFault, match=r"^unused marker hold\nmarkers .*billing1"),
        kafka.transactions.hold_markers("billing1"),
    ):
        producer.commit_transaction()
    with pytest.raises(ZeroDivisionError), kafka.transactions.hold_markers("billing1"):
        raise ZeroDivisionError  # not hidden by an unused hold


def test_markers_are_held_after_a_crash_as_well(kafka: Kafka, new_producer: NewProducer) -> None:
    producer = new_producer()
    begin(producer)
    with kafka.transactions.hold_markers() as held:
        producer.commit_transaction()
        held.wait()
        kafka.crash()
        assert held.wait() == ["billing-1"]
        assert kafka.transactions.describe("billing-1").state == "PrepareCommit"
    kafka.transactions.wait("billing-1", "committed")


def test_a_report_does_not_repeat_the_sentences_of_the_failed_wait(
    kafka: Kafka, new_producer: NewProducer, reader: Consumer
) -> None:
    begin(new_producer())
    poll_until_fetched(kafka, reader)
    failure = f"timed out\n{kafka.group('ledger').explain()}"
    sentence = "Consumer reader (read_committed) waits at offset 0 of orders-0"
    assert sentence in failure
    kafka.clock.advance(seconds=5)  # the transaction is older in the report
    assert sentence not in kafka.report(failure=failure)
    assert kafka.report().count(sentence) == 1


def test_a_consumer_that_waited_for_a_transaction_has_not_left_too_early(
    kafka: Kafka, new_producer: NewProducer, reader: Consumer
) -> None:
    producer = new_producer()
    begin(producer)
    while not any(each.response for each in kafka.history.requests_of("Fetch")):
        assert reader.poll(0.05) is None
    reader.close()
    assert "after its assignment" not in kafka.group("ledger").explain()
    producer.commit_transaction()
    kafka.transactions.wait("billing-1", "committed")
    assert "after its assignment" not in kafka.group("ledger").explain()


def test_a_consumer_that_waits_for_offsets_of_a_transaction_is_explained(
    kafka: Kafka, new_producer: NewProducer, reader: Consumer
) -> None:
    producer = new_producer()
    producer.begin_transaction()
    other = Consumer(client_settings(kafka, group_id="ledger"))
    producer.send_offsets_to_transaction(
        [TopicPartition("orders", 0, 7)], other.consumer_group_metadata()
    )
    other.close()
    (commit,) = kafka.history.requests_of("TxnOffsetCommit")
    assert commit.transactional_id == "billing-1"
    assert (commit.producer_id, commit.producer_epoch) == (0, 0)
    assert (commit.group, commit.offsets) == ("ledger", {("orders", 0): 7})
    while "UNSTABLE_OFFSET_COMMIT" not in _errors_of_offset_fetches(kafka):
        reader.poll(0.05)
    assert (
        "Consumer reader waits for the committed offsets of group ledger: transaction billing-1 "
        "has been open for "
    ) in kafka.group("ledger").explain()
    producer.commit_transaction()
    assert kafka.group("ledger").wait_committed("orders", 0) == 7


def _errors_of_offset_fetches(kafka: Kafka) -> set[str]:
    fetches = kafka.history.requests_of("OffsetFetch", client_id="reader")
    return {error for each in fetches for error in each.errors}


def test_a_hanging_transaction_is_named_with_the_command_that_aborts_it(
    kafka: Kafka, reader: Consumer
) -> None:
    def hang() -> None:
        partition = kafka.broker.node.topics.partition("orders", 0)
        assert partition is not None
        batch = BatchBuilder(BatchProducer(42, 0))
        batch.add(None, b"lost", kafka.broker.node.clock.wall_ms())
        partition.log.append_built(batch)

    kafka.call(lambda _broker: hang())
    poll_until_fetched(kafka, reader)
    assert (
        "offset 0 of orders-0: producer 42 has a hanging transaction, which no coordinator will "
        "end; to abort it, run `kohort transactions abort --topic orders --partition 0 "
        "--start-offset 0`."
    ) in kafka.group("ledger").explain()


def test_the_timeline_shows_transactions(kafka: Kafka, new_producer: NewProducer) -> None:
    producer = new_producer()
    begin(producer)
    producer.commit_transaction()
    kafka.transactions.wait("billing-1", "committed")
    lines = kafka.report().splitlines()
    assert [line.partition(" = ")[2] for line in lines if " = " in line] == [
        "billing-1: Empty in epoch 0 (producer initialized)",
        "billing-1: Ongoing in epoch 0 (partitions added): orders-0",
        "billing-1: PrepareCommit in epoch 0 (ended): orders-0",
        "billing-1: CompleteCommit in epoch 0 (markers written): orders-0",
    ]


def test_the_timeline_page_draws_transactions(kafka: Kafka, new_producer: NewProducer) -> None:
    producer = new_producer()
    begin(producer)
    producer.commit_transaction()
    kafka.transactions.wait("billing-1", "committed")
    begin(producer)
    kafka.clock.advance(ms=TRANSACTION_TIMEOUT_MS)
    kafka.transactions.wait("billing-1", "aborted")
    kafka.faults.answer("AddPartitionsToTxn", error="COORDINATOR_LOAD_IN_PROGRESS")
    begin(new_producer("shipping-1"))
    drawing = draw(kafka.history)
    assert "<figcaption>transactions</figcaption>" in drawing
    for kind, why in ("committed", ""), ("aborted", " (timed out)"), ("open", ""):
        assert f'class="bar {kind}"' in drawing
        assert f"<title>{kind}{why}: orders-0\n" in drawing
    assert drawing.index(">billing-1<") < drawing.index(">shipping-1<")
    assert drawing.count('class="fault"') == 1


def test_the_report_of_a_failed_test_shows_open_transactions(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    begin(new_producer())
    assert "\nTransaction billing-1 has been open for " in f"\n{kafka.report()}"


def test_recorded_requests_know_producer_and_transaction(
    kafka: Kafka, new_producer: NewProducer
) -> None:
    producer = new_producer()
    begin(producer)
    producer.commit_transaction()
    seen = {
        each.api: (each.transactional_id, each.producer_id, each.producer_epoch, each.partitions)
        for each in kafka.history.requests
        if each.transactional_id
    }
    orders = (("orders", 0),)
    assert seen == {
        "FindCoordinator": ("billing-1", None, None, ()),
        "InitProducerId": ("billing-1", None, None, ()),
        "AddPartitionsToTxn": ("billing-1", 0, 0, orders),
        "Produce": ("billing-1", 0, 0, orders),
        "EndTxn": ("billing-1", 0, 0, ()),
    }
    assert {each.groups for each in kafka.history.requests_of("FindCoordinator")} == {()}
