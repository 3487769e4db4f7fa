"""What may be wrong with a group, one complaint a function; verdict.py picks the worst.

Each looks at rows that stand in the lake (`Findings`), and answers None where it has nothing to
say. The slow consumer has a file of its own: slow.py.
"""

from collections import Counter
from typing import Final

from ...offsets.causes import Cause
from .findings import ERROR, KNOWN, SLOW, THROWN_OUT, WARNING, Complaint, Findings
from .rows import Storm
from .status import told
from .words import clock, listed, span, times

__all__ = ["COMPLAINTS", "cooperative"]

SESSION_PER_HEARTBEAT: Final = 3
"""Kafka's own rule of thumb: two heartbeats may be lost before a session ends."""

STARTS_AND_STOPS: Final = frozenset(
    {
        *(Cause.GROUP_CREATED.name, Cause.FIRST_SEEN.name, Cause.MEMBER_JOINED.name),
        *(Cause.LEFT_CLEANLY.name, Cause.RESTARTED.name, Cause.GROUP_EMPTIED.name),
    }
)
"""Causes of storms that come of somebody's starting and stopping members."""


# --- what is lost, or not being read


def data_lost(known: Findings) -> Complaint | None:
    lost = [row for row in known.partitions if row.status == "DATA_LOST"]
    if not lost:
        return None
    count = sum((row.log_start or 0) - (row.committed or 0) for row in lost)
    where = listed(f"{row.topic}-{row.partition}" for row in lost)
    return Complaint(
        ERROR,
        "DATA_LOST",
        f"{count} records of {where} were deleted before the group had read them.",
        tuple(f"{row.topic}-{row.partition}: {row.status_reason}" for row in lost),
        (
            (
                "Lengthen retention.ms (or retention.bytes) of the topic until the group reads "
                "faster than records are deleted."
            ),
        ),
    )


def stuck(known: Findings) -> Complaint | None:
    """Nobody reads, or somebody repeats himself: Burrow's STOP and STALL."""
    rows = [row for row in known.partitions if row.status in ("STOP", "STALL")]
    if not rows:
        return None
    owners = Counter(f"{r.client_id} on {(r.client_host or '').strip('/')}" for r in rows)
    of = f", which {listed(owners)} should read" if all(r.client_id for r in rows) else ""
    return Complaint(
        ERROR,
        "STUCK_PARTITION",
        f"{len(rows)} of {len(known.partitions)} partitions stand still{of}: {told(rows)}.",
        tuple(f"{row.topic}-{row.partition}: {row.status_reason}" for row in rows),
        (
            (
                "Look at what the consumer does with the record at the committed offset: one that "
                "it cannot process, and tries again and again, stops a partition."
            ),
        ),
    )


def no_owner(known: Findings) -> Complaint | None:
    rows = [row for row in known.partitions if row.status == "NO_OWNER"]
    if not rows:
        return None
    lag = sum(row.lag or 0 for row in rows)
    if known.generation is None or not known.generation.members:
        since = known.lifecycle.emptied_at if known.lifecycle is not None else None
        when = f" since {clock(since)}" if since is not None else ""
        exits = "; see the exits for why the last ones went" if known.consumer is None else ""
        return Complaint(
            ERROR,
            "NO_MEMBERS",
            f"The group has had no members{when}, and {lag} records wait.",
            (told(rows),),
            (f"Start its consumers{exits}.",),
        )
    return Complaint(
        ERROR,
        "NO_OWNER",
        f"{len(rows)} partitions are assigned to nobody, and {lag} records wait there.",
        (told(rows),),
        ("Let the members subscribe to all topics that the group has committed to.",),
    )


