"""Anomalies of transactions, in histories of a few operations."""

from support.tiny_histories import anomalies, end, final, init, poll, send


def test_a_record_of_an_aborted_transaction_must_not_be_read() -> None:
    sent = send("a", 0, transaction="t1")
    assert anomalies(sent, end("t1", commit=False), poll((0, "a"))) == {"G1a"}
    uncommitted = poll((0, "a"), is_committed=False)
    assert anomalies(sent, end("t1", commit=False), uncommitted) == set()


def test_a_record_of_a_crashed_producer_must_not_be_read() -> None:
    assert anomalies(send("a", 0, transaction="t1"), poll((0, "a"))) == {"G1a"}


def test_a_rejected_record_must_not_be_read_with_any_isolation_level() -> None:
    rejected = send("a", None, outcome="fail")
    assert anomalies(rejected, poll((0, "a"), is_committed=False)) == {"G1a"}


def test_a_transaction_with_unknown_end_may_be_visible_or_not() -> None:
    sent, unknown = send("a", 0, transaction="t1"), end("t1", outcome="info")
    assert anomalies(sent, unknown, final((0, "a"))) == set()
    assert anomalies(sent, unknown, final(next_position=2)) == set()


def test_a_record_must_not_be_read_before_its_commit() -> None:
    sent = send("a", 0, transaction="t1")
    assert anomalies(sent, poll((0, "a")), end("t1")) == {"precommitted-read"}
    assert anomalies(sent, (end("t1"), poll((0, "a")))) == set()


def test_a_transaction_must_not_be_visible_in_part() -> None:
    sends = send("a", 0, transaction="t1"), send("b", 0, partition=1, transaction="t1")
    unknown = end("t1", outcome="info")
    finals = final((0, "a")), final(partition=1, next_position=2)
    assert anomalies(*sends, unknown, *finals) == {"torn-transaction"}
    assert anomalies(*sends, unknown, final((0, "a")), final((0, "b"), partition=1)) == set()


def test_transactions_must_not_read_each_other() -> None:
    one, two = send("a", 0, transaction="t1"), send("b", 0, partition=1, transaction="t2")
    reads = (
        poll((0, "b"), partition=1, transaction="t1"),
        poll((0, "a"), transaction="t2"),
    )
    ends = end("t1"), end("t2")
    found = anomalies((one, two), (*ends, *reads))
    assert found == {"G1c"}
    assert anomalies((one, two), (*ends, reads[0])) == set()


def test_alternating_writes_of_two_transactions_are_normal() -> None:
    """G0: Kafka does not isolate writes."""
    writes = (
        send("a", 0, transaction="t1", client="one"),
        send("b", 1, transaction="t2", client="two"),
        send("c", 0, partition=1, transaction="t2", client="two"),
        send("d", 1, partition=1, transaction="t1", client="one"),
    )
    assert anomalies(*writes, end("t1"), end("t2")) == set()


def test_a_fenced_producer_must_not_write_or_commit() -> None:
    first, fenced = init(1, 4), init(1, 5, client="successor")
    late = send("a", 0, transaction="t1", producer=(1, 4))
    assert anomalies(first, fenced, late, end("t1", outcome="fail")) == {"fenced-producer"}
    assert anomalies(first, late, fenced) == set()
    assert anomalies(first, fenced, end("t1", producer=(1, 4))) == {"fenced-producer"}
    other_id = send("b", 0, transaction="t2", producer=(2, 0), client="other")
    assert anomalies(first, fenced, other_id) == set()


def test_a_producer_is_fenced_whichever_producer_id_its_successor_has() -> None:
    first, fenced = init(1, 0), init(2, 0, client="successor")
    late = send("a", 0, transaction="t1")
    assert anomalies(first, fenced, late) == {"fenced-producer"}
    assert anomalies(first, (fenced, late)) == set()
    assert anomalies((first, fenced), late) == set()
    own = send("a", 0, transaction="t1", client="successor", producer=(2, 0))
    assert anomalies(first, fenced, own) == set()
    other = init(2, 0, client="successor")
    other.transactional_id = "other"
    assert anomalies(first, other, late) == set()


def test_an_epoch_is_given_out_once_and_grows() -> None:
    assert anomalies(init(1, 0), init(1, 0)) == {"producer-epoch"}
    assert anomalies(init(1, 4), init(1, 3)) == {"producer-epoch"}
    assert anomalies(init(1, 4), init(2, 0), init(1, 5)) == set()
