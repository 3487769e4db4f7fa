"""The loop where Spark is not needed: an unchanged log, an unreadable log, errors of tasks."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import OffsetCommitRecord
from kohort.pipeline.inputs import Inputs
from kohort.pipeline.lake.schema import LakeError
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.run import (
    BatchDone,
    BatchStarted,
    Retrying,
    StageProgress,
    StageStarted,
    error_text,
    run,
)
from kohort.pipeline.source.source import SourceError
from lake_builder import write_batch

NOON_MS = 1_700_000_000_000


def no_spark() -> Any:
    raise AssertionError("Spark was started")


@pytest.fixture
def inputs(offsets_log: Any) -> Inputs:
    commit = OffsetCommitRecord("orders", "clicks", 0, encode_commit_value(1, -1, "", NOON_MS))
    offsets_log.append(3, commit, at_ms=NOON_MS)
    return Inputs({"path": str(offsets_log.path)}, cluster="east")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake that has read the whole log."""
    write_batch(tmp_path / "lake", {}, positions={3: 1}, cluster="east")
    return tmp_path / "lake"


def test_a_run_without_new_records_does_not_start_spark(inputs: Inputs, lake: Path) -> None:
    with Writer(lake) as writer:
        assert run(no_spark, writer, inputs)
        assert writer.manifest.batch_id == 0


def test_a_followed_log_is_polled_at_intervals(inputs: Inputs, lake: Path) -> None:
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) == 3

    with Writer(lake) as writer:
        assert run(no_spark, writer, inputs, every_s=30, wait=wait)
    assert all(25 < seconds <= 30 for seconds in pauses)


def test_an_unreadable_log_is_retried_only_if_it_is_followed(
    inputs: Inputs, lake: Path, tmp_path: Path
) -> None:
    (tmp_path / "data" / "__consumer_offsets-3").rename(tmp_path / "away")
    progress: list[object] = []
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        (tmp_path / "away").rename(tmp_path / "data" / "__consumer_offsets-3")
        return False

    def give_up() -> Any:
        raise KeyboardInterrupt

    write_batch(lake, {}, positions={3: 0}, cluster="east")
    with Writer(lake) as writer:
        with pytest.raises(SourceError, match="has no folder __consumer_offsets-N"):
            run(no_spark, writer, inputs)
        with pytest.raises(KeyboardInterrupt):
            run(give_up, writer, inputs, every_s=30, report=progress.append, wait=wait)
    (only,) = progress
    assert isinstance(only, Retrying)
    assert "has no folder __consumer_offsets-N" in only.error


def test_a_batch_reports_its_stages_and_the_share_of_the_records_read(
    inputs: Inputs, tmp_path: Path
) -> None:
    progress: list[object] = []
    layers: dict[str, Any] = {"first": lambda _batch: {}, "second": lambda _batch: {}}
    session: Any = SimpleNamespace(
        conf=SimpleNamespace(set=lambda *_: None),
        sparkContext=SimpleNamespace(getConf=dict),
    )
    with Writer(tmp_path / "new") as writer:
        run(lambda: session, writer, inputs, report=progress.append, layers=layers)
    assert progress[:-1] == [
        BatchStarted(0, 1, 0),
        StageStarted("bronze", 1, 3),
        StageProgress(1.0),
        StageStarted("first", 2, 3),
        StageStarted("second", 3, 3),
    ]
    assert isinstance(progress[-1], BatchDone)


def test_errors_of_kohort_are_found_in_the_message_of_a_spark_task() -> None:
    message = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        "kohort.pipeline.source.source.SourceError: connection to a:1 refused.\n\nJVM stacktrace:"
    )
    assert error_text(RuntimeError(message), SourceError) == "connection to a:1 refused."
    assert error_text(RuntimeError(message), LakeError) is None
    other = message.replace("source.source.SourceError", "lake.schema.SchemaMismatch")
    assert error_text(RuntimeError(other), SourceError, LakeError) == "connection to a:1 refused."
    assert error_text(SourceError("refused"), SourceError) == "refused"
    assert error_text(RuntimeError("another one"), SourceError) is None
