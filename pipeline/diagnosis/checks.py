"""The checks behind `kohort why`, and the diagnosis that combines their results.

Each check examines the facts about a group and returns a result, or None if it finds no problem.
docs/diagnosis.md lists the verdicts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ...offsets.causes import Cause
from ..formatting import cause_text, count_of, duration, join_texts, times, utc
from .facts import ERROR, EVICTED, INFO, SLOW, WARNING, CheckResult, GroupFacts, advise_cooperative
from .rows import Diagnosis, PartitionStatus, Storm
from .slow_consumer import slow_consumer
from .status import describe_worst
from .storms import time_of

SESSION_PER_HEARTBEAT: Final = 3
"""Kafka's recommendation, which allows two heartbeats to be lost without ending the session."""

RESTARTS_MIN: Final = 3

REBALANCES_PER_MEMBER: Final = 4
"""A member that is started, restarted once and stopped causes at most four rebalances. More
rebalances are not the result of an ordinary start and stop."""

STARTS_AND_STOPS: Final = frozenset(
    {
        *(Cause.GROUP_CREATED.name, Cause.FIRST_SEEN.name, Cause.MEMBER_JOINED.name),
        *(Cause.LEFT_CLEANLY.name, Cause.RESTARTED.name, Cause.GROUP_EMPTIED.name),
    }
)
"""Dominant causes of storms that result from members being started and stopped."""


def diagnose(cluster: str, facts: GroupFacts) -> Diagnosis:
    """Return the group's row of gold_diagnosis: the worst result, then other errors, warnings and
    storms. Results with severity info are included only if nothing is worse."""
    results = [result for check in CHECKS if (result := check(facts)) is not None]
    results.sort(key=lambda result: -result.severity)
    worst = results[0] if results else _healthy(facts)
    others = [
        each
        for each in results[1:]
        if each.severity > INFO
        or worst.severity == INFO
        # Storms are always included, as in `kohort storms`.
        or each.verdict == "REBALANCE_STORM"
    ]
    first = worst.text
    if not worst.names_group:
        is_subject = first.startswith("The group ")
        rest = first.removeprefix("The group")
        first = f"Group {facts.group}"
        first += rest if is_subject else f": {rest[0].lower()}{rest[1:]}"
    sentences = [first, *(result.text for result in others)]
    if facts.consumer is not None:
        sentences.append(
            f"It is a consumer group (KIP-848), {facts.consumer.state} with "
            f"{count_of(facts.consumer.members, 'member')}."
        )
    if facts.generation is not None and (ids := facts.generation.unresolved_topics):
        sentences.append(
            f"Some topics are known only by their ids ({join_texts(ids)}), so the owners of their "
            "partitions are not shown."
        )
    reported = [worst, *others]
    return Diagnosis(
        cluster=cluster,
        group=facts.group,
        severity=worst.severity,
        verdict=worst.verdict,
        text=" ".join(sentences),
        evidence=tuple(dict.fromkeys(line for result in reported for line in result.evidence)),
        advice=tuple(dict.fromkeys(line for result in reported for line in result.advice)),
        as_of=facts.as_of_ms,
    )


def _healthy(facts: GroupFacts) -> CheckResult:
    """Return HEALTHY (severity 0), or LAG_UNKNOWN (info) if no samples of log ends exist."""
    status = facts.status
    if status.total_lag is None:
        return CheckResult(
            INFO,
            "LAG_UNKNOWN",
            f"No problem found in the log of group {facts.group}, but its lag is unknown, because "
            "the lake has no samples of its topics' log ends.",
            names_group=True,
        )
    text = f"Group {facts.group} is healthy: {count_of(status.members, 'member')}, "
    text += f"lag {status.total_lag}"
    if status.max_lag_ms:
        text += f", at most {duration(status.max_lag_ms)} behind"
    return CheckResult(0, "HEALTHY", f"{text}.", names_group=True)


# --- partitions


