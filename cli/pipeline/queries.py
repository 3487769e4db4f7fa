"""`kohort why`, `timeline`, `lag`, `storms` and `report`: queries on a lake."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from ...pipeline.diagnosis.rows import (
    Diagnosis,
    MemberExit,
    PartitionStatus,
    Storm,
    TimelineEntry,
    fields,
)
from ...pipeline.diagnosis.storms import count_rebalances
from ...pipeline.formatting import (
    SEVERITIES,
    UNKNOWN,
    MemberNames,
    cause_text,
    count_of,
    date,
    date_time,
    duration,
    number,
    time_of_day,
)
from ...pipeline.lake import Lake
from ...pipeline.queries import Queries
from ...pipeline.report.page import page
from ...printable import printable
from ..errors import UserError
from ..output import table
from .errors import user_errors
from .output import paragraph, print_rows


def run(args: argparse.Namespace) -> int:
    """Run a query. Raises UserError."""
    with user_errors(args.lake):
        queries = Queries(Lake(args.lake))
        if getattr(args, "group", None) is not None:
            queries.require(args.group)
        _COMMANDS[args.command](args, queries)
    return 0


# --- why

# A group in a storm may have thousands of rebalances.
REBALANCES_SHOWN: Final = 10


def _why(args: argparse.Namespace, queries: Queries) -> None:
    diagnoses = queries.diagnoses(args.group)
    entries = queries.timeline(args.group)
    rebalances = [entry for entry in entries if entry.is_rebalance]
    if args.format != "table":
        rows = ({**row._asdict(), "rebalances": rebalances} for row in diagnoses)
        print_rows([*fields(Diagnosis), "rebalances"], rows, args.format)
        return
    for diagnosis in diagnoses:
        _print_diagnosis(diagnosis)
    if not diagnoses:
        print(f"{printable(args.group)} no longer exists; only its history is known.")
    if rebalances:
        print("\nRebalances")
        earlier = len(rebalances) - REBALANCES_SHOWN
        if earlier > 0:
            print(
                f"{count_of(earlier, 'earlier rebalance')}: kohort timeline {printable(args.group)}"
            )
        names = MemberNames(entry.member_list for entry in entries)
        _print_entries(rebalances[-REBALANCES_SHOWN:], names)


def _print_diagnosis(diagnosis: Diagnosis) -> None:
    verdict = diagnosis.verdict.replace("_", " ").lower()
    severity = SEVERITIES.get(diagnosis.severity, str(diagnosis.severity))
    as_of = date_time(diagnosis.as_of)
    print(f"{printable(diagnosis.group)}: {verdict} ({severity}), as of {as_of} UTC\n")
    print(paragraph(diagnosis.text))
    for title, items in (("Evidence", diagnosis.evidence), ("What to do", diagnosis.advice)):
        if items:
            print(f"\n{title}", *(paragraph(item, "  - ") for item in items), sep="\n")


# --- timeline: fits 80 columns

HEADER: Final = "TIME (UTC)  GEN  MEMBERS     PAUSE  CAUSE"
MARGIN: Final = " " * 14
# Hundreds of members may start at the same time.
MEMBERS_NAMED: Final = 12


def _timeline(args: argparse.Namespace, queries: Queries) -> None:
    entries = queries.timeline(args.group)
    shown = entries[-args.last :] if args.last else entries
    if args.format != "table":
        print_rows(fields(TimelineEntry), (row._asdict() for row in shown), args.format)
    elif not entries:
        print(f"{printable(args.group)} has committed offsets, but its log shows no members.")
    else:
        rebalances = count_of(count_rebalances(entries), "rebalance")
        first, last = date_time(entries[0].at), date_time(entries[-1].at)
        print(f"{printable(args.group)}: {rebalances}, {first} to {last} UTC\n")
        if len(shown) < len(entries):
            print(f"{count_of(len(entries) - len(shown), 'earlier change')} not shown\n")
        _print_entries(shown, MemberNames(entry.member_list for entry in entries))


def _print_entries(entries: Sequence[TimelineEntry], names: MemberNames) -> None:
    print(HEADER)
    day = ""
    for entry in entries:
        if entry.at is not None and date(entry.at) != day:
            day = date(entry.at)
            print(f"--- {day}")
        generation = UNKNOWN if entry.generation is None else str(entry.generation)
        members = f"{entry.members_before} → {entry.members_after}"
        certain = entry.confidence in ("exact", "high")
        confidence = "" if certain else f" ({entry.confidence})"
        print(
            f"{time_of_day(entry.at):10}  {generation:>3}  {members:9} "
            f"{duration(entry.pause_ms):>8}  {cause_text(entry.cause)}{confidence}"
        )
        for mark, text in _details(entry, names):
            if text:
                print(paragraph(text, MARGIN + mark))


def _details(entry: TimelineEntry, names: MemberNames) -> Iterator[tuple[str, str]]:
    """Yield (mark, text): members that left (-), joined (+), or rejoined with a new id (=), lost
    generations, and the evidence."""
    exits = {exit_.member_id: exit_ for exit_ in entry.exits}
    for member in entry.left[:MEMBERS_NAMED]:
        yield "- ", names.of(member) + (_exit_times(exits[member]) if member in exits else "")
    if len(entry.left) > MEMBERS_NAMED:
        yield "- ", f"and {len(entry.left) - MEMBERS_NAMED} more"
    joined = [names.of(member) for member in entry.joined]
    if joined:
        more = f" and {len(joined) - MEMBERS_NAMED} more" if len(joined) > MEMBERS_NAMED else ""
        yield "+ ", ", ".join(joined[:MEMBERS_NAMED]) + more
    if entry.replaced:
        yield "= ", ", ".join(names.of(member) for member in entry.replaced) + " rejoined"
    if entry.lost_generations:
        lost = count_of(entry.lost_generations, "generation")
        yield "", f"{lost} before this one never synced."
    evidence = entry.evidence
    if entry.moved:
        partitions = count_of(entry.moved + (entry.kept or 0), "partition")
        moved = f"{entry.moved} of {partitions} moved"
        evidence = f"{evidence.rstrip('.')}; {moved}" if evidence else moved
    yield "", evidence


def _exit_times(exit_: MemberExit) -> str:
    times = [] if exit_.silence_ms is None else [f"silent {duration(exit_.silence_ms)}"]
    if exit_.rejoined_after_ms is not None:
        times.append(f"back after {duration(exit_.rejoined_after_ms)}")
    return f" ({', '.join(times)})" if times else ""


# --- lag

NO_SAMPLES: Final = (
    "# lag is unknown: the lake has no samples of log ends. `kohort pipeline run` takes them from "
    "a broker (--bootstrap-server) or from the segments of a data folder (--log)."
)


def _lag(args: argparse.Namespace, queries: Queries) -> None:
    rows = queries.lag(args.group)
    if args.format != "table":
        print_rows(fields(PartitionStatus), (row._asdict() for row in rows), args.format)
    elif rows:
        lines = [["GROUP", "TOPIC", "PARTITION", "STATUS", "LAG", "TIME-LAG", "TREND", "OWNER"]]
        lines += map(_lag_line, rows)
        if args.group is not None:
            lines = [line[1:] for line in lines]
        print(*table(lines, ("PARTITION", "LAG", "TIME-LAG")), sep="\n")
        print(f"\nas of {date_time(max(row.as_of for row in rows))} UTC")
    else:
        subject = "no group has" if args.group is None else f"{args.group} has no"
        print(f"{subject} committed offsets")
    if rows and not queries.has_samples():
        sys.stdout.flush()
        print(NO_SAMPLES, file=sys.stderr)


def _lag_line(row: PartitionStatus) -> list[str]:
    owner = row.owner_instance_id or row.client_id
    host = (row.client_host or "").lstrip("/")
    return [
        row.group,
        row.topic,
        str(row.partition),
        row.status,
        number(row.lag),
        duration(row.lag_ms),
        (row.trend or UNKNOWN).lower(),
        f"{owner} @ {host}" if owner and host else owner or UNKNOWN,
    ]


# --- storms


def _storms(args: argparse.Namespace, queries: Queries) -> None:
    rows = queries.storms(args.group)
    if args.format != "table":
        print_rows(fields(Storm), (row._asdict() for row in rows), args.format)
        return
    if not rows:
        print(f"no rebalance storms in {args.group or count_of(len(queries.names()), 'group')}")
        return
    right = ["DURATION", "REBALANCES", "MEMBERS", "PAUSED"]
    lines = [["GROUP", "FROM (UTC)", *right, "MAIN-CAUSE"]]
    for row in rows:
        lasted, paused = duration(row.duration_ms), duration(row.pause_ms_total)
        counts = [str(row.rebalances), str(row.distinct_members)]
        cause = cause_text(row.dominant_cause)
        lines.append([row.group, date_time(row.from_ts), lasted, *counts, paused, cause])
    print(*table(lines, right), sep="\n")


# --- report


def _report(args: argparse.Namespace, queries: Queries) -> None:
    if not queries.names():
        raise UserError("the lake has no groups: the log was empty when it was read.")
    _write(args.out, "".join(page(queries)))
    print(f"{args.out} written: {args.out.stat().st_size / 1000:,.0f} kB")


def _write(path: Path, text: str) -> None:
    """Replace the file atomically."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: pass a file, such as {path / 'report.html'}.")
    temporary = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}.") from error


_COMMANDS: Final[dict[str, Callable[[argparse.Namespace, Queries], None]]] = {
    "why": _why,
    "timeline": _timeline,
    "lag": _lag,
    "storms": _storms,
    "report": _report,
}
