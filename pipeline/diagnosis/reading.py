"""Stories made of records as a source yields them, without Spark: for a log that fits in memory."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median_low
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..columns import SOURCE
from .story import Activity, Event, Generation, LogEnd, Member, Removal, Story, TopicPartition

__all__ = ["event", "stories"]

_PLACE: Final = ("offsets_partition", "log_offset", "append_ts", "missing_before", "group")
_COMMIT: Final = (*_PLACE, "topic", "partition", "offset", "commit_ts", "tombstone")
_GROUP: Final = (
    *_PLACE,
    "generation",
    "protocol_type",
    "protocol",
    "leader",
    "state_ts",
    "members",
    "tombstone",
)


def stories(
    rows: Iterable[pa.RecordBatch],
    *,
    cluster: str,
    as_of_ms: int,
    log_ends: Sequence[LogEnd] = (),
    events: Mapping[str, Sequence[Event]] | None = None,
) -> list[Story]:
    """One for each group that the log, or the event log (`events`: by group), tells of.

    `rows`: of schema columns.SOURCE, those of an offsets partition in their order. Commits of
    transactions count where they stand, whatever became of them. `log_ends` by time."""
    groups: defaultdict[str, _Group] = defaultdict(_Group)
    gaps = dict[int, int]()
    for row in _in_order(rows):
        partition = row["offsets_partition"]
        if row["missing_before"]:
            gaps[partition] = row["log_offset"]
        groups[row["group"]].add(row, gaps.get(partition, -1))
    events = events or {}
    return [
        groups[name].story(cluster, name, as_of_ms, log_ends, events.get(name, ()))
        for name in sorted({*groups, *events})
    ]


def event(line: Mapping[str, Any]) -> Event:
    """A line of the event log (docs/events.md), read as JSON."""
    known = {name: line[name] for name in Event._fields if name in line}
    return Event(ts_ms=_ms(datetime.fromisoformat(line["ts"])) or 0, **known)


def _in_order(rows: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Of commits and groups only what is needed: members are lists of lists."""
    table = pa.Table.from_batches(rows, SOURCE)
    found = list[dict[str, Any]]()
    for kind, names in (("commit", _COMMIT), ("group", _GROUP)):
        of_kind = table.filter(pc.equal(table["kind"], kind))
        found += [{"kind": kind, **row} for row in of_kind.select(list(names)).to_pylist()]
    return sorted(found, key=lambda row: (row["offsets_partition"], row["log_offset"]))


class _Share:
    """What Activity tells, as it grows."""

    def __init__(self) -> None:
        self.times, self.offsets = list[int](), list[int]()
        self.last_log_offset = -1
        self.repeats = 0
        self.last_advance_ms: int | None = None
        self.history_complete = True


class _Group:
    def __init__(self) -> None:
        self._generations = list[Generation]()
        self._shares = dict[tuple[TopicPartition, int | None], _Share]()
        self._removals = list[Removal]()
        self._committed = dict[TopicPartition, int]()
        self._in_force: int | None = None

    def add(self, row: Mapping[str, Any], gap_at: int) -> None:
        """`gap_at`: the last log offset before which compaction has taken something; -1: none."""
        if row["kind"] == "group":
            last = self._generations[-1].log_offset if self._generations else -1
            self._generations.append(_generation(row, gap_at, complete=gap_at <= last))
            self._in_force = None if row["tombstone"] else row["log_offset"]
            return
        place = row["topic"], row["partition"]
        if row["tombstone"]:
            self._committed.pop(place, None)
            removed_ms = _ms(row["append_ts"]) or 0
            self._removals.append(Removal(*place, row["log_offset"], removed_ms))
            return
        share = self._shares.setdefault((place, self._in_force), _Share())
        commit_ms = _ms(row["commit_ts"]) or _ms(row["append_ts"]) or 0
        before = self._committed.get(place)
        if before is not None and row["offset"] > before:
            share.last_advance_ms = commit_ms
        share.repeats += row["offset"] == before
        share.times.append(commit_ms)
        share.offsets.append(row["offset"])
        share.last_log_offset = row["log_offset"]
        share.history_complete &= gap_at <= (-1 if self._in_force is None else self._in_force)
        self._committed[place] = row["offset"]

    def story(
        self,
        cluster: str,
        group: str,
        as_of_ms: int,
        log_ends: Sequence[LogEnd],
        events: Sequence[Event],
    ) -> Story:
        places = {place for place, _ in self._shares}
        return Story(
            cluster,
            group,
            as_of_ms,
            tuple(self._generations),
            tuple(_activity(*key, share) for key, share in self._shares.items()),
            tuple(self._removals),
            tuple(end for end in log_ends if (end.topic, end.partition) in places),
            tuple(events),
        )


def _activity(place: TopicPartition, generation: int | None, share: _Share) -> Activity:
    gaps = [later - earlier for earlier, later in zip(share.times, share.times[1:], strict=False)]
    return Activity(
        *place,
        generation_log_offset=generation,
        commits=len(share.times),
        repeats=share.repeats,
        first_commit_ms=share.times[0],
        last_commit_ms=share.times[-1],
        last_advance_ms=share.last_advance_ms,
        first_offset=share.offsets[0],
        last_offset=share.offsets[-1],
        last_log_offset=share.last_log_offset,
        median_gap_ms=median_low(gaps) if gaps else None,
        history_complete=share.history_complete,
    )


def _generation(row: Mapping[str, Any], gap_at: int, *, complete: bool) -> Generation:
    return Generation(
        log_offset=row["log_offset"],
        offsets_partition=row["offsets_partition"],
        tombstone=row["tombstone"],
        generation=row["generation"],
        protocol_type=row["protocol_type"],
        protocol=row["protocol"],
        leader=row["leader"],
        state_ms=_ms(row["state_ts"]),
        append_ms=_ms(row["append_ts"]),
        members=tuple(map(_member, row["members"] or ())),
        history_complete=complete,
        last_gap=None if gap_at < 0 else gap_at,
    )


def _member(row: Mapping[str, Any]) -> Member:
    topics = row["topics"]
    return Member(
        row["member_id"],
        row["instance_id"],
        row["client_id"],
        row["client_host"],
        row["rebalance_timeout_ms"],
        row["session_timeout_ms"],
        None if topics is None else tuple(topics),
        _places(row["owned"]),
        _places(row["assigned"]),
    )


def _places(listed: Sequence[Mapping[str, Any]] | None) -> tuple[TopicPartition, ...] | None:
    return None if listed is None else tuple((each["topic"], each["partition"]) for each in listed)


def _ms(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1_000)
