"""One Spark session for all tests of a worker: it takes its seven seconds once."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The quick compiler and the small collector suit short lives; two tasks show what one hides.
SMALL = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    from kohort.pipeline.session import new_session

    session = new_session("local[2]", SMALL)
    yield session
    session.stop()
