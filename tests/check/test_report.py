"""The report as text."""

from kohort.check.history import Event
from kohort.check.recorder import History
from kohort.check.report import Report


def test_disturbances_are_counted_by_kind() -> None:
    history = History()
    for name in ("lost", "kill", "lost"):
        history.begin(Event(client="nemesis", what="…", nemesis=name))
    history.begin(Event(client="reader-1.1", what="crashed"))
    lines = Report("x", 1, 1, history, []).to_text().splitlines()
    assert "  nemesis:      kill 1, lost 2" in lines
