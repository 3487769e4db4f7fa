"""--reset-offsets: a plan of new offsets, which --execute commits."""

import argparse
import csv
import io
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Final, TypeAlias

from ...printable import shortened
from .arguments import SCENARIOS, integer
from .cluster import Cluster, Committed, Partition
from .errors import GROUP_ID_NOT_FOUND, BrokerError, CommandError, RequestFailed, UsageError
from .tables import Output, ResetRow, reset_table

Offsets: TypeAlias = dict[Partition, int]

INT_MAX: Final = 2**31 - 1
INT_DIGITS_MAX: Final = 10
LONG_MAX: Final = 2**63 - 1
LONG_DIGITS_MAX: Final = 19


def reset(args: argparse.Namespace, cluster: Cluster, output: Output) -> None:
    """Print the new offsets of each group, and commit them with --execute. Groups with members are
    skipped."""
    output.begin(ResetRow)
    plan: dict[str, Offsets] = {}
    for group, described in sorted(cluster.describe(selected_groups(args, cluster)).items()):
        plan[group] = {}
        if isinstance(described, BrokerError):
            # A group that does not exist can be reset, because the first commit creates it.
            if described.code != GROUP_ID_NOT_FOUND:
                raise RequestFailed(described)
        elif described.state not in ("Empty", "Dead"):
            output.error(
                f"Assignments can only be reset if the group '{group}' is inactive, but the "
                f"current state is {described.state}."
            )
            continue
        plan[group] = dict(sorted(_new_offsets(group, args, cluster, output).items()))
        if args.execute and plan[group]:
            try:
                cluster.commit(group, plan[group])
            except RequestFailed as failed:
                raise CommandError(failed.error.message) from failed
    rows = [
        ResetRow(group, *at, offset)
        for group, offsets in plan.items()
        for at, offset in offsets.items()
    ]
    # Kafka prints a blank line after an exported plan.
    exported = export_plan(plan, with_group=len(args.group) != 1) + "\n"
    output.show(rows, exported if args.export else reset_table(rows, plan))


def _new_offsets(group: str, args: argparse.Namespace, cluster: Cluster, output: Output) -> Offsets:
    partitions = _selected_partitions(group, args, cluster)
    if args.to_earliest:
        return cluster.start_offsets(partitions)
    if args.to_latest:
        return cluster.end_offsets(partitions)
    if args.to_current:
        end_offsets = cluster.end_offsets(partitions)
        committed = {at: entry.offset for at, entry in cluster.committed(group).items()}
        return {at: committed.get(at, end_offsets[at]) for at in partitions}
    if args.to_datetime is not None:
        return _offsets_at(partitions, parse_datetime(args.to_datetime), cluster, output)
    if args.by_duration is not None:
        timestamp_ms = int(time.time() * 1000) - parse_duration(args.by_duration)
        return _offsets_at(partitions, timestamp_ms, cluster, output)
    if args.to_offset is not None:
        requested = dict.fromkeys(partitions, integer(args.to_offset, "to-offset"))
    elif args.shift_by is not None:
        by = integer(args.shift_by, "shift-by")
        requested = shifted_offsets(partitions, cluster.committed(group), by)
    elif args.from_file is not None:
        requested = _from_file(group, args, output)
        _check_partitions(requested, cluster)
    else:
        scenarios = ", ".join(f"[{scenario}]" for scenario in SCENARIOS)
        raise UsageError(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{scenarios}]"
        )
    start_offsets = cluster.start_offsets(requested)
    offsets, warnings = clamp_offsets(requested, start_offsets, cluster.end_offsets(requested))
    for warning in warnings:
        output.notice(f"WARN {warning}")
    return offsets


def _offsets_at(
    partitions: list[Partition], timestamp_ms: int, cluster: Cluster, output: Output
) -> Offsets:
    """Return the first offset with this timestamp or a later one, or the log end, by partition."""
    timestamp_ms = min(max(timestamp_ms, 0), LONG_MAX)  # negative timestamps have other meanings
    offsets = cluster.end_offsets(partitions)
    for at, offset in cluster.offsets_for_time(partitions, timestamp_ms).items():
        if offset is not None:
            offsets[at] = offset
        else:
            output.warning(
                f"\nWarn: Partition {at.partition} from topic {at.topic} is empty. "
                "Falling back to latest known offset."
            )
    return offsets


