"""Group histories of a data folder, computed in memory, without Spark."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, pairwise
from pathlib import Path
from statistics import median_low
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from kohort.log.batch import HEADER_BYTES, check, read_header
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.diagnosis.consumer_group import RECORD_TYPES, decode_record
from kohort.pipeline.diagnosis.group_history import (
    Activity,
    Event,
    Generation,
    GroupHistory,
    LogEnd,
    Member,
    Removal,
    TopicPartition,
)
from kohort.pipeline.layers.epochs import epochs
from kohort.pipeline.layers.histories import generation_of
from kohort.pipeline.source.batches import walk
from kohort.pipeline.source.decoding import decode
from kohort.topics.names import OFFSETS_TOPIC

POSITION = ("offsets_partition", "log_offset", "append_ts", "missing_before", "group")
COMMIT = (*POSITION, "topic", "partition", "offset", "commit_ts", "tombstone")
GROUP = (*POSITION, "generation", "protocol", "leader", "state_ts", "members", "tombstone")
SAMPLE_MS = 30_000  # a typical sampling interval of lag exporters


def read_histories(
    folder: Path, as_of_ms: int, *, with_events: bool, sample_ms: int = SAMPLE_MS
) -> list[GroupHistory]:
    return group_histories(
        read_log(folder),
        as_of_ms,
        read_log_ends(folder, sample_ms),
        read_events(folder) if with_events else None,
    )


def read_log(folder: Path) -> Iterator[pa.RecordBatch]:
    """Read the offsets log. Raises CorruptBatch at a batch that is being written."""
    return chain.from_iterable(map(_rows, sorted(folder.glob(f"{OFFSETS_TOPIC}-*"))))


def _rows(partition: Path) -> Iterator[pa.RecordBatch]:
    """Decode a partition in one piece, because batches have few records."""
    segments = [path.read_bytes() for path in sorted(partition.glob("*.log"))]
    index = int(partition.name.rpartition("-")[2])
    data = b"".join(segments)
    chunk, end = walk(data)
    if end < len(data):
        check(data, end, len(data))
    return decode([chunk], index, 0)


def read_events(folder: Path) -> dict[str, list[Event]]:
    """Read the event log (docs/events.md)."""
    found: dict[str, list[Event]] = {}
    for path in sorted((folder / "events").glob("*.jsonl")):
        for text in path.read_text().splitlines():
            line = json.loads(text)
            known = {name: line[name] for name in Event._fields if name in line}
            at_ms = _ms(datetime.fromisoformat(line["ts"])) or 0
            found.setdefault(line["group"], []).append(Event(ts_ms=at_ms, **known))
    return found


def read_log_ends(folder: Path, sample_ms: int) -> list[LogEnd]:
    """Sample log ends from the segments of the topics: each batch gives a time and a log end."""
    found = list[LogEnd]()
    for path in folder.glob("[!_]*-*/*.log"):
        topic, _, index = path.parent.name.rpartition("-")
        due_ms = 0
        for ms, end in _batches(path.read_bytes()):
            if ms >= due_ms:
                due_ms = ms + sample_ms
                found.append(LogEnd(topic, int(index), 0, end, ms))
    return sorted(found, key=lambda each: each.sampled_ms)


def _batches(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at + HEADER_BYTES <= len(data):
        header = read_header(data, at)
        at += header.size
        yield header.max_timestamp, header.next_offset


def group_histories(
    rows: Iterable[pa.RecordBatch],
    as_of_ms: int = 0,
    log_ends: Sequence[LogEnd] = (),
    events: Mapping[str, Sequence[Event]] | None = None,
) -> list[GroupHistory]:
    """One for each group in the log or in the event log (`events`, by group).

    `rows` have the schema columns.SOURCE, those of an offsets partition in order. Transactional
    commits count at their position even if they were aborted. `log_ends` are ordered by time.
    """
    groups: defaultdict[str, _Group] = defaultdict(_Group)
    gaps = dict[int, int]()
    for row in _in_order(rows):
        partition = row["offsets_partition"]
        if row["missing_before"]:
            gaps[partition] = row["log_offset"]
        groups[row["group"]].add(row, gaps.get(partition, -1))
    events = events or {}
    return [
        groups[name].history(name, as_of_ms, log_ends, events.get(name, ()))
        for name in sorted({*groups, *events})
    ]


def _in_order(rows: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    # Only the columns that are needed: converting nested columns of all rows is slow.
    table = pa.Table.from_batches(rows, SOURCE)
    found = list[dict[str, Any]]()
    for kind, names in (("commit", COMMIT), ("group", GROUP)):
        of_kind = table.filter(pc.equal(table["kind"], kind))
        found += [{"kind": kind, **row} for row in of_kind.select(list(names)).to_pylist()]
    found += _of_consumer_groups(table)
    return sorted(found, key=lambda row: (row["offsets_partition"], row["log_offset"]))


def _of_consumer_groups(table: pa.Table) -> list[dict[str, Any]]:
    """The rows that stand for the records of consumer groups (KIP-848)."""
    ids = table.filter(table["topic_id"].is_valid()).select(["topic_id", "topic"]).to_pylist()
    names = {row["topic_id"]: row["topic"] for row in ids}
    records = table.filter(pc.is_in(table["key_version"], pa.array(RECORD_TYPES, pa.int16())))
    groups = defaultdict[str, list[dict[str, Any]]](list)
    for row in records.select([*POSITION, "key", "value", "control"]).to_pylist():
        entry = None if row["control"] else decode_record(row["key"], row["value"])
        if entry is not None:
            groups[entry.key["groupId"]].append(
                {**row, "cluster": "", "group": entry.key["groupId"]}
            )
    return [
        {**row, "kind": "group", "missing_before": 0}
        for rows in groups.values()
        for row in epochs(pa.Table.from_pylist(rows), names).to_pylist()
    ]


class _Commits:
    """The commits of one partition in one generation: what Activity is computed from."""

    def __init__(self) -> None:
        self.times, self.offsets = list[int](), list[int]()
        self.last_log_offset = -1
        self.repeats = 0
        self.last_advance_ms: int | None = None
        self.history_complete = True


class _Group:
    def __init__(self) -> None:
        self._generations = list[Generation]()
        self._commits = dict[tuple[TopicPartition, int | None], _Commits]()
        self._removals = list[Removal]()
        self._committed = dict[TopicPartition, int]()
        self._generation: int | None = None  # the log offset of the current one

    def add(self, row: Mapping[str, Any], gap_at: int) -> None:
        """`gap_at`: the last log offset before which compaction removed records; -1: none."""
        if row["kind"] == "group":
            if self._generations and self._continues(row):
                self._generations.pop()
            last = self._generations[-1].log_offset if self._generations else -1
            self._generations.append(_generation(row, gap_at, complete=gap_at <= last))
            self._generation = None if row["tombstone"] else row["log_offset"]
            return
        tp = row["topic"], row["partition"]
        if row["tombstone"]:
            self._committed.pop(tp, None)
            removed_ms = _ms(row["append_ts"]) or 0
            self._removals.append(Removal(*tp, row["log_offset"], removed_ms))
            return
        commits = self._commits.setdefault((tp, self._generation), _Commits())
        commit_ms = _ms(row["commit_ts"]) or _ms(row["append_ts"]) or 0
        before = self._committed.get(tp)
        if before is not None and row["offset"] > before:
            commits.last_advance_ms = commit_ms
        commits.repeats += row["offset"] == before
        commits.times.append(commit_ms)
        commits.offsets.append(row["offset"])
        commits.last_log_offset = row["log_offset"]
        commits.history_complete &= gap_at <= (-1 if self._generation is None else self._generation)
        self._committed[tp] = row["offset"]

    def _continues(self, row: Mapping[str, Any]) -> bool:
        """Whether the last tombstone was written because the group changed its protocol."""
        before = self._generations[-1]
        return (
            before.tombstone and not row["tombstone"] and before.append_ms == _ms(row["append_ts"])
        )

    def history(
        self,
        group: str,
        as_of_ms: int,
        log_ends: Sequence[LogEnd],
        events: Sequence[Event],
    ) -> GroupHistory:
        partitions = {tp for tp, _ in self._commits}
        return GroupHistory(
            "truth",
            group,
            as_of_ms,
            tuple(self._generations),
            tuple(_activity(*key, commits) for key, commits in self._commits.items()),
            tuple(self._removals),
            tuple(end for end in log_ends if (end.topic, end.partition) in partitions),
            tuple(events),
        )


def _activity(tp: TopicPartition, generation: int | None, commits: _Commits) -> Activity:
    times = commits.times
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return Activity(
        *tp,
        generation_log_offset=generation,
        commits=len(times),
        repeats=commits.repeats,
        first_commit_ms=times[0],
        last_commit_ms=times[-1],
        last_advance_ms=commits.last_advance_ms,
        last_offset=commits.offsets[-1],
        last_log_offset=commits.last_log_offset,
        median_gap_ms=median_low(gaps) if gaps else None,
        history_complete=commits.history_complete,
    )


def _generation(row: Mapping[str, Any], gap_at: int, *, complete: bool) -> Generation:
    members = [{name: each[name] for name in Member._fields} for each in row["members"] or ()]
    more = {
        "members": members,
        "state_ms": _ms(row["state_ts"]),
        "append_ms": _ms(row["append_ts"]),
        "history_complete": complete,
        "last_gap": None if gap_at < 0 else gap_at,
        "metadata_hash": row.get("metadata_hash"),
    }
    return generation_of({**row, **more})


def _ms(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1_000)
