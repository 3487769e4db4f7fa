"""The current state of every group: gold_partition_status, gold_group_status, gold_diagnosis.

A stuck group writes nothing: it becomes stuck because time passes. Therefore, each batch that has
caught up with the log recomputes all groups, from the state tables and the gold rows of the last
day. Until then, the previous rows remain.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ..columns import OF_GROUP, columns
from ..diagnosis.checks import diagnose
from ..diagnosis.consumer_group import consumer_group
from ..diagnosis.facts import GroupFacts
from ..diagnosis.group_history import (
    Commit,
    Generation,
    LogEnd,
    Member,
    PartitionWindow,
    TopicPartition,
)
from ..diagnosis.rows import GroupLifecycle, MemberExit, Rebalance, Skew, Storm
from ..diagnosis.status import CurrentGroup, group_status, partition_status, state_of
from ..lake.spark_frames import spark_schema
from .batch import Batch
from .collect import GENERATION, row_in_ms, union_parts
from .generations import GROUP_KEY, newest, newest_rows
from .histories import generation_of, list_field, parts_of, table_rows

_TOPIC: Final = ["cluster", "topic", "partition"]
# The part of a group's past that is used: one day, and at most the newest 500 rows of each table
# (one rebalance every ten seconds is 360 an hour).
_RECENT_MS: Final = 24 * 3_600_000
_ROWS_MAX: Final = 500
# The samples of a partition that are used: the newest ten, and for each doubling of age, up to a
# week, the first one. Few old samples are enough, because the time lag of a consumer that is hours
# behind may be off by minutes.
_SAMPLES_MAX: Final = 10
# gold table -> (its time column, the column it is ordered by)
_PAST: Final = {
    "gold_rebalance": ("synced_at", "log_offset"),
    "gold_member_exit": ("left_at", "log_offset"),
    "gold_rebalance_storm": ("to_ts", "to_ts"),
}
# Without lag, only the log's rate is needed, for which two samples suffice.
_SAMPLES: Final = """CASE WHEN samples IS NULL THEN NULL
    WHEN element_at(samples, -1).log_end <= element_at(points, -1).offset AND size(samples) > 2
    THEN array(element_at(samples, greatest(-size(samples), -10)), element_at(samples, -1))
    ELSE samples END"""
_WINDOW: Final = """struct(topic, partition, points.offset AS offsets, points.at_ms AS at_ms,
    points.lag AS lags, element_at(points, -1).last_ms AS last_ms, samples.sampled_ms AS sampled_ms,
    samples.log_end AS log_ends, samples.log_start AS log_starts) AS window"""

RESULT: Final = pa.schema(
    [
        *columns(OF_GROUP),
        *map(list_field, ("gold_partition_status", "gold_group_status", "gold_diagnosis")),
    ]
)
"""One row per group, which contains the group's rows of each table."""


# --- the layer


def tables(batch: Batch) -> dict[str, DataFrame]:
    if not batch.caught_up:
        return {}
    now_ms = int(batch.now.timestamp() * 1000)
    results = batch.cache(
        _parts(batch, now_ms)
        .groupBy(*GROUP_KEY)
        .applyInArrow(lambda parts: status_of_group(parts, now_ms), spark_schema(RESULT))
    )
    names = [name for name in RESULT.names if name.startswith("gold_")]
    return {name: results.selectExpr(f"inline({name})") for name in names}


def _parts(batch: Batch, now_ms: int) -> DataFrame:
    """Return the input of the rules. Each row contains one part, in the column named after the
    part."""
    samples = _current_samples(batch.new("state_log_end"), batch.now)
    windows = (
        # A group may be in two partitions of the offsets topic if partitions were added. The one
        # with the newest commit is used.
        batch.new("state_window")
        .groupBy(*GROUP_KEY, "topic", "partition")
        .agg(F.expr("max_by(points, element_at(points, -1).last_ms) AS points"))
        .join(samples, ["cluster", "topic", "partition"], "left")
        .withColumn("samples", F.expr(_SAMPLES))
        .selectExpr(*GROUP_KEY, _WINDOW)
    )
    generations = batch.new("state_generation")
    last = newest(generations).selectExpr(*GROUP_KEY, f"struct({GENERATION}) AS generation")
    with_members = newest(generations.where("size(member_list) > 0"))
    with_members = with_members.selectExpr(*GROUP_KEY, f"struct({GENERATION}) AS last_with_members")
    consumers = batch.new("state_consumer").selectExpr(*GROUP_KEY, "struct(key, value) AS consumer")
    frames = [windows, last, with_members, consumers]
    for table, (time, order) in _PAST.items():
        recent = batch.new(table).where(F.unix_millis(time) >= now_ms - _RECENT_MS)
        newest_of_table = newest_rows(recent, GROUP_KEY, order, _ROWS_MAX)
        frames.append(newest_of_table.select(*GROUP_KEY, row_in_ms(table)))
    newest_offset = F.max("log_offset").over(Window.partitionBy(*GROUP_KEY))
    skews = batch.new("gold_skew").withColumn("newest", newest_offset).where("log_offset = newest")
    frames.append(skews.select(*GROUP_KEY, row_in_ms("gold_skew")))
    lifecycles = batch.new("gold_group_lifecycle")
    frames.append(lifecycles.select(*GROUP_KEY, row_in_ms("gold_group_lifecycle")))
    return union_parts(frames)


