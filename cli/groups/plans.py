"""From offsets to the new offsets of a reset. Pure: what a cluster says comes in as mappings."""

import csv
import io
from collections.abc import Iterable, Mapping

from .errors import CommandError, UsageError
from .rows import Committed, Partition

Offsets = dict[Partition, int]


def partitions_of(topic_argument: str) -> list[Partition]:
    """`orders:0,2` -> its partitions; raises UsageError."""
    topic, _, numbers = topic_argument.partition(":")
    if not topic or not numbers or ":" in numbers:
        raise UsageError(
            f"Invalid topic arg '{topic_argument}', expected topic name and partitions"
        )
    for number in numbers.split(","):
        if not (number.isascii() and number.isdecimal()):
            raise UsageError(
                f"Invalid partition '{number}' specified in topic arg '{topic_argument}''"
            )
    return [Partition(topic, int(number)) for number in numbers.split(",")]


def within(
    requested: Mapping[Partition, int],
    starts: Mapping[Partition, int],
    ends: Mapping[Partition, int],
) -> tuple[Offsets, list[str]]:
    """The offsets, each moved to where its log begins or ends, and a warning for each moved one."""
    new: Offsets = {}
    warnings: list[str] = []
    for at, offset in requested.items():
        new[at] = min(max(offset, starts[at]), ends[at])
        if new[at] != offset:
            which = "higher than latest" if offset > new[at] else "lower than earliest"
            warnings.append(
                f"New offset ({offset}) is {which} offset for topic partition {at}. "
                f"Value will be set to {new[at]}."
            )
    return new, warnings


def shifted(
    partitions: Iterable[Partition], committed: Mapping[Partition, Committed], by: int
) -> Offsets:
    """The committed offsets, moved by `by`; raises UsageError where there is none."""
    new: Offsets = {}
    for at in partitions:
        if at not in committed:
            raise UsageError(
                f"Cannot shift offset for partition {at} since there is no current committed offset"
            )
        new[at] = committed[at].offset + by
    return new


def current(
    partitions: Iterable[Partition],
    committed: Mapping[Partition, Committed],
    ends: Mapping[Partition, int],
) -> Offsets:
    """The committed offsets; the end of the log where there is none."""
    return {at: committed[at].offset if at in committed else ends[at] for at in partitions}


def at_time(
    found: Mapping[Partition, int | None], ends: Mapping[Partition, int]
) -> tuple[Offsets, list[Partition]]:
    """The offsets found for a moment, and the partitions with nothing as new, which go to their
    ends."""
    new = {at: ends[at] if offset is None else offset for at, offset in found.items()}
    return new, [at for at, offset in found.items() if offset is None]


def exported(plan: Mapping[str, Offsets], with_group: bool) -> str:
    """The plan as CSV: `group,topic,partition,offset` a line, or without the group."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, offsets in plan.items():
        for at, offset in offsets.items():
            writer.writerow(([group] if with_group else []) + [at.topic, at.partition, offset])
    return text.getvalue()


def imported(text: str, groups: list[str]) -> dict[str, Offsets]:
    """An exported plan. Lines without a group are for the one group there is; raises CommandError.

    Kafka takes what a line lacks for partition 0 and offset 0; here such a line is an error.
    """
    plan: dict[str, Offsets] = {}
    for number, fields in enumerate(csv.reader(io.StringIO(text)), 1):
        if not fields:
            continue
        named = [groups[0], *fields] if len(fields) == 3 and len(groups) == 1 else fields
        if len(named) != 4 or not all(field.isdecimal() for field in named[2:]):
            shape = "topic,partition,offset" if len(groups) == 1 else "group,topic,partition,offset"
            raise CommandError(f"line {number} of the plan, '{','.join(fields)}', is not {shape}")
        group, topic, partition, offset = named
        plan.setdefault(group, {})[Partition(topic, int(partition))] = int(offset)
    return plan
