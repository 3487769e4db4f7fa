"""What the loop does where there is nothing to do for Spark."""

from pathlib import Path
from typing import Any

import pytest
from kohort.offsets.commit_value import encode_commit_value
from kohort.offsets.records import OffsetCommitRecord
from kohort.pipeline.inputs import Inputs
from kohort.pipeline.lake import LakeError, write_batch
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.run import Retrying, run, said
from kohort.pipeline.source.source import SourceError

NOON_MS = 1_700_000_000_000


def no_spark() -> Any:
    raise AssertionError("there is nothing to do")


@pytest.fixture
def inputs(offsets_log: Any) -> Inputs:
    commit = OffsetCommitRecord("orders", "clicks", 0, encode_commit_value(1, -1, "", NOON_MS))
    offsets_log.append(3, commit, at_ms=NOON_MS)
    return Inputs({"path": str(offsets_log.path)}, cluster="east")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """It has all of the log."""
    write_batch(tmp_path / "lake", {}, positions={3: 1}, cluster="east")
    return tmp_path / "lake"


def test_a_run_that_finds_nothing_new_starts_no_spark(inputs: Inputs, lake: Path) -> None:
    with Writer(lake) as writer:
        assert run(no_spark, writer, inputs)
        assert writer.manifest.batch_id == 0


def test_a_log_that_is_followed_is_looked_at_again_after_each_pause(
    inputs: Inputs, lake: Path
) -> None:
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) == 3

    with Writer(lake) as writer:
        assert run(no_spark, writer, inputs, every_s=30, wait=wait)
    assert all(25 < seconds <= 30 for seconds in pauses)


def test_a_log_that_cannot_be_read_is_tried_again_if_it_is_followed(
    inputs: Inputs, lake: Path, tmp_path: Path
) -> None:
    (tmp_path / "data" / "__consumer_offsets-3").rename(tmp_path / "away")
    told: list[object] = []
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
            run(give_up, writer, inputs, every_s=30, tell=told.append, wait=wait)
    (only,) = told
    assert isinstance(only, Retrying)
    assert "has no folder __consumer_offsets-N" in only.error


def test_an_error_of_ours_is_found_in_what_spark_says_of_its_task() -> None:
    told = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        "kohort.pipeline.source.source.SourceError: nobody listens at a:1.\n\nJVM stacktrace:"
    )
    assert said(RuntimeError(told), SourceError) == "nobody listens at a:1."
    assert said(RuntimeError(told), LakeError) is None
    wrong = told.replace("source.source.SourceError", "lake.errors.WrongRows")
    assert said(RuntimeError(wrong), SourceError, LakeError) == "nobody listens at a:1."
    assert said(SourceError("nobody"), SourceError) == "nobody"
    assert said(RuntimeError("another one"), SourceError) is None
