"""The report as text."""

from kohort.check.analysis import analyse
from kohort.check.history import Event
from kohort.check.recorder import History
from kohort.check.report import Report
from support.tiny_histories import final, send


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
    text = Report("x", 1, 1, history, analyse(history)).to_text()
    assert "\nlost-write: An acknowledged record is missing from the final read" in text
    assert "producer sent v1 to partition 0: acknowledged at offset 0\n" in text
    assert text.endswith("\nANOMALIES: lost-write. The topic kohort-check-1 is kept.")