def data_lost(facts: GroupFacts) -> CheckResult | None:
    """DATA_LOST, error: a committed offset is below the log start offset."""
    rows = _with_status(facts, "DATA_LOST")
    if not rows:
        return None
    count = sum((row.log_start or 0) - (row.committed or 0) for row in rows)
    where = join_texts(f"{row.topic}-{row.partition}" for row in rows)
    advice = (
        "Increase the topic's retention.ms (or retention.bytes) until the group reads faster than "
        "records are deleted."
    )
    text = f"{count} records of {where} were deleted before the group read them."
    return CheckResult(ERROR, "DATA_LOST", text, _reasons(rows), (advice,))


def stuck(facts: GroupFacts) -> CheckResult | None:
    """STUCK_PARTITION, error: Burrow's STOP (no commits) or STALL (repeated offsets) with lag."""
    rows = _with_status(facts, "STOP", "STALL")
    if not rows:
        return None
    owners = Counter(f"{r.client_id} on {(r.client_host or '').strip('/')}" for r in rows)
    owned = f", assigned to {join_texts(owners)}" if all(r.client_id for r in rows) else ""
    partitions = count_of(len(facts.partitions), "partition")
    text = f"{len(rows)} of {partitions} made no progress{owned}: "
    advice = (
        "Check what the consumer does with the record at the committed offset: a record that fails "
        "and is retried forever blocks its partition."
    )
    worst = describe_worst(rows)
    return CheckResult(ERROR, "STUCK_PARTITION", f"{text}{worst}.", _reasons(rows), (advice,))


def no_owner(facts: GroupFacts) -> CheckResult | None:
    """NO_MEMBERS or NO_OWNER, error: partitions with lag are not assigned to a member. NO_MEMBERS
    is a warning if the last members left and were not removed."""
    rows = _with_status(facts, "NO_OWNER")
    if not rows:
        return None
    lag, worst = sum(row.lag or 0 for row in rows), describe_worst(rows)
    if facts.generation is None or not facts.generation.members:
        since = facts.lifecycle.emptied_at if facts.lifecycle is not None else None
        has = "has no members" if since is None else f"has had no members since {utc(since)}"
        severity, why = ERROR, ""
        if _was_shut_down(facts):
            severity, why = WARNING, "; the last ones were closed"
        text = f"The group {has}{why}. Its lag is {lag}."
        advice = "Start its consumers; the exits show why the last members left."
        return CheckResult(severity, "NO_MEMBERS", text, (worst,), (advice,))
    partitions = "1 partition is" if len(rows) == 1 else f"{len(rows)} partitions are"
    text = f"{partitions} not assigned to a member, with a lag of {lag}."
    advice = "Subscribe the members to all topics for which the group has committed offsets."
    return CheckResult(ERROR, "NO_OWNER", text, (worst,), (advice,))


def _was_shut_down(facts: GroupFacts) -> bool:
    """Whether all members of the last exits left cleanly."""
    last = max((row.log_offset for row in facts.exits), default=None)
    causes = {row.cause for row in facts.exits if row.log_offset == last}
    return causes == {Cause.LEFT_CLEANLY.name}


def falls_behind(facts: GroupFacts) -> CheckResult | None:
    """FALLS_BEHIND, warning: the lag grows, and consumption is not faster than production."""
    rows = [
        row
        for row in _with_status(facts, "WARN", "OK")
        if row.trend == "GROWING" and row.lag
        if row.consume_rate is not None and row.catch_up_ms is None
    ]
    if not rows:
        return None
    text = f"The lag of {len(rows)} of {count_of(len(facts.partitions), 'partition')} is growing: "
    advice = "Process faster, or add members, up to one per partition."
    worst = describe_worst(rows)
    return CheckResult(WARNING, "FALLS_BEHIND", f"{text}{worst}.", _reasons(rows[:3]), (advice,))


def rewound(facts: GroupFacts) -> CheckResult | None:
    """REWOUND, warning (Burrow's REWIND): a committed offset went back, and later commits did not
    reach its previous value again."""
    rows = _with_status(facts, "REWIND")
    if not rows:
        return None
    text = f"Offsets of {describe_worst(rows)} went back, so records are read again."
    return CheckResult(WARNING, "REWOUND", text, _reasons(rows))


def _with_status(facts: GroupFacts, *statuses: str) -> list[PartitionStatus]:
    return [row for row in facts.partitions if row.status in statuses]


