"""A data folder of Kafka 4.3, read in splits of any size."""

from pathlib import Path

import pyarrow as pa
from kohort.log.batch import split
from kohort.log.segment_swap import list_live_segments
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.source.folder import FolderSource
from kohort.pipeline.source.records import rows_of


def test_a_data_folder_of_kafka_is_read_completely(kafka_data: Path) -> None:
    source = FolderSource(kafka_data)
    ends = source.ends()
    assert ends
    for partition, end in ends.items():
        rows = []
        for path in list_live_segments(kafka_data / f"__consumer_offsets-{partition}").values():
            content = path.read_bytes()
            for position, header in split(
                content.rstrip(b"\0") if not content.strip(b"\0") else content
            ):
                batch = content[position : position + header.size]
                rows += rows_of(batch, partition, rows[-1]["log_offset"] + 1 if rows else 0)
        expected = pa.Table.from_pylist(rows, schema=SOURCE)
        for split_bytes in (1, 1 << 20):
            splits = source.splits({}, {partition: end}, split_bytes)
            found = [rows for each in splits for rows in source.read(each)]
            assert pa.Table.from_batches(found, SOURCE).to_pylist() == expected.to_pylist()