def selected_groups(args: argparse.Namespace, cluster: Cluster) -> list[str]:
    """Return the groups of --all-groups or --group."""
    if args.all_groups:
        return [group for group, _, _ in cluster.list_groups([], [])]
    return list(dict.fromkeys(args.group))


def _selected_partitions(group: str, args: argparse.Namespace, cluster: Cluster) -> list[Partition]:
    """Return the partitions of --all-topics or --topic, validated."""
    if args.all_topics:
        partitions = list(cluster.committed(group))
    elif args.topic:
        named = [at for topic in args.topic if ":" in topic for at in partitions_of(topic)]
        leaders, unknown = cluster.leaders(topic for topic in args.topic if ":" not in topic)
        for error in unknown.values():
            raise CommandError(error.message)
        partitions = list(dict.fromkeys([*named, *leaders]))
    elif args.from_file is not None:
        return []
    else:
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    _check_partitions(partitions, cluster)
    return partitions


def _check_partitions(partitions: Iterable[Partition], cluster: Cluster) -> None:
    """Raise CommandError for partitions that do not exist or have no leader."""
    leaders, _ = cluster.leaders(at.topic for at in partitions)
    if missing := ",".join(str(at) for at in partitions if at not in leaders):
        raise CommandError(f'The partitions "{missing}" do not exist')
    if leaderless := ",".join(str(at) for at in partitions if leaders[at] < 0):
        raise CommandError(f'The partitions "{leaderless}" have no leader')


def _from_file(group: str, args: argparse.Namespace, output: Output) -> Offsets:
    try:
        text = Path(args.from_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"java.io.IOException: Unable to read file {args.from_file}") from error
    plan = import_plan(text, args.group)
    if group not in plan:
        output.error(f"No reset plan for group {group} found")
    return plan.get(group, {})


# --- new offsets


def partitions_of(topic_argument: str) -> list[Partition]:
    """Return the partitions of `orders:0,2`. Raises UsageError."""
    topic, _, numbers = topic_argument.partition(":")
    if not topic or not numbers or ":" in numbers:
        raise UsageError(
            f"Invalid topic arg '{topic_argument}', expected topic name and partitions"
        )
    for number in numbers.split(","):
        is_number = number.isascii() and number.isdecimal() and len(number) <= INT_DIGITS_MAX
        if not is_number or int(number) > INT_MAX:
            raise UsageError(
                f"Invalid partition '{number}' specified in topic arg '{topic_argument}''"
            )
    return [Partition(topic, int(number)) for number in numbers.split(",")]


def clamp_offsets(
    requested: Mapping[Partition, int],
    start_offsets: Mapping[Partition, int],
    end_offsets: Mapping[Partition, int],
) -> tuple[Offsets, list[str]]:
    """Return the offsets, limited to the range of each log, and a warning for each change."""
    new: Offsets = {}
    warnings: list[str] = []
    for at, offset in requested.items():
        new[at] = min(max(offset, start_offsets[at]), end_offsets[at])
        if new[at] != offset:
            which = "higher than latest" if offset > new[at] else "lower than earliest"
            warnings.append(
                f"New offset ({offset}) is {which} offset for topic partition {at}. "
                f"Value will be set to {new[at]}."
            )
    return new, warnings


def shifted_offsets(
    partitions: Iterable[Partition], committed: Mapping[Partition, Committed], by: int
) -> Offsets:
    """Return the committed offsets plus `by`. Raises UsageError if one is missing."""
    try:
        return {at: committed[at].offset + by for at in partitions}
    except KeyError as error:
        raise UsageError(
            f"Cannot shift offset for partition {error.args[0]} since there is no current "
            "committed offset"
        ) from error


# --- plans as CSV