def storm(known: Findings) -> Complaint | None:
    if not known.storms:
        return None
    last = known.storms[-1]
    stood_ms = last.pause_ms_total or 0  # less than a second commits do not tell
    pause = f", and nothing was read for {span(stood_ms)}" if stood_ms >= 1_000 else ""
    cause = Cause.__members__.get(last.dominant_cause)
    why = cause.value if cause is not None else last.dominant_cause
    text = (
        f"The group was rebalanced {last.rebalances} times within "
        f"{span(last.to_ts - last.from_ts)} from {clock(last.from_ts)}{pause}; mostly: {why}."
    )
    more = len(known.storms) - 1
    if more:
        text += f" There {'was' if more == 1 else 'were'} {times(more)} such a storm before."
    severity = ERROR if known.is_lately(last.to_ts) else WARNING
    advice = () if last.dominant_cause in SLOW else (static(known), *cooperative(known))
    if _nobody_was_thrown_out(last, known):
        severity = KNOWN
        text += " Nobody was thrown out: members were started and stopped."
        advice = _of_starts_and_stops(last, known)
    return Complaint(
        severity,
        "REBALANCE_STORM",
        text,
        (f"storm of {last.rebalances} rebalances from {clock(last.from_ts)}",),
        advice,
    )


def _nobody_was_thrown_out(storm: Storm, known: Findings) -> bool:
    ended = {row.log_offset: row.joined_at or row.synced_at or 0 for row in known.rebalances}
    return storm.dominant_cause in STARTS_AND_STOPS and not any(
        row.cause in THROWN_OUT and storm.from_ts <= ended.get(row.log_offset, 0) <= storm.to_ts
        for row in known.exits
    )


def _of_starts_and_stops(storm: Storm, known: Findings) -> tuple[str, ...]:
    if storm.dominant_cause in ("LEFT_CLEANLY", "RESTARTED"):
        return static(known), *cooperative(known)
    return (
        (
            "Start members together: a new group waits group.initial.rebalance.delay.ms (3 s) for "
            "more of them, and each that comes later is a rebalance."
        ),
    )


# --- who goes


def crashes(known: Findings) -> Complaint | None:
    rows = [row for row in known.exits if row.cause in ("SESSION_TIMEOUT", "SYNC_TIMEOUT")]
    if not rows:
        return None
    clients = Counter(f"{row.client_id} on {row.client_host.strip('/')}" for row in rows)
    named = listed(f"{client} {times(count)}" for client, count in clients.most_common())
    back = [row for row in rows if row.came_back_after_ms is not None]
    text = f"Sessions ended without a word: {named}."
    if len(back) == len(rows):
        longest = max(row.came_back_after_ms or 0 for row in back)
        text += f" Each came back, after {span(longest)} at the latest."
    session = max(row.session_timeout_ms for row in rows)
    heartbeat = next((row.heartbeat_ms_est for row in rows if row.heartbeat_ms_est), None)
    rule = (
        f"Keep session.timeout.ms, {span(session)}, at least {SESSION_PER_HEARTBEAT} × "
        "heartbeat.interval.ms, so that one lost heartbeat does no harm"
    )
    if heartbeat is not None and session < SESSION_PER_HEARTBEAT * heartbeat:
        rule += f": members seem to send one each {span(heartbeat)}, which is too seldom for it"
    lately = any(known.is_lately(row.left_at) for row in rows)
    return Complaint(
        WARNING if lately else KNOWN,
        "MEMBERS_CRASH",
        text,
        tuple(row.evidence for row in rows[-3:]),
        ("Look for crashes, full memory and long pauses of these processes.", f"{rule}."),
    )


def comings_and_goings(known: Findings) -> Complaint | None:
    """Deploys: nothing is wrong, but each costs rebalances."""
    rows = [
        row
        for row in known.rebalances
        if row.cause in ("RESTARTED", "LEFT_CLEANLY") and known.is_lately(row.joined_at)
    ]
    if len(rows) < 3:
        return None
    return Complaint(
        KNOWN,
        "RESTARTS",
        f"Members were restarted or closed {times(len(rows))} within the last hour.",
        tuple(row.evidence for row in rows[-3:]),
        (static(known), *cooperative(known)),
    )


