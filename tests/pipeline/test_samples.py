"""The samples of log ends that a batch takes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kohort.pipeline.inputs import Inputs, Samples
from kohort.pipeline.lake.writer import Writer
from lake_builder import write_batch
from offset_logs import write_at

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class BatchStub(NamedTuple):
    """The part of a batch that `Samples.of` reads."""

    until_s: float | None  # the time of its last record, after noon; the first one is at noon
    caught_up: bool = True
    committed: frozenset[str] = frozenset({"clicks"})

    def span(self) -> tuple[datetime, datetime] | None:
        return None if self.until_s is None else (NOON, NOON + timedelta(seconds=self.until_s))

    def topics(self) -> frozenset[str]:
        return self.committed


class LogsAndLake:
    """Logs of topics in a data folder, and a lake."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data"
        self._data.mkdir()
        self.inputs = Inputs({"path": str(self._data)}, cluster="east")
        self.lake = folder / "lake"

    def produce(self, topic: str, *seconds: float) -> None:
        """Append a record at each of these seconds after noon."""
        times_ms = (int((NOON.timestamp() + second) * 1000) for second in seconds)
        write_at(self._data / f"{topic}-0", *times_ms)

    def samples(self) -> Samples:
        with Writer(self.lake) as writer:
            return Samples(self.inputs, writer.lake)

    def commit(self, rows: list[tuple], samples: Samples) -> None:
        """Commit a batch that has committed offsets of all these topics."""
        commits = [
            {"cluster": "east", "offsets_partition": 0, "group": "g", "topic": topic}
            | {"partition": 0, "log_offset": 1, "offset": 1, "commit_ts": NOON}
            for topic in sorted({row[0] for row in rows})
        ]
        write_batch(self.lake, {"state_commit": commits}, cluster="east")
        with Writer(self.lake) as writer:
            writer.begin()
            writer.commit(
                cluster="east", positions={}, inputs={"samples": samples.positions()}, as_of=NOON
            )


@pytest.fixture
def logs(tmp_path: Path) -> LogsAndLake:
    return LogsAndLake(tmp_path)


def sampled(samples: Samples, batch: Any) -> list[tuple]:
    """(topic, log end, seconds after noon), by time."""
    rows = samples.of(batch).to_pylist()
    found = [
        (row["topic"], row["log_end"], (row["sampled_at"] - NOON).total_seconds()) for row in rows
    ]
    return sorted(found, key=lambda row: (row[2], row[0]))


def test_records_produced_during_a_batch_do_not_count_in_its_lag(logs: LogsAndLake) -> None:
    logs.produce("clicks", 1, 2)
    samples = logs.samples()
    logs.produce("clicks", 3, 16)  # their commits come with the next batch
    before = [("clicks", 0, at) for at in (-45, -30, -15, 0)]
    assert sampled(samples, BatchStub(until_s=2)) == [*before, ("clicks", 2, 2)]


def test_a_topic_created_after_the_first_sample_is_sampled(logs: LogsAndLake) -> None:
    logs.produce("clicks", 1)
    samples = logs.samples()
    logs.produce("orders", 1, 2, 3)
    both = frozenset({"clicks", "orders"})
    assert sampled(samples, BatchStub(until_s=1, committed=both))[-2:] == [
        ("clicks", 1, 1),
        ("orders", 3, 3),
    ]


def test_topics_without_committed_offsets_are_not_sampled(logs: LogsAndLake) -> None:
    logs.produce("clicks", 1)
    logs.produce("audit", 1)
    assert {row[0] for row in sampled(logs.samples(), BatchStub(until_s=1))} == {"clicks"}


def test_a_batch_that_has_not_caught_up_takes_only_past_samples(logs: LogsAndLake) -> None:
    logs.produce("clicks", 1, 40)
    samples = logs.samples()
    assert sampled(samples, BatchStub(until_s=20, caught_up=False))[-1] == ("clicks", 1, 15)


def test_without_new_commits_a_growing_topic_is_sampled(logs: LogsAndLake) -> None:
    logs.produce("clicks", 1)
    samples = logs.samples()
    logs.commit(sampled(samples, BatchStub(until_s=1)), samples)
    assert not logs.samples().has_news
    logs.produce("clicks", 20)
    samples = logs.samples()
    assert samples.has_news
    assert sampled(samples, BatchStub(until_s=None)) == [("clicks", 2, 20)]
