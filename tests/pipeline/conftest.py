"""One Spark session per worker, as it takes seven seconds to start; logs and lakes."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.offsets.record_codec import encode_record
from kohort.offsets.records import OffsetsRecord
from lake_builder import write_sample_lake
from support.log import NewRecord, build

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
        folder = self.path / f"__consumer_offsets-{partition}"
        folder.mkdir(exist_ok=True)
        log = Log.open(folder, DiskFiles(), LogConfig())
        made = [NewRecord(*encode_record(record), at_ms) for record in records]
        log.append(build(made, base_offset=log.end_offset))
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