def refused_commits(known: Findings) -> Complaint | None:
    count = sum(row.rejected_commits or 0 for row in known.rebalances)
    if not count:
        return None
    return Complaint(
        KNOWN,
        "COMMITS_REFUSED",
        (
            "1 commit came too late and was refused: what it stood for was done again."
            if count == 1
            else f"{count} commits came too late and were refused: what they stood for was done "
            "again."
        ),
        (),
        (
            (
                "Commit before partitions are taken away (onPartitionsRevoked), and process in a "
                "way that stands a repetition."
            ),
        ),
    )


# --- how it is spread


def falls_behind(known: Findings) -> Complaint | None:
    rows = [r for r in known.partitions if r.trend == "GROWING" and r.status in ("WARN", "OK")]
    rows = [r for r in rows if r.lag and r.consume_rate is not None and r.catch_up_ms is None]
    if not rows:
        return None
    return Complaint(
        WARNING,
        "FALLS_BEHIND",
        f"The lag of {len(rows)} of {len(known.partitions)} partitions grows: {told(rows)}.",
        tuple(f"{row.topic}-{row.partition}: {row.status_reason}" for row in rows[:3]),
        ("Process faster, or add members, up to one for each partition.",),
    )


def rewound(known: Findings) -> Complaint | None:
    rows = [row for row in known.partitions if row.status == "REWIND"]
    if not rows:
        return None
    return Complaint(
        WARNING,
        "REWOUND",
        f"Commits of {told(rows)} went back: records are read again.",
        tuple(f"{row.topic}-{row.partition}: {row.status_reason}" for row in rows),
    )


def idle_members(known: Findings) -> Complaint | None:
    newest = [row for row in known.skews if row.topic is None][-1:]
    if not newest or not newest[0].idle_members or known.generation is None:
        return None
    if newest[0].log_offset != known.generation.log_offset:
        return None
    idle, members = newest[0].idle_members, len(known.generation.members)
    return Complaint(
        KNOWN,
        "IDLE_MEMBERS",
        f"{idle} of {members} members have no partition.",
        (),
        ("Members beyond the number of partitions only wait for others to fail.",),
    )


def nobody(known: Findings) -> Complaint | None:
    life = known.lifecycle
    lives = known.consumer is not None  # it may have been deleted as a classic group
    if not lives and life is not None and life.end_kind is not None and life.deleted_at is not None:
        ended = life.end_kind.lower().replace("_", " ")
        text = f"The group is gone since {clock(life.deleted_at)}: {ended}."
        return Complaint(KNOWN, "GONE", text)
    if not known.is_empty:
        return None
    waits = "nothing waits for it"
    if not known.partitions:
        waits = "no commit of it is known"
    elif any(row.lag is None for row in known.partitions):
        waits = "whether records wait for it is not known: its lag is not"
    text = f"The group has no members, and {waits}."
    if life is not None and life.expires_at_est is not None:
        text += f" Its offsets expire at {clock(life.expires_at_est)}."
    return Complaint(KNOWN, "NO_MEMBERS", text)


def static(known: Findings) -> str:
    """Advice, by what the members are, or were when there were any."""
    members = known.last_with_members.members if known.last_with_members is not None else ()
    if members and all(member.instance_id is not None for member in members):
        return "All members are static: a restart within session.timeout.ms costs no rebalance."
    return (
        "Give members a group.instance.id (static membership): a restart within "
        "session.timeout.ms then costs no rebalance."
    )


def cooperative(known: Findings) -> tuple[str, ...]:
    last = known.last_with_members
    protocol = last.protocol if last is not None else None
    if known.consumer is not None or (protocol is not None and "cooperative" in protocol):
        return ()
    return (
        (
            "Rebalance cooperatively (partition.assignment.strategy=CooperativeStickyAssignor, in "
            "two rolling restarts): partitions that stay where they are go on being read meanwhile."
        ),
    )


COMPLAINTS: Final = (
    data_lost,
    storm,
    stuck,
    no_owner,
    crashes,
    falls_behind,
    rewound,
    comings_and_goings,
    refused_commits,
    idle_members,
    nobody,
)
"""In the order in which complaints of the same severity are told."""