def export_plan(plan: Mapping[str, Offsets], *, with_group: bool) -> str:
    """Return a line `group,topic,partition,offset` for each offset; the group is optional."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, offsets in plan.items():
        for at, offset in offsets.items():
            writer.writerow(([group] if with_group else []) + [at.topic, at.partition, offset])
    return text.getvalue()


def import_plan(text: str, groups: list[str]) -> dict[str, Offsets]:
    """Parse an exported plan. Lines without a group apply to the only group of `groups`. Raises
    CommandError, also for missing fields, which Kafka replaces with partition 0 and offset 0."""
    plan: dict[str, Offsets] = {}
    columns = "topic,partition,offset" if len(groups) == 1 else "group,topic,partition,offset"
    lines = csv.reader(io.StringIO(text))
    try:
        for number, fields in enumerate(lines, 1):
            if not fields:
                continue
            complete = [groups[0], *fields] if len(fields) == 3 and len(groups) == 1 else fields
            if len(complete) != 4 or not _are_numbers(*complete[2:]):
                line = shortened(",".join(fields))
                raise CommandError(
                    f"invalid line {number} of the plan: '{line}', expected {columns}"
                )
            group, topic, partition, offset = complete
            plan.setdefault(group, {})[Partition(topic, int(partition))] = int(offset)
    except csv.Error as error:  # a field of more than 131,072 characters
        raise CommandError(
            f"invalid line {lines.line_num} of the plan: {error}, expected {columns}"
        ) from error
    return plan


def _are_numbers(partition: str, offset: str) -> bool:
    limits = ((partition, INT_DIGITS_MAX), (offset, LONG_DIGITS_MAX))
    return all(text.isdecimal() and len(text) <= digits for text, digits in limits)


# --- times

# SimpleDateFormat "yyyy-MM-dd'T'HH:mm:ss.SSSX": milliseconds are required (Utils.getDateTime).
DATETIME: Final = re.compile(
    r"(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d{1,3})(Z|[+-]\d\d(?::?\d\d)?)", re.ASCII
)
DURATION_CHARS_MAX: Final = 100
# java.time.Duration.parse.
DURATION: Final = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?"
    r"(?:T(?=[+-]?\d)(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)


def parse_datetime(text: str) -> int:
    """Parse a time such as `2026-11-21T14:00:00.000`, in UTC unless a zone follows, and return it
    in milliseconds since the epoch. Raises CommandError."""
    _, t, time_of_day = text.partition("T")
    if not t or not time_of_day:
        raise CommandError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' "
            "according to ISO8601 format"
        )
    zoned = text if any(sign in time_of_day for sign in "+-Z") else f"{text}Z"
    invalid = CommandError(f'java.text.ParseException: Unparseable date: "{zoned}"')
    match = DATETIME.fullmatch(zoned)
    if match is None:
        raise invalid
    try:
        year, month, day, hour, minute, second, ms = map(int, match.groups()[:7])
        parsed = datetime(year, month, day, hour, minute, second, tzinfo=_zone(match[8]))
    except (ValueError, OverflowError) as error:
        raise invalid from error
    return (parsed - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) + ms


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    hours, minutes = int(text[1:3]), int(text[3:].lstrip(":") or 0)
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


def parse_duration(text: str) -> int:
    """Parse a duration such as `PT1H30M` or `P1DT2.5S`, and return it in milliseconds. Raises
    CommandError."""
    match = DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:5]) or len(text) > DURATION_CHARS_MAX:
        raise CommandError("Text cannot be parsed to a Duration")
    sign, days, hours, minutes, seconds, fraction = match.groups()
    milliseconds = int((fraction or "")[:3].ljust(3, "0"))
    if (seconds or "").startswith("-"):
        milliseconds = -milliseconds
    whole_minutes = (int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)
    total = (whole_minutes * 60 + int(seconds or 0)) * 1000 + milliseconds
    if abs(total) > LONG_MAX:
        raise CommandError(f"Text cannot be parsed to a Duration: overflow: {shortened(text)}")
    return -total if sign == "-" else total
