"""From Arrow to what the rules of status take, of one group, and back. Without Spark."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from ..columns import STRING, columns
from ..diagnosis.consumers import consumer_group
from ..diagnosis.findings import Findings
from ..diagnosis.rows import GroupLifecycle, MemberExit, Rebalance, Skew, Storm
from ..diagnosis.status import group_status, partition_statuses, state_of
from ..diagnosis.story import Commit, Generation, LogEnd, Member, TopicPartition
from ..diagnosis.story import Window as PartitionWindow
from ..diagnosis.verdict import diagnose
from .story_rows import generation_of, list_of, parts_of, rows_of

__all__ = ["TOLD", "told"]

TOLD: Final = pa.schema(
    [
        *columns(cluster_=STRING, group_=STRING),
        *[
            pa.field(f"gold_{name}", list_of(f"gold_{name}"))
            for name in ("partition_status", "group_status", "diagnosis")
        ],
    ]
)
"""What is told of a group: a row with its rows of each table."""

# A sample that is older than this, and than two of its periods, says nothing about now.
TRUSTED_MS: Final = 60_000
_SECOND_MS: Final = 1000


def told(parts: pa.Table, now_ms: int) -> pa.Table:
    """The rules' answers for the group that `parts` are of."""
    cluster, group = parts["cluster"][0].as_py(), parts["group"][0].as_py()
    generation = next(map(generation_of, parts_of(parts, "generation")), None)
    rows = sorted(parts_of(parts, "window"), key=lambda row: (row["topic"], row["partition"]))
    records = parts_of(parts, "consumer")
    consumer = consumer_group((row["key"], row["value"]) for row in records)
    if consumer is not None:
        generation = None  # what it was as a classic group holds no more
    elif generation is None and not rows:  # gone, and forgotten but by gold
        return TOLD.empty_table()
    owners = _owners(generation)
    all_ = [_window(row, owners, now_ms) for row in rows]
    state = state_of(generation, all_, now_ms) if consumer is None else consumer.state
    partitions = partition_statuses(cluster, group, all_, generation, now_ms, state, consumer)
    rebalances = [Rebalance(**row) for row in parts_of(parts, "gold_rebalance")]
    rebalances.sort(key=lambda row: row.log_offset)
    status = group_status(
        cluster, group, generation, partitions, rebalances, now_ms, state, consumer
    )
    exits = [MemberExit(**row) for row in parts_of(parts, "gold_member_exit")]
    storms = [Storm(**row) for row in parts_of(parts, "gold_rebalance_storm")]
    skews = [Skew(**row) for row in parts_of(parts, "gold_skew")]
    findings = Findings(
        group=group,
        as_of_ms=now_ms,
        generation=generation,
        status=status,
        partitions=partitions,
        rebalances=rebalances,
        exits=sorted(exits, key=lambda row: (row.log_offset, row.member_id)),
        storms=sorted(storms, key=lambda row: row.from_ts),
        skews=sorted(skews, key=lambda row: (row.log_offset, row.topic or "")),
        lifecycle=next(
            (GroupLifecycle(**row) for row in parts_of(parts, "gold_group_lifecycle")), None
        ),
        last_with_members=next(map(generation_of, parts_of(parts, "last_with_members")), None),
        consumer=consumer,
    )
    answers: dict[str, Sequence[NamedTuple]] = {
        "gold_partition_status": partitions,
        "gold_group_status": [status],
        "gold_diagnosis": [diagnose(cluster, findings)],
    }
    row = {name: rows_of(name, answer) for name, answer in answers.items()}
    return pa.Table.from_pylist([{"cluster": cluster, "group": group, **row}], schema=TOLD)


def _owners(generation: Generation | None) -> dict[TopicPartition, Member]:
    """Of two that were given one partition the first by id, as silver_commit has it."""
    members = () if generation is None else generation.members
    by_id = sorted(members, key=lambda member: member.member_id, reverse=True)
    return {at: member for member in by_id for at in member.assigned or ()}


def _window(
    row: dict[str, Any], owners: dict[TopicPartition, Member], now_ms: int
) -> PartitionWindow:
    topic, partition = row["topic"], row["partition"]
    return PartitionWindow(
        topic,
        partition,
        _commits(row),
        _trusted(
            [
                LogEnd(topic, partition, start, end, at_ms)
                for start, end, at_ms in zip(
                    row["log_starts"] or (),
                    row["log_ends"] or (),
                    row["sampled_ms"] or (),
                    strict=True,
                )
            ],
            now_ms,
        ),
        owners.get((topic, partition)),
    )


def _commits(row: dict[str, Any]) -> tuple[Commit, ...]:
    """One a second. Those that would lie nearer to each other, and be one to Burrow's rules, are
    moved apart by less than that."""
    commits: list[Commit] = []
    for offset, at_ms, lag in zip(row["offsets"], row["at_ms"], row["lags"], strict=True):
        if commits:
            at_ms = max(at_ms, commits[-1].commit_ms + _SECOND_MS)
        commits.append(Commit(offset, at_ms, lag))
    # The last one's time is asked for by itself: how long has there been none?
    last = commits[-1]
    commits[-1] = last._replace(commit_ms=max(last.commit_ms, row["last_ms"]))
    return tuple(commits)


def _trusted(samples: list[LogEnd], now_ms: int) -> tuple[LogEnd, ...]:
    """All, or none."""
    if not samples:
        return ()
    newest = samples[-1].sampled_ms
    period = newest - samples[-2].sampled_ms if len(samples) > 1 else 0
    return tuple(samples) if now_ms - newest <= max(TRUSTED_MS, 2 * period) else ()
