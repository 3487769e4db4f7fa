"""Anomalies of a partition's log and of polls, in histories of a few operations."""

from kohort.check.history import Batch, TopicMissing
from support.tiny_histories import anomalies, end, final, out_of_range, poll, read_end, send


def test_a_history_without_anomalies() -> None:
    assert (
        anomalies(
            send("a b", 0),
            poll((0, "a"), (1, "b")),
            (send("c", 2), send("d", 3, client="other")),
            final((0, "a"), (1, "b"), (2, "c"), (3, "d")),
        )
        == set()
    )


def test_an_acknowledged_record_that_is_missing_is_a_lost_write() -> None:
    assert anomalies(send("a", 0), send("b", 1), final((1, "b"))) == {"lost-write"}


def test_a_topic_that_does_not_exist_after_the_run_is_lost() -> None:
    missing = TopicMissing(client="final", topic="t", outcome="ok")
    assert anomalies(send("a", 0), missing) == {"lost-topic"}
    assert anomalies(missing) == {"lost-topic"}


def test_a_duplicate_without_a_known_offset_may_be_lost_too() -> None:
    assert anomalies(send("a", None), send("b", 0), final((0, "b"))) == {"lost-write"}


def test_records_with_unknown_outcome_may_be_missing() -> None:
    assert anomalies(send("a", None, outcome="info"), send("b", 0), final((0, "b"))) == set()


def test_records_of_an_aborted_transaction_may_be_missing() -> None:
    aborted = send("a", 0, transaction="t1")
    assert anomalies(aborted, end("t1", commit=False), send("b", 2), final((2, "b"))) == set()


def test_a_log_that_ends_before_an_acknowledged_record_is_unseen() -> None:
    assert anomalies(send("a", 0), send("b", 5), final((0, "a"))) == {"unseen"}


def test_a_log_that_cannot_be_read_to_its_end_is_unseen() -> None:
    assert anomalies(send("a", 0), final((0, "a")), read_end(3)) == {"unseen"}
    assert anomalies(send("a", 0), final((0, "a")), read_end(1)) == set()


def test_a_record_at_two_offsets_is_a_duplicate() -> None:
    assert anomalies(send("a", 0), final((0, "a"), (1, "a"))) == {"duplicate"}


def test_two_records_at_one_offset_are_inconsistent() -> None:
    acknowledged = anomalies((send("a", 0), send("b", 0, client="other")))
    assert acknowledged == {"inconsistent-offset"}
    sent = send("a", None, outcome="info"), send("b", None, outcome="info", client="other")
    assert anomalies(sent, poll((0, "a")), poll((0, "b"))) == {"inconsistent-offset"}


def test_an_offset_that_differs_from_the_acknowledged_one_is_inconsistent() -> None:
    sent = send("a", 0), send("b", 1, client="other")
    assert "inconsistent-offset" in anomalies(sent, poll((0, "b"), (1, "a")))


def test_a_record_in_another_partition_or_of_nobody_is_misplaced() -> None:
    assert "misplaced" in anomalies(send("a", 0), poll((0, "a"), partition=1))
    assert anomalies(poll((0, "x"))) == {"misplaced"}


def test_offsets_without_a_batch_are_a_gap() -> None:
    whole = {"is_committed": False, "next_position": 5}
    assert anomalies(final(batches=(Batch(0, 1), Batch(2, 4)), **whole)) == set()
    assert anomalies(final(batches=(Batch(0, 1), Batch(3, 4)), **whole)) == {"offset-gap"}
    assert anomalies(final(batches=(Batch(0, 2), Batch(2, 4)), **whole)) == {"offset-gap"}


def test_the_batch_of_a_final_poll_may_begin_before_its_position() -> None:
    first = final(batches=(Batch(0, 1),), is_committed=False, next_position=2)
    second = final(batches=(Batch(0, 4),), is_committed=False, position=2, next_position=5)
    assert anomalies(first, second) == set()


def test_a_later_send_with_a_lower_offset_is_nonmonotonic() -> None:
    assert anomalies(send("a", 5), send("b", 4, client="other")) == {"nonmonotonic-send"}
    assert anomalies((send("a", 5), send("b", 4, client="other"))) == set()


def test_records_of_one_producer_in_another_order_are_nonmonotonic() -> None:
    unknown = send("a b", None, outcome="info")
    assert anomalies(unknown, poll((0, "b"), (1, "a"))) == {"int-nonmonotonic-send"}
    assert anomalies(unknown, poll((0, "a"), (1, "b"))) == set()