def _reasons(rows: Iterable[PartitionStatus]) -> tuple[str, ...]:
    return tuple(f"{row.topic}-{row.partition}: {row.status_reason}" for row in rows)


# --- rebalances and members


def storm(facts: GroupFacts) -> CheckResult | None:
    """REBALANCE_STORM: at least three rebalances within five minutes. Severity: error if the last
    storm ended within the last hour, else warning. A storm is less severe if its dominant cause is
    a start or stop of members and no member was evicted: info for up to REBALANCES_PER_MEMBER per
    member, and at most warning if all members have left and no partition has lag."""
    if not facts.storms:
        return None
    last = facts.storms[-1]
    paused_ms = last.pause_ms_total or 0
    paused = f", paused for {duration(paused_ms)}" if paused_ms >= 1_000 else ""
    text = (
        f"The group rebalanced {last.rebalances} times in {duration(last.duration_ms)} "
        f"from {utc(last.from_ts)}{paused}; main cause: {cause_text(last.dominant_cause)}."
    )
    if earlier := len(facts.storms) - 1:
        text += f" There {'was' if earlier == 1 else 'were'} {count_of(earlier, 'earlier storm')}."
    severity = ERROR if facts.is_recent(last.to_ts) else WARNING
    advice = () if last.dominant_cause in SLOW else _restart_advice(facts)
    if _is_start_or_stop(last, facts):
        most = _members_max(last, facts)
        text += " No member was evicted: members were started and stopped"
        if last.rebalances <= REBALANCES_PER_MEMBER * most:
            severity = INFO
        else:
            if facts.is_empty and not any(row.lag for row in facts.partitions):
                severity = WARNING
            text += f" repeatedly, at most {most} at a time"
            find = "Find out what starts and stops the members: a supervisor, an autoscaler, a "
            advice = (f"{find}failing health check, or a consumer per request.", *advice)
        text += "."
        if severity == INFO and last.dominant_cause not in ("LEFT_CLEANLY", "RESTARTED"):
            start = "Start members together: a new group waits group.initial.rebalance.delay.ms "
            advice = (f"{start}(3 s) for more members, and each later one causes a rebalance.",)
    evidence = f"storm of {last.rebalances} rebalances from {utc(last.from_ts)}"
    return CheckResult(severity, "REBALANCE_STORM", text, (evidence,), advice)


def _members_max(storm: Storm, facts: GroupFacts) -> int:
    """Return the largest number of members during the storm."""
    rows = [row for row in facts.rebalances if storm.from_ts <= time_of(row) <= storm.to_ts]
    return max((max(row.members_before, row.members_after) for row in rows), default=1)


def _is_start_or_stop(storm: Storm, facts: GroupFacts) -> bool:
    ended = {row.log_offset: time_of(row) for row in facts.rebalances}
    return storm.dominant_cause in STARTS_AND_STOPS and not any(
        row.cause in EVICTED and storm.from_ts <= ended.get(row.log_offset, 0) <= storm.to_ts
        for row in facts.exits
    )


def crashes(facts: GroupFacts) -> CheckResult | None:
    """MEMBERS_CRASH: sessions expired, or members sent no SyncGroup. Severity: warning if within
    the last hour, else info. The advice compares the session timeout with three times the estimated
    heartbeat interval."""
    rows = [row for row in facts.exits if row.cause in ("SESSION_TIMEOUT", "SYNC_TIMEOUT")]
    if not rows:
        return None
    clients = Counter(f"{row.client_id} on {row.client_host.strip('/')}" for row in rows)
    names = join_texts(f"{client} {times(count)}" for client, count in clients.most_common())
    text = f"Members stopped responding: {names}."
    back = [row.rejoined_after_ms for row in rows if row.rejoined_after_ms is not None]
    if len(back) == len(rows):
        text += f" Each member rejoined within {duration(max(back))}."
    session = max(row.session_timeout_ms for row in rows)
    heartbeat = next((row.heartbeat_ms_est for row in rows if row.heartbeat_ms_est), None)
    rule = (
        f"Keep session.timeout.ms ({duration(session)}) at least {SESSION_PER_HEARTBEAT} × "
        "heartbeat.interval.ms, so that two lost heartbeats do not matter"
    )
    if heartbeat is not None and session < SESSION_PER_HEARTBEAT * heartbeat:
        rule += f": members seem to send one every {duration(heartbeat)}, which is not often enough"
    return CheckResult(
        WARNING if any(facts.is_recent(row.left_at) for row in rows) else INFO,
        "MEMBERS_CRASH",
        text,
        tuple(row.evidence for row in rows[-3:]),
        ("Check these processes for crashes, memory exhaustion and long pauses.", f"{rule}."),
    )


