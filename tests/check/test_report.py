"""The report as text and as JSON."""

import pytest
from kohort.check.analysis import analyze
from kohort.check.history import Event, Operation
from kohort.check.recorder import History
from kohort.check.report import Report
from support.tiny_histories import commit, final, joined, poll, send


def test_disturbances_are_counted_by_kind() -> None:
    history = History()
    for name in ("lost", "kill", "lost"):
        history.begin(Event(client="nemesis", what="…", nemesis=name))
    history.begin(Event(client="reader-1.1", what="crashed"))
    lines = Report("x", 1, 1, history, []).to_text().splitlines()
    assert "  nemesis:      kill 1, lost 2" in lines


def test_an_anomaly_is_explained() -> None:
    history = History()
    history.topic = "kohort-check-1"
    for each in send("v1", 0), final((1, "v2")), send("v2", 1):
        history.end(history.begin(each), "ok")
    text = Report("x", 1, 1, history, analyze(history)).to_text()
    assert "\nlost-write: An acknowledged record is missing from the final read" in text
    assert "producer sent v1 to partition 0: acknowledged at offset 0\n" in text
    assert text.endswith("\nANOMALIES: lost-write. The topic kohort-check-1 is kept.")


def _history(*operations: Operation) -> History:
    history = History()
    for each in operations:
        outcome, error = each.outcome, each.error
        history.end(history.begin(each), outcome, error)
    return history


def _enough(*errors: str) -> list[Operation]:
    """Return enough operations of each kind except joins, which were rejected with these errors."""
    sends = [send(f"v{number}", number) for number in range(10)]
    operations: list[Operation] = [*sends, *(poll() for _ in range(10)), commit("c1", 1)]
    for error in errors:
        operations.append(joined("m", -1))
        operations[-1].outcome, operations[-1].error = "fail", error
    return operations


def test_the_most_frequent_error_is_named_if_too_little_succeeded() -> None:
    errors = "INVALID_REQUEST", "INVALID_SESSION_TIMEOUT", "INVALID_SESSION_TIMEOUT"
    report = Report("x", 1, 1, _history(*_enough(*errors)), [])
    assert report.problem == (
        "0 joins of the classic group succeeded; 2 failed with INVALID_SESSION_TIMEOUT"
    )


def test_a_longer_run_is_suggested_only_if_nothing_was_rejected() -> None:
    report = Report("x", 1, 1, _history(*_enough("MEMBER_ID_REQUIRED")), [])
    assert report.problem == (
        "0 joins of the classic group succeeded within 1 s; at least 1 is needed: pass a larger "
        "--seconds"
    )
    nine = Report("x", 1, 1, _history(*_enough()[1:]), [])
    assert nine.problem == (
        "9 batches succeeded within 1 s; at least 10 are needed: pass a larger --seconds"
    )


@pytest.mark.parametrize("count", [0, 1, 2])
def test_rejected_operations_are_counted(count: int) -> None:
    rejected = [send(f"v{number}", outcome="fail") for number in range(count)]
    verb = "was" if count == 1 else "were"
    lines = Report("x", 1, 1, _history(*rejected), []).to_text().splitlines()
    assert f"  batches:      0 succeeded, {count} {verb} rejected, 0 unknown" in lines


def test_the_reason_of_no_verdict_is_left_to_the_command_unless_there_are_anomalies() -> None:
    history = _history(*_enough())
    assert Report("x", 1, 1, history, [], "no final reads").to_text().endswith("\n\nNo verdict.")
    history = _history(send("v1", 0), final((1, "v2")), send("v2", 1))
    text = Report("x", 1, 1, history, analyze(history), "no final reads").to_text()
    assert "\nNo verdict on the whole run: no final reads.\nANOMALIES: lost-write." in text


def test_an_interrupt_is_reported() -> None:
    history = _history(*_enough())
    history.is_interrupted = True
    report = Report("x", 1, 11.2, history, [], seconds_wanted=60)
    assert "  interrupted after 11 of 60 s" in report.to_text().splitlines()
    assert report.to_json()["interrupted"] is True