def test_a_plain_producer_may_be_overtaken_by_its_lost_request() -> None:
    lost = send("a", None, outcome="info", producer=None)
    assert anomalies(lost, send("b", 0, producer=None), poll((0, "b"), (1, "a"))) == set()


def test_records_before_the_position_of_a_poll_are_nonmonotonic() -> None:
    sent = send("a b", 0)
    assert anomalies(sent, poll((0, "a"), position=1, next_position=2)) == {"nonmonotonic-poll"}


def test_records_of_a_poll_in_another_order_are_nonmonotonic() -> None:
    found = anomalies(send("a b", 0), poll((1, "b"), (0, "a"), next_position=2))
    assert found == {"int-nonmonotonic-poll"}


def test_a_poll_that_begins_behind_a_visible_record_skips_it() -> None:
    everything = final((0, "a"), (1, "b"), (2, "c"))
    sent = send("a b c", 0)
    assert anomalies(sent, poll((1, "b"), (2, "c")), everything) == {"poll-skip"}
    assert anomalies(sent, poll((0, "a"), (2, "c")), everything) == {"int-poll-skip"}
    assert anomalies(sent, poll((0, "a"), next_position=2), everything) == {"int-poll-skip"}
    assert anomalies(sent, poll((0, "a")), poll((1, "b"), (2, "c"), position=1), everything) == (
        set()
    )


def test_another_assignment_may_begin_anywhere() -> None:
    everything = final((0, "a"), (1, "b"))
    polls = poll((1, "b"), position=1, mode="subscribe"), poll((0, "a"), mode="subscribe")
    assert anomalies(send("a b", 0), *polls, everything) == set()


def test_a_high_watermark_that_goes_back_is_a_stale_read() -> None:
    high, low = poll(high_watermark=5), poll(high_watermark=4, client="other")
    assert anomalies(high, low) == {"stale-read"}
    high, low = poll(high_watermark=5), poll(high_watermark=4, client="other")
    assert anomalies((high, low)) == set()


def test_the_high_watermark_of_another_leader_epoch_may_be_lower() -> None:
    later = {"high_watermark": 4, "leader_epoch": 1}
    assert anomalies(poll(high_watermark=5), poll(**later)) == set()
    assert anomalies(poll(high_watermark=5), poll(**later, node=2)) == set()
    assert anomalies(poll(high_watermark=5, leader_epoch=1), poll(**later)) == {"stale-read"}
    # The broker has no leader epochs.
    unknown = {"leader_epoch": -1}
    assert anomalies(poll(high_watermark=5, **unknown), poll(high_watermark=4, **unknown)) == set()


def test_a_position_within_the_log_is_not_out_of_range() -> None:
    assert anomalies(send("a b", 0), out_of_range(2)) == {"out-of-range"}
    concurrent = send("a b", 0), out_of_range(2)
    assert anomalies(concurrent) == set()
    assert anomalies(concurrent, final((0, "a"), (1, "b"))) == {"out-of-range"}
    assert anomalies(send("a b", 0), out_of_range(3), final((0, "a"), (1, "b"))) == set()


def test_a_record_that_was_read_does_not_vanish() -> None:
    sent, unknown = send("a", 0), send("b", None, outcome="info", client="other")
    seen = poll((0, "a"), (1, "b"))
    assert anomalies(sent, unknown, seen, final((0, "a"))) == {"vanished"}
    assert anomalies(sent, unknown, seen, final((0, "a"), next_position=2)) == {"vanished"}
    assert anomalies(sent, unknown, seen, final((0, "a"), (1, "b"))) == set()
    assert anomalies(unknown, poll((1, "b"), position=1), read_end(0)) == {"vanished"}


def test_a_record_behind_the_final_read_has_not_vanished() -> None:
    sent, unknown = send("a", 0), send("b", None, outcome="info", client="other")
    finals = final((0, "a")), read_end(2)
    assert anomalies(sent, unknown, poll((0, "a"), (1, "b")), *finals) == {"unseen"}


def test_an_aborted_record_may_be_read_with_read_uncommitted_only() -> None:
    sent, aborted = send("a", 0, transaction="t1"), end("t1", commit=False)
    seen = poll((0, "a"), is_committed=False)
    finals = final(next_position=2), final((0, "a"), is_committed=False, next_position=2)
    assert anomalies(sent, seen, aborted, *finals) == set()
    lost = final(is_committed=False, next_position=2)
    assert anomalies(sent, seen, aborted, finals[0], lost) == {"vanished"}
