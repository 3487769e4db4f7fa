"""Planning of batches, and detection of another log."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.log.segment import segment_name
from kohort.pipeline.inputs import Inputs, LogMismatch, share_records
from kohort.pipeline.lake.manifest import Manifest
from offset_logs import NOW_MS, batch_of, commit

ALL = 1_000_000


@pytest.fixture
def data(offsets_log: Any) -> Path:
    offsets_log.append(3, *map(commit, range(30)), at_ms=NOW_MS)
    offsets_log.append(7, *map(commit, range(10)), at_ms=NOW_MS)
    return offsets_log.path


def test_a_batch_reads_from_the_positions_of_the_lake_to_the_end(data: Path) -> None:
    inputs = Inputs({"path": str(data)})
    plan = inputs.plan(Manifest(), ALL)
    assert (plan.end, plan.records, plan.left, plan.caught_up) == ({3: 30, 7: 10}, 40, 0, True)
    plan = inputs.plan(Manifest(cluster=inputs.cluster, positions={3: 25, 7: 10}), ALL)
    assert (plan.start[3], plan.end, plan.records) == (25, {3: 30}, 5)
    plan = inputs.plan(Manifest(positions={3: 30, 7: 10}), ALL)
    assert (plan.end, plan.records, plan.caught_up) == ({}, 0, True)


def test_records_compacted_before_they_were_read_count_as_missing(tmp_path: Path) -> None:
    """Five of nine planned records were read; compaction removed the other four."""
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    batches = [batch_of(offset, commit(offset)) for offset in (*range(5), 9, 10)]
    (folder / segment_name(0)).write_bytes(b"".join(batches))
    inputs = Inputs({"path": str(tmp_path)})
    plan = inputs.plan(Manifest(positions={3: 9}, inputs={"read_to": {"3": 5}}), ALL)
    rows = pa.Table.from_batches(inputs.records(plan)).select(["log_offset", "missing_before"])
    assert [tuple(row.values()) for row in rows.to_pylist()] == [(9, 4), (10, 0)]
    assert (plan.end, plan.records) == ({3: 11}, 2)


def test_partitions_advance_in_proportion_to_their_pending_records(data: Path) -> None:
    plan = Inputs({"path": str(data)}).plan(Manifest(), 20)
    assert (plan.end, plan.records, plan.left, plan.caught_up) == ({3: 15, 7: 5}, 20, 20, False)


@given(
    st.dictionaries(st.integers(0, 49), st.tuples(st.integers(0, 99), st.integers(0, 99))),
    st.integers(1, 200),
)
def test_shares_use_the_limit_and_every_partition_advances(
    spans: dict[int, tuple[int, int]], records_max: int
) -> None:
    waiting = {at: (begin, begin + count) for at, (begin, count) in spans.items()}
    plan = share_records(waiting, records_max)
    total = sum(count for _, count in spans.values())
    assert plan.records + plan.left == total
    # At most one more record per partition, because each partition with records reads at least one.
    assert min(total, records_max) <= plan.records <= min(total, records_max + len(spans))
    for at, (begin, end) in waiting.items():
        assert (at in plan.end) == (end > begin)
        assert begin <= plan.end.get(at, begin) <= end


def test_a_lake_of_another_log_is_rejected(data: Path) -> None:
    inputs = Inputs({"path": str(data)}, cluster="east")
    for positions in ({3: 31}, {4: 1}):
        with pytest.raises(LogMismatch, match=r"this log ends at \d+: it is another log, or"):
            inputs.plan(Manifest(cluster="east", positions=positions), ALL)
    with pytest.raises(LogMismatch, match=r"belongs to cluster west, not east: .*--cluster west"):
        inputs.plan(Manifest(cluster="west"), ALL)


def test_a_recreated_log_is_detected_by_its_topic_id(data: Path) -> None:
    inputs = Inputs({"path": str(data)}, cluster="east")

    def recreate(topic_id: str) -> str | None:
        text = f"version: 0\ntopic_id: {topic_id}\n"
        (data / "__consumer_offsets-7" / "partition.metadata").write_text(text)
        return inputs.source.log_id()

    assert inputs.plan(Manifest(cluster="east"), ALL).log_id is None
    before = recreate("7Q6p7h4vRkC6m3mY1q3YbA")
    lake = Manifest(cluster="east", positions={3: 10}, inputs={"log": before})
    assert inputs.plan(lake, ALL).log_id == before
    assert inputs.plan(Manifest(cluster="east", inputs={"log": None}), ALL).log_id == before
    after = recreate("AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(
        LogMismatch, match=rf"with id {before}, and this one has id {after}: the topic was"
    ):
        inputs.plan(lake, ALL)


def test_the_cluster_id_is_in_meta_properties_or_the_name_of_the_folder(data: Path) -> None:
    assert Inputs({"path": str(data)}).cluster == "data"
    (data / "meta.properties").write_text("version=1\ncluster.id=abc-DEF\nnode.id=0\n")
    assert Inputs({"path": str(data)}).cluster == "abc-DEF"
    assert Inputs({"path": str(data)}, cluster="east").cluster == "east"
