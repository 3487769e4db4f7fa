"""One Spark session per worker, because it takes seven seconds to start; logs and lakes."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kohort.offsets.records import OffsetsRecord
from lake_builder import write_sample_lake
from offset_logs import batch_of, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Two tasks reveal errors that a single task hides.
SMALL = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from kohort.pipeline.session import new_session, tune

    session = new_session("local[2]", SMALL)
    tune(session, rows=1_000)
    yield session
    session.stop()


class OffsetsLog:
    """A data folder with an offsets log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def append(self, partition: int, *records: OffsetsRecord, at_ms: int) -> None:
        """Append one batch."""
        log = write(self.path / f"__consumer_offsets-{partition}")
        log.append(batch_of(log.end_offset, *records, at_ms=at_ms))
        log.close()


@pytest.fixture
def offsets_log(tmp_path: Path) -> OffsetsLog:
    return OffsetsLog(tmp_path / "data")


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample lake; no test writes to it."""
    return write_sample_lake(tmp_path_factory.mktemp("queries") / "lake")


@pytest.fixture(scope="session")
def lake_without_samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample_lake(tmp_path_factory.mktemp("queries") / "no-samples", samples=False)
