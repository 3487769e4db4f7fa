"""One Spark session for all tests of a worker: it takes its seven seconds once."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.offsets.record_codec import encode_record
from kohort.offsets.records import OffsetsRecord
from support.log import NewRecord, build

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Two tasks show what one hides.
SMALL = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
FEW = 1_000  # records, as tests have


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from kohort.pipeline.session import new_session, tune

    session = new_session("local[2]", SMALL)
    tune(session, FEW)
    yield session
    session.stop()


class OffsetsLog:
    """A data folder with an offsets log to which a test appends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def append(self, partition: int, *records: OffsetsRecord, at_ms: int) -> None:
        """One batch of the records, all of one time."""
        folder = self.path / f"__consumer_offsets-{partition}"
        folder.mkdir(exist_ok=True)
        log = Log.open(folder, DiskFiles(), LogConfig())
        made = [NewRecord(*encode_record(record), at_ms) for record in records]
        log.append(build(made, base_offset=log.end_offset))
        log.close()


@pytest.fixture
def offsets_log(tmp_path: Path) -> OffsetsLog:
    return OffsetsLog(tmp_path / "data")
