"""The progress bar of `kohort pipeline run` on a terminal."""

import io

import pytest
from kohort.cli.pipeline.progress import RunOutput
from kohort.pipeline.layers.expectations import Violations
from kohort.pipeline.run import BatchDone, BatchStarted, Progress, StageProgress, StageStarted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def last_frame(monkeypatch: pytest.MonkeyPatch, *reports: Progress) -> str:
    """What the bar shows after these reports, of a batch of 1000 records with 2000 left."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with RunOutput() as output:
        for report in (BatchStarted(7, 1000, 2000), *reports):
            output(report)
    return terminal.getvalue().rsplit("batch 7", 1)[1].splitlines()[0]


def filled(frame: str) -> float:
    """The share of the bar's width that is filled."""
    return frame.count("━") / 40


def test_the_bar_advances_by_records_while_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = last_frame(monkeypatch, StageStarted("bronze", 1, 4), StageProgress(0.5))
    assert "bronze (1 of 4)" in frame
    assert "500/3,000" in frame


def test_the_bar_advances_by_stages_after_the_records_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = last_frame(monkeypatch, StageStarted("bronze", 1, 4), StageProgress(0.1))
    last = last_frame(monkeypatch, StageStarted("bronze", 1, 4), StageStarted("status", 4, 4))
    assert "status (4 of 4)" in last
    assert "1,000/3,000" in last
    assert filled(reading) < filled(last) < 1 / 3


def test_a_batch_is_complete_even_if_compaction_has_removed_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = (StageStarted("status", 4, 4), BatchDone(7, 900, 2000, 1.0, Violations()))
    assert "1,000/3,000" in last_frame(monkeypatch, *done)
