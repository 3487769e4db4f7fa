"""Which samples of topics' ends a batch takes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.pipeline.inputs import Inputs
from kohort.pipeline.lake import write_batch
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.samples import Samples
from support.log import NewRecord, build

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Read(NamedTuple):
    """What `Samples.of` asks a batch."""

    until_s: float | None  # after noon; its first record is of noon
    caught_up: bool = True
    of: frozenset[str] = frozenset({"clicks"})

    def span(self) -> tuple[datetime, datetime] | None:
        return None if self.until_s is None else (NOON, NOON + timedelta(seconds=self.until_s))

    def topics(self) -> frozenset[str]:
        return self.of


class World:
    """Topics' logs in a folder, and a lake."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "data"
        self._data.mkdir()
        self.inputs = Inputs({"path": str(self._data)}, cluster="east")
        self.lake = folder / "lake"

    def produce(self, topic: str, *seconds: float) -> None:
        """A record for each of these seconds after noon."""
        folder = self._data / f"{topic}-0"
        folder.mkdir(exist_ok=True)
        log = Log.open(folder, DiskFiles(), LogConfig())
        for second in seconds:
            record = NewRecord(b"k", b"v", int((NOON.timestamp() + second) * 1000))
            log.append(build([record], base_offset=log.end_offset))
        log.close()

    def samples(self) -> Samples:
        with Writer(self.lake) as writer:
            return Samples(self.inputs, writer.lake)

    def keep(self, told: list[tuple], samples: Samples) -> None:
        """As a batch in which every topic was committed to."""
        commits = [
            {"cluster": "east", "offsets_partition": 0, "group": "g", "topic": topic}
            | {"partition": 0, "log_offset": 1, "offset": 1, "commit_ts": NOON}
            for topic in sorted({row[0] for row in told})
        ]
        write_batch(self.lake, {"state_commit": commits}, cluster="east")
        with Writer(self.lake) as writer:
            writer.begin()
            writer.commit(
                cluster="east", positions={}, inputs={"samples": samples.position()}, as_of=NOON
            )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def told(samples: Samples, batch: Any) -> list[tuple]:
    """(topic, log end, seconds after noon), in the order of time."""
    rows = samples.of(batch).to_pylist()
    found = [
        (row["topic"], row["log_end"], (row["sampled_at"] - NOON).total_seconds()) for row in rows
    ]
    return sorted(found, key=lambda row: (row[2], row[0]))


def test_what_is_written_while_a_batch_is_read_is_none_of_its_lag(world: World) -> None:
    world.produce("clicks", 1, 2)
    samples = world.samples()
    world.produce("clicks", 3, 16)  # their commits come with the next batch
    before = [("clicks", 0, at) for at in (-45, -30, -15, 0)]
    assert told(samples, Read(until_s=2)) == [*before, ("clicks", 2, 2)]


def test_a_topic_that_came_after_the_look_is_sampled_as_it_is(world: World) -> None:
    world.produce("clicks", 1)
    samples = world.samples()
    world.produce("orders", 1, 2, 3)
    both = frozenset({"clicks", "orders"})
    assert told(samples, Read(until_s=1, of=both))[-2:] == [("clicks", 1, 1), ("orders", 3, 3)]


def test_topics_that_nobody_commits_to_are_left_out(world: World) -> None:
    world.produce("clicks", 1)
    world.produce("audit", 1)
    assert {row[0] for row in told(world.samples(), Read(until_s=1))} == {"clicks"}


def test_a_batch_that_has_not_read_all_takes_the_past_alone(world: World) -> None:
    world.produce("clicks", 1, 40)
    samples = world.samples()
    assert told(samples, Read(until_s=20, caught_up=False))[-1] == ("clicks", 1, 15)


def test_a_quiet_log_has_news_when_a_topic_grows(world: World) -> None:
    world.produce("clicks", 1)
    samples = world.samples()
    world.keep(told(samples, Read(until_s=1)), samples)
    assert not world.samples().has_news
    world.produce("clicks", 20)
    samples = world.samples()
    assert samples.has_news
    assert told(samples, Read(until_s=None)) == [("clicks", 2, 20)]