def restarts(facts: GroupFacts) -> CheckResult | None:
    """RESTARTS, info: within the last hour, at least three rebalances were caused by members that
    were restarted or closed."""
    rows = [
        row
        for row in facts.rebalances
        if row.cause in ("RESTARTED", "LEFT_CLEANLY") and facts.is_recent(row.joined_at)
    ]
    if len(rows) < RESTARTS_MIN:
        return None
    text = f"Members were restarted or closed {times(len(rows))} in the last hour."
    evidence = tuple(row.evidence for row in rows[-3:])
    return CheckResult(INFO, "RESTARTS", text, evidence, _restart_advice(facts))


def rejected_commits(facts: GroupFacts) -> CheckResult | None:
    """COMMITS_REJECTED, info: the event log contains rejected commits."""
    count = sum(row.rejected_commits or 0 for row in facts.rebalances)
    if not count:
        return None
    were = "was" if count == 1 else "were"
    text = f"{count_of(count, 'commit')} {were} rejected as too late, so records are read again."
    advice = (
        "Commit before partitions are revoked (onPartitionsRevoked), and process records "
        "idempotently."
    )
    return CheckResult(INFO, "COMMITS_REJECTED", text, (), (advice,))


def idle_members(facts: GroupFacts) -> CheckResult | None:
    """IDLE_MEMBERS, info: members of the current generation without partitions."""
    newest = [row for row in facts.skews if row.topic is None][-1:]
    if not newest or not newest[0].idle_members or facts.generation is None:
        return None
    if newest[0].generation != facts.generation.generation:
        return None
    members = count_of(len(facts.generation.members), "member")
    text = f"{newest[0].idle_members} of {members} have no partitions."
    advice = "Members beyond the number of partitions serve only as standbys."
    return CheckResult(INFO, "IDLE_MEMBERS", text, (), (advice,))


def gone_or_empty(facts: GroupFacts) -> CheckResult | None:
    """GONE or NO_MEMBERS, info: the group was deleted, or had members and now has none."""
    life = facts.lifecycle
    # A group that is a consumer group now may have been deleted when it was a classic group.
    if life is not None and life.deleted_at is not None and facts.consumer is None:
        kind = (life.end_kind or "").lower().replace("_", " ")
        text = f"The group has been gone since {utc(life.deleted_at)}: {kind}."
        return CheckResult(INFO, "GONE", text)
    if not facts.is_empty:
        return None
    lag = "no lag"
    if not facts.partitions:
        lag = "no committed offsets"
    elif any(row.lag is None for row in facts.partitions):
        lag = "an unknown lag"
    text = f"The group has no members and {lag}."
    if life is not None and life.expires_at_est is not None:
        text += f" Its offsets expire at {utc(life.expires_at_est)}."
    return CheckResult(INFO, "NO_MEMBERS", text)


def _restart_advice(facts: GroupFacts) -> tuple[str, ...]:
    members = facts.last_with_members.members if facts.last_with_members is not None else ()
    if members and all(member.instance_id is not None for member in members):
        static = "All members are static: a restart within session.timeout.ms causes no rebalance."
    else:
        static = (
            "Give members a group.instance.id (static membership): a restart within "
            "session.timeout.ms then causes no rebalance."
        )
    return static, *advise_cooperative(facts)


CHECKS: Final[Sequence[Callable[[GroupFacts], CheckResult | None]]] = (
    slow_consumer,
    data_lost,
    storm,
    stuck,
    no_owner,
    crashes,
    falls_behind,
    rewound,
    restarts,
    rejected_commits,
    idle_members,
    gone_or_empty,
)
"""Results of the same severity are reported in this order."""
