"""`--reset-offsets`: which partitions, to which offsets, and whether for good."""

import argparse
import time
from collections.abc import Iterable
from pathlib import Path

from . import plans, tables
from .arguments import SCENARIOS, number
from .cluster import Cluster
from .errors import GROUP_ID_NOT_FOUND, CommandError, Refusal, RefusedError, UsageError
from .output import Output
from .plans import Offsets
from .rows import Partition, ResetRow
from .times import duration_ms, timestamp_ms


def reset(
    groups: Iterable[str], args: argparse.Namespace, cluster: Cluster, output: Output
) -> None:
    """Plan for each group, commit with --execute, show. A group with members gets no plan."""
    output.begin(ResetRow)
    plan: dict[str, Offsets] = {}
    for group, described in sorted(cluster.describe(groups).items()):
        plan[group] = {}
        if isinstance(described, Refusal):
            # A group that commits for the first time begins with this.
            if described.code != GROUP_ID_NOT_FOUND:
                raise RefusedError(described)
        elif described.state not in ("Empty", "Dead"):
            output.error(
                f"Assignments can only be reset if the group '{group}' is inactive, but the "
                f"current state is {described.state}."
            )
            continue
        plan[group] = dict(sorted(_new_offsets(group, args, cluster, output).items()))
        if args.execute and plan[group]:
            _commit(group, plan[group], cluster)
    rows = [
        ResetRow(group, *at, offset)
        for group, offsets in plan.items()
        for at, offset in offsets.items()
    ]
    if args.export:
        # With one blank line behind, as Kafka prints it.
        table = plans.exported(plan, with_group=len(args.group) != 1) + "\n"
    else:
        table = tables.reset(rows, plan)
    output.show(rows, table)


def _commit(group: str, offsets: Offsets, cluster: Cluster) -> None:
    try:
        cluster.alter(group, offsets)
    except RefusedError as error:
        raise CommandError(error.refusal.message) from error


def _new_offsets(group: str, args: argparse.Namespace, cluster: Cluster, output: Output) -> Offsets:
    partitions = _scope(group, args, cluster)
    if args.to_earliest:
        return cluster.starts(partitions)
    if args.to_latest:
        return cluster.ends(partitions)
    if args.to_current:
        return plans.current(partitions, cluster.committed(group), cluster.ends(partitions))
    if args.to_datetime is not None:
        return _since(partitions, timestamp_ms(args.to_datetime), cluster, output)
    if args.by_duration is not None:
        moment = int(time.time() * 1000) - duration_ms(args.by_duration)
        return _since(partitions, moment, cluster, output)
    if args.to_offset is not None:
        requested = dict.fromkeys(partitions, number(args.to_offset, "to-offset"))
    elif args.shift_by is not None:
        by = number(args.shift_by, "shift-by")
        requested = plans.shifted(partitions, cluster.committed(group), by)
    elif args.from_file is not None:
        requested = _from_file(group, args, output)
        _see_that_they_exist(requested, cluster)
    else:
        scenarios = ", ".join(f"[{scenario}]" for scenario in SCENARIOS)
        raise UsageError(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{scenarios}]"
        )
    offsets, warnings = plans.within(requested, cluster.starts(requested), cluster.ends(requested))
    for warning in warnings:
        output.notice(f"WARN {warning}")
    return offsets


def _since(
    partitions: list[Partition], timestamp_ms: int, cluster: Cluster, output: Output
) -> Offsets:
    found = cluster.since(partitions, timestamp_ms)
    offsets, nothing_newer = plans.at_time(found, cluster.ends(partitions))
    for topic, partition in nothing_newer:
        output.warning(
            f"\nWarn: Partition {partition} from topic {topic} is empty. "
            "Falling back to latest known offset."
        )
    return offsets


def _scope(group: str, args: argparse.Namespace, cluster: Cluster) -> list[Partition]:
    """The partitions of the flags, which exist."""
    if args.all_topics:
        partitions = list(cluster.committed(group))
    elif args.topic:
        named = [at for topic in args.topic if ":" in topic for at in plans.partitions_of(topic)]
        leaders, unknown = cluster.leaders(topic for topic in args.topic if ":" not in topic)
        for refused in unknown.values():
            raise CommandError(refused.message)
        partitions = list(dict.fromkeys([*named, *leaders]))
    elif args.from_file is not None:
        return []
    else:
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    _see_that_they_exist(partitions, cluster)
    return partitions


def _see_that_they_exist(partitions: Iterable[Partition], cluster: Cluster) -> None:
    leaders, _ = cluster.leaders(at.topic for at in partitions)
    missing = [str(at) for at in partitions if at not in leaders]
    if missing:
        raise CommandError(f'The partitions "{",".join(missing)}" do not exist')
    leaderless = [str(at) for at in partitions if leaders[at] < 0]
    if leaderless:
        raise CommandError(f'The partitions "{",".join(leaderless)}" have no leader')


def _from_file(group: str, args: argparse.Namespace, output: Output) -> Offsets:
    try:
        text = Path(args.from_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"java.io.IOException: Unable to read file {args.from_file}") from error
    plan = plans.imported(text, args.group)
    if group not in plan:
        output.error(f"No reset plan for group {group} found")
    return plan.get(group, {})
