"""A Spark program that reads and writes topics with Spark's Kafka connector, in batches and as
streams. Prints its results as JSON.

    program.py BOOTSTRAP FOLDER JAR...
"""

import json
import sys
from typing import TYPE_CHECKING, Any

from kohort.pipeline.session import new_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS, SEEN, MIRROR, OFFSETS_TOPIC = "orders", "seen", "offsets-log", "__consumer_offsets"


class Topics:
    def __init__(self, spark: "SparkSession", bootstrap: str) -> None:
        self._spark = spark
        self._server = {"kafka.bootstrap.servers": bootstrap}

    def read(self, topic: str, by: str = "subscribe", **options: str) -> "DataFrame":
        reader = self._spark.read.format("kafka").options(**self._server, **options)
        return reader.option(by, topic).load().selectExpr("*", "cast(value as string) text")

    def write(self, rows: "DataFrame", topic: str) -> None:
        rows.write.format("kafka").options(**self._server).option("topic", topic).save()

    def stream(self, topic: str, target: str, checkpoint: str) -> None:
        """Copy all new records in small batches, continuing at the checkpoint."""
        rows = (
            self._spark.readStream.format("kafka")
            .options(**self._server, subscribe=topic, startingOffsets="earliest")
            .option("maxOffsetsPerTrigger", 400)
            .load()
        )
        seen = rows.selectExpr("key", "concat('seen ', cast(value as string)) value")
        writer = seen.writeStream.format("kafka").options(**self._server, topic=target)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query.start().awaitTermination()


def in_batches(spark: "SparkSession", topics: Topics) -> dict[str, Any]:
    rows = spark.range(1000).selectExpr("cast(id % 10 as string) key", "cast(id as string) value")
    topics.write(rows, ORDERS)
    read = topics.read(ORDERS)
    sums = read.groupBy("key").agg({"text": "sum"}).toDF("key", "sum").collect()
    first = json.dumps({ORDERS: {"0": 10, "1": 20, "2": 30}})
    ends = json.dumps({ORDERS: {"0": 20, "1": 40, "2": -1}})
    some = topics.read(ORDERS, startingOffsets=first, endingOffsets=ends)
    return {
        "written and read": read.count(),
        "partitions": sorted(
            row.partition for row in read.select("partition").distinct().collect()
        ),
        "sums": {bytes(row.key).decode(): int(row["sum"]) for row in sums},
        "from offsets to offsets": {
            str(row.partition): [row.first, row.many]
            for row in some.groupBy("partition")
            .agg({"offset": "min", "value": "count"})
            .toDF("partition", "first", "many")
            .collect()
        },
        "by pattern": topics.read("ord.*", by="subscribePattern").count(),
    }


def as_streams(topics: Topics, folder: str) -> dict[str, Any]:
    counts = []
    for _ in range(2):
        topics.stream(ORDERS, SEEN, f"{folder}/checkpoint")
        counts.append(topics.read(SEEN).count())
    texts = [row.text for row in topics.read(SEEN).select("text").collect()]
    return {"streamed": counts, "first streamed": min(texts)}


def of_offsets(topics: Topics) -> dict[str, Any]:
    mirrored = topics.read(MIRROR).select("key").collect()
    return {
        "offsets topic": topics.read(OFFSETS_TOPIC).count(),
        "mirror": len(mirrored),
        "keys of the mirror": sorted({bytes(row.key).hex() for row in mirrored}),
    }


def main(bootstrap: str, folder: str, *jars: str) -> None:
    spark = new_session(
        "local[2]", {"spark.jars": ",".join(jars), "spark.sql.shuffle.partitions": "2"}
    )
    topics = Topics(spark, bootstrap)
    found = {**in_batches(spark, topics), **as_streams(topics, folder), **of_offsets(topics)}
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
