"""The check for slow consumers: members that take longer than max.poll.interval.ms to process
records.

Such a member repeatedly leaves or is removed, then rejoins, and the group rebalances each time. If
a rebalance begins while the member is processing, the other members wait until it polls. The
recommended interval is based on observed processing times, from a member's last commit until it
rejoined.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from ..formatting import count_of, duration, join_texts, percent, times, utc
from .facts import ERROR, HOUR_MS, INFO, SLOW, WARNING, CheckResult, GroupFacts, advise_cooperative
from .group_history import Member
from .rows import MemberExit, Rebalance
from .storms import cause_of_rejoin

MARGIN: Final = 1.5
"""The recommended max.poll.interval.ms relative to the longest time observed."""

REPORTABLE_PAUSE_MS: Final = 1_000
"""Shorter pauses are not reliably visible in commits."""


class SlowClient(NamedTuple):
    """A client across its restarts."""

    client_id: str
    host: str  # "": only its member id is known
    instance_id: str | None
    exits: tuple[MemberExit, ...]
    waits: tuple[Rebalance, ...]  # rebalances in which the others waited for it

    @property
    def label(self) -> str:
        return f"{self.client_id} on {self.host}" if self.host else self.client_id

    @property
    def may_have_crashed(self) -> bool:
        """Whether expired sessions explain all exits just as well as slow polls do."""
        return not self.waits and _is_ambiguous(self.exits)

    @property
    def identity(self) -> str:
        return self.instance_id or f"{self.client_id} {self.host}"


def slow_consumer(facts: GroupFacts) -> CheckResult | None:
    """SLOW_CONSUMER: a member exceeded its poll interval, or the others waited for it;
    SLOW_OR_CRASHED if its session may have expired instead.

    Evidence: exits with a cause in SLOW, and rebalances with `waited_for`. Severity: error if this
    happened at least twice in the last hour, warning if once, else info. The client to which it
    happened most often in the last hour (if there are several, the one with the most exits) is
    described in detail; the others are only named.
    """

    def recent(client: SlowClient) -> int:
        times = [row.left_at for row in client.exits] + [row.joined_at for row in client.waits]
        return sum(map(facts.is_recent, times))

    clients = sorted(
        _slow_clients(facts),
        key=lambda client: (recent(client), len(client.exits), len(client.waits)),
        reverse=True,
    )
    if not clients:
        return None
    worst = clients[0]
    rebalances = _rebalances_caused_by(worst, facts)
    sentences = (
        _exits_text(worst, facts),
        _cause_text(worst),
        _cost_text(rebalances, facts),
        _waits_text(worst),
        _rejected_text(rebalances),
        *_others_text(clients[1:]),
    )
    severity = (INFO, WARNING, ERROR)[min(sum(map(recent, clients)), 2)]
    evidence = [row.evidence for row in worst.exits[-3:]]
    evidence += [row.evidence for row in worst.waits[-2:]]
    text = " ".join(filter(None, sentences))
    advice = _advice(worst, facts)
    result = CheckResult(severity, "SLOW_CONSUMER", text, tuple(evidence), advice, names_group=True)
    return result._replace(verdict="SLOW_OR_CRASHED") if worst.may_have_crashed else result


# --- clients


def _slow_clients(facts: GroupFacts) -> list[SlowClient]:
    found: dict[str, SlowClient] = {}
    for row in facts.exits:
        if row.cause in SLOW:
            new = _client(row)
            client = found.get(new.identity, new)
            found[new.identity] = client._replace(exits=(*client.exits, row))
    for rebalance in facts.rebalances:
        member_id = rebalance.waited_for
        if member_id is None:
            continue
        exits = (row for row in facts.exits if row.log_offset == rebalance.log_offset)
        if any(member_id == row.member_id for row in exits):
            continue  # it did not rejoin, and its exit is counted instead
        new = _client_of(member_id, facts)
        client = found.get(new.identity, new)
        found[new.identity] = client._replace(waits=(*client.waits, rebalance))
    return list(found.values())


def _client_of(member_id: str, facts: GroupFacts) -> SlowClient:
    members = facts.generation.members if facts.generation is not None else ()
    rows: list[Member | MemberExit] = [*members, *facts.exits]
    for row in rows:
        if row.member_id == member_id:
            return _client(row)
    # Coordinators build member ids from the client id (or instance id), a hyphen and a UUID.
    return SlowClient(member_id[:-37] if len(member_id) > 37 else member_id, "", None, (), ())


def _client(row: Member | MemberExit) -> SlowClient:
    return SlowClient(row.client_id, row.client_host.strip("/"), row.instance_id, (), ())


def _rebalances_caused_by(client: SlowClient, facts: GroupFacts) -> list[Rebalance]:
    """Return the rebalances that a client delayed, or caused by leaving or rejoining."""
    offsets = {row.log_offset for row in client.exits}
    offsets |= {row.log_offset for row in client.waits}
    return [
        row
        for row in facts.rebalances
        if row.is_rebalance
        and (
            row.log_offset in offsets
            or (row.client_id == client.client_id and cause_of_rejoin(row) in SLOW)
        )
    ]


# --- texts


def _others_text(clients: Sequence[SlowClient]) -> Iterator[str]:
    for crashed, what in ((False, "slow"), (True, "slow or crashed")):
        if labels := [each.label for each in clients if each.may_have_crashed is crashed]:
            yield f"Also {what}: {join_texts(labels)}."


def _is_ambiguous(exits: Iterable[MemberExit]) -> bool:
    return all(row.cause == Cause.TIMEOUT_AMBIGUOUS.name for row in exits)


def _exits_text(client: SlowClient, facts: GroupFacts) -> str:
    name = client.label
    if client.instance_id is not None:
        name += f" (instance {client.instance_id})"
    if not client.exits:
        return f"Consumer {name} delays the rebalances of group {facts.group}."
    first, last = client.exits[0].left_at, client.exits[-1].left_at
    when = ""
    if len(client.exits) == 1 and first is not None:
        when = f" at {utc(first)}"
    elif first is not None and last is not None:
        when = f" between {utc(first)} and {utc(last)}"
    count = times(len(client.exits))
    return f"Consumer {name} lost its membership in group {facts.group} {count}{when}."


def _cause_text(client: SlowClient) -> str:
    if not client.exits:
        return ""
    silences = [row.silence_ms for row in client.exits if row.silence_ms is not None]
    last = client.exits[-1]
    longest = f" for up to {duration(max(silences))}" if silences else ""
    if _is_ambiguous(client.exits):
        session = duration(last.session_timeout_ms)
        return (
            f"It did not commit{longest}: either it exceeded its poll interval or its session of "
            f"{session} expired; its timeouts are too close for the log to show which."
        )
    is_exact = any(row.confidence == "exact" for row in client.exits)
    source = "according to the event log" if is_exact else "according to its commits"
    limit = duration(last.rebalance_timeout_ms)
    within = (
        f"in time (rebalance timeout {limit})"
        if _hides_poll_interval(last)
        else f"within its max.poll.interval.ms of {limit}"
    )
    text = f"It did not poll {within}, {source}: it did not commit{longest}."
    if silences:
        text += f" Its partitions were not read for {duration(sum(silences))} in total."
    back = [row.rejoined_after_ms for row in client.exits if row.rejoined_after_ms is not None]
    if back:
        text += f" It rejoined {times(len(back))}, after at most {duration(max(back))}."
    return text


def _cost_text(rebalances: list[Rebalance], facts: GroupFacts) -> str:
    """Describe how often the group rebalanced, and how long it was paused."""
    if not rebalances:
        return ""
    text = f"This caused {count_of(len(rebalances), 'rebalance')}"
    pauses = [row.pause_ms for row in rebalances if row.pause_ms is not None]
    if not pauses:
        return f"{text}; how long the group was paused is unknown."
    if sum(pauses) < REPORTABLE_PAUSE_MS:
        spans = [row.join_ms + (row.sync_ms or 0) for row in rebalances if row.join_ms is not None]
        longest = f" within {duration(max(spans))}," if spans else ""
        return f"{text}, each completed{longest} before the group's next commits were due."
    text += f", in which the group was paused for {duration(sum(pauses))} in total"
    if len(pauses) > 1:
        text += f", up to {duration(max(pauses))} at a time"
        began = [row.joined_at for row in rebalances if row.joined_at is not None]
        passed = facts.as_of_ms - min(began) if began else 0
        if 0.01 * passed <= sum(pauses) < passed <= HOUR_MS:
            text += f" ({percent(sum(pauses) / passed)} of the time since the first)"
    return f"{text}."


def _waits_text(client: SlowClient) -> str:
    waits = [row.wait_ms for row in client.waits if row.wait_ms is not None]
    if not waits:
        return ""
    return (
        f"{times(len(waits)).capitalize()}, a rebalance began while it was processing, and all "
        f"other members waited up to {duration(max(waits))} for it."
    )


def _rejected_text(rebalances: Iterable[Rebalance]) -> str:
    count = sum(row.rejected_commits or 0 for row in rebalances)
    if not count:
        return ""
    were = "was" if count == 1 else "were"
    return f"{count_of(count, 'commit')} {were} rejected, so the records were processed again."


# --- advice


def _advice(client: SlowClient, facts: GroupFacts) -> tuple[str, ...]:
    members = facts.generation.members if facts.generation else ()
    limit = max(
        [0 if _hides_poll_interval(row) else row.rebalance_timeout_ms for row in client.exits]
        or [member.rebalance_timeout_ms for member in members]
        or [0]
    )
    session = max([row.session_timeout_ms for row in client.exits] or [0])
    observed = _observed_ms(client)
    begin = f"Process each batch in less than {duration(limit)}: process" if limit else "Process"
    faster = f"{begin} faster or reduce max.poll.records"
    advice = [f"{faster}, or pause() the partition while other threads do the work."]
    if observed is not None and observed > limit / MARGIN:
        enough = _round_up(MARGIN * observed)
        advice.append(
            f"Or raise the limit: max.poll.interval.ms={enough} ({duration(enough)}) is "
            f"{MARGIN} times the longest time observed, {duration(observed)}."
        )
    advice.append(
        "Static membership (group.instance.id) avoids rebalances on restarts but does not fix slow "
        "polls: such a member is removed when its session expires."
    )
    advice += advise_cooperative(facts)
    if client.may_have_crashed:
        advice.append("Check the process for crashes, memory exhaustion and long pauses.")
    rule = "Keep session.timeout.ms ≥ 3 × heartbeat.interval.ms"
    if session:
        rule += f" (with {duration(session)}: a heartbeat at least every {duration(session // 3)})"
    advice.append(f"{rule}; a longer session does not fix slow polls.")
    return tuple(advice)


def _hides_poll_interval(row: MemberExit) -> bool:
    """Whether the client does not send its poll interval. aiokafka sends its session timeout as the
    rebalance timeout."""
    return row.rebalance_timeout_ms == row.session_timeout_ms


def _observed_ms(client: SlowClient) -> int | None:
    """Return the longest time that the client spent on one batch: its silence before it left plus
    the time until it rejoined, or the time for which the others waited."""
    exits = [row for row in client.exits if row.silence_ms is not None]
    observed = [(row.silence_ms or 0) + (row.rejoined_after_ms or 0) for row in exits]
    observed += [row.wait_ms for row in client.waits if row.wait_ms is not None]
    return max(observed, default=None)


def _round_up(ms: float) -> int:
    """Round up to a value suitable for a configuration file."""
    step = 60_000 if ms > 120_000 else 1_000
    return -int(-ms // step) * step