def _current_samples(samples: DataFrame, now: datetime) -> DataFrame:
    """Return the samples from which each partition's status is computed, sorted by time."""
    newest_first = Window.partitionBy(*_TOPIC).orderBy(F.desc("sampled_at"))
    age_ms = F.unix_millis(F.lit(now)) - F.unix_millis("sampled_at")
    doubling = F.floor(F.log2(F.greatest(age_ms, F.lit(60_000)) / 60_000))
    of_age = Window.partitionBy(*_TOPIC, "doubling").orderBy("sampled_at")
    sample = F.struct(F.unix_millis("sampled_at").alias("sampled_ms"), "log_end", "log_start")
    return (
        samples.where(F.col("sampled_at") <= F.lit(now))
        .withColumn("doubling", doubling)
        .withColumn("n", F.row_number().over(newest_first))
        .withColumn("of_age", F.row_number().over(of_age))
        .where((F.col("n") <= _SAMPLES_MAX) | (F.col("of_age") == 1))
        .groupBy(*_TOPIC)
        .agg(F.array_sort(F.collect_list(sample)).alias("samples"))
    )


# --- one group

# If the newest sample is older than this, and older than two periods, the current log end is
# unknown.
TRUSTED_MS: Final = 60_000
_SECOND_MS: Final = 1000


def status_of_group(parts: pa.Table, now_ms: int) -> pa.Table:
    """Return the rows of the group that `parts` belong to, as a table of schema RESULT."""
    cluster, group = parts["cluster"][0].as_py(), parts["group"][0].as_py()
    generation = next(map(generation_of, parts_of(parts, "generation")), None)
    rows = sorted(parts_of(parts, "window"), key=lambda row: (row["topic"], row["partition"]))
    records = parts_of(parts, "consumer")
    consumer = consumer_group((row["key"], row["value"]) for row in records)
    # A day after a group was deleted, only its gold rows remain.
    if consumer is None and generation is None and not rows:
        return RESULT.empty_table()
    owners = _owners(generation)
    windows = [_window(row, owners, now_ms) for row in rows]
    state = state_of(generation, windows, now_ms) if consumer is None else consumer.state
    now = CurrentGroup(cluster, group, now_ms, generation, state, consumer)
    partitions = [partition_status(now, window) for window in windows]
    rebalances = [Rebalance(**row) for row in parts_of(parts, "gold_rebalance")]
    rebalances.sort(key=lambda row: row.log_offset)
    status = group_status(now, partitions, rebalances)
    exits = [MemberExit(**row) for row in parts_of(parts, "gold_member_exit")]
    storms = [Storm(**row) for row in parts_of(parts, "gold_rebalance_storm")]
    skews = [Skew(**row) for row in parts_of(parts, "gold_skew")]
    lifecycles = (GroupLifecycle(**row) for row in parts_of(parts, "gold_group_lifecycle"))
    facts = GroupFacts(
        group=group,
        as_of_ms=now_ms,
        generation=generation,
        status=status,
        partitions=partitions,
        rebalances=rebalances,
        exits=sorted(exits, key=lambda row: (row.log_offset, row.member_id)),
        storms=sorted(storms, key=lambda row: row.from_ts),
        skews=sorted(skews, key=lambda row: (row.log_offset, row.topic or "")),
        lifecycle=next(lifecycles, None),
        last_with_members=next(map(generation_of, parts_of(parts, "last_with_members")), None),
        consumer=consumer,
    )
    result: Mapping[str, Sequence[NamedTuple]] = {
        "gold_partition_status": partitions,
        "gold_group_status": [status],
        "gold_diagnosis": [diagnose(cluster, facts)],
    }
    columns_ = {name: table_rows(name, found) for name, found in result.items()}
    return pa.Table.from_pylist([{"cluster": cluster, "group": group, **columns_}], schema=RESULT)


def _owners(generation: Generation | None) -> dict[TopicPartition, Member]:
    """Return the owners. If two members have the same partition, the first by id is used, as in
    silver_commit."""
    members = () if generation is None else generation.members
    by_id = sorted(members, key=lambda member: member.member_id, reverse=True)
    return {tp: member for member in by_id for tp in member.assigned or ()}


def _window(
    row: dict[str, Any], owners: dict[TopicPartition, Member], now_ms: int
) -> PartitionWindow:
    topic, partition = row["topic"], row["partition"]
    samples = zip(
        row["log_starts"] or (), row["log_ends"] or (), row["sampled_ms"] or (), strict=True
    )
    log_ends = [LogEnd(topic, partition, start, end, at_ms) for start, end, at_ms in samples]
    owner = owners.get((topic, partition))
    return PartitionWindow(topic, partition, _commits(row), _trusted(log_ends, now_ms), owner)


def _commits(row: dict[str, Any]) -> tuple[Commit, ...]:
    """Return the commits, moved so that they are at least one second apart, because Burrow's rules
    would merge closer ones."""
    commits: list[Commit] = []
    for offset, at_ms, lag in zip(row["offsets"], row["at_ms"], row["lags"], strict=True):
        if commits:
            at_ms = max(at_ms, commits[-1].commit_ms + _SECOND_MS)
        commits.append(Commit(offset, at_ms, lag))
    # The last commit keeps its exact time, at which the current silence starts.
    last = commits[-1]
    commits[-1] = last._replace(commit_ms=max(last.commit_ms, row["last_ms"]))
    return tuple(commits)


def _trusted(samples: list[LogEnd], now_ms: int) -> tuple[LogEnd, ...]:
    """Return all samples, or none if the newest is too old."""
    if not samples:
        return ()
    newest_ms = samples[-1].sampled_ms
    period = newest_ms - samples[-2].sampled_ms if len(samples) > 1 else 0
    return tuple(samples) if now_ms - newest_ms <= max(TRUSTED_MS, 2 * period) else ()
