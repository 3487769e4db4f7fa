"""The slow consumer: it gets messages that take longer than max.poll.interval.ms, is out of the
group, comes back, is out again; each time everybody stops.

It is found by its exits, and by rounds in which the others waited for it. What it should be given
is reckoned from what was seen: from its last commit to its coming back it was at one batch.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from .complaints import cooperative
from .findings import ERROR, HOUR_MS, KNOWN, SLOW, WARNING, Complaint, Findings
from .rows import MemberExit, Rebalance
from .words import clock, listed, share, span, times

__all__ = ["slow_consumer"]

RESERVE: Final = 1.5
"""A batch that took so long once may take longer the next time."""


PAUSE_WORTH_TELLING_MS: Final = 1_000
"""Commits are no finer a measure of when a group read."""


class Slow(NamedTuple):
    """A client, across its restarts."""

    client_id: str
    host: str  # "" where only its member id is known
    instance_id: str | None
    outs: tuple[MemberExit, ...]
    waits: tuple[Rebalance, ...]  # rounds in which the others waited for it


def slow_consumer(known: Findings) -> Complaint | None:
    """The slowest one is told at length, the others by name."""
    slow = sorted(_slow(known), key=lambda s: (len(s.outs), len(s.waits)), reverse=True)
    if not slow:
        return None
    worst = slow[0]
    rebalances = _rebalances_for(worst, known)
    text = " ".join(
        filter(
            None,
            (
                _who_and_how_often(worst, known),
                _why(worst),
                _standstill(rebalances, known),
                _waits(worst),
                _refused(rebalances),
                _others(slow[1:]),
            ),
        )
    )
    lately = [row for row in worst.outs if known.is_lately(row.left_at)]
    lately_waited = [row for row in worst.waits if known.is_lately(row.joined_at)]
    severity = KNOWN
    if lately or lately_waited:
        severity = ERROR if len(lately) + len(lately_waited) > 1 else WARNING
    evidence = [row.evidence for row in worst.outs[-3:]]
    evidence += [row.evidence for row in worst.waits[-2:]]
    return Complaint(severity, "SLOW_CONSUMER", text, tuple(evidence), _advice(worst, known))


# --- who


def _slow(known: Findings) -> list[Slow]:
    found: dict[str, Slow] = {}
    for row in known.exits:
        if row.cause in SLOW:
            key = row.instance_id or f"{row.client_id} {row.client_host}"
            new = Slow(row.client_id, row.client_host.strip("/"), row.instance_id, (), ())
            found[key] = found.get(key, new)
            found[key] = found[key]._replace(outs=(*found[key].outs, row))
    for round_ in known.rebalances:
        if round_.waited_for is not None:
            client_id, host, instance_id = _named(round_.waited_for, known)
            key = instance_id or f"{client_id} /{host}"
            new = Slow(client_id, host, instance_id, (), ())
            # One that was waited for in vain, or for its session's end, is told by its exit.
            of_round = (row for row in known.exits if row.log_offset == round_.log_offset)
            if not any(round_.waited_for == row.member_id for row in of_round):
                found[key] = found.get(key, new)
                found[key] = found[key]._replace(waits=(*found[key].waits, round_))
    return list(found.values())


def _named(member_id: str, known: Findings) -> tuple[str, str, str | None]:
    members = known.generation.members if known.generation is not None else ()
    for member in members:
        if member.member_id == member_id:
            return member.client_id, member.client_host.strip("/"), member.instance_id
    for row in known.exits:
        if row.member_id == member_id:
            return row.client_id, row.client_host.strip("/"), row.instance_id
    # Coordinators make a member's id of its client's and a UUID.
    return (member_id[:-37] if len(member_id) > 37 else member_id), "", None


def _rebalances_for(slow: Slow, known: Findings) -> list[Rebalance]:
    """Those that it caused: by going, and by coming back."""
    gone = {row.log_offset for row in slow.outs}
    waits = {row.log_offset for row in slow.waits}
    return [
        row
        for row in known.rebalances
        if row.is_rebalance
        and (
            row.log_offset in gone | waits
            or (
                row.cause == Cause.MEMBER_JOINED.name
                and row.client_id == slow.client_id
                and any(f"REJOIN_AFTER_{cause}" in row.evidence for cause in SLOW)
            )
        )
    ]


# --- what is said of it


def _who_and_how_often(slow: Slow, known: Findings) -> str:
    name = f"{slow.client_id} on {slow.host}" if slow.host else slow.client_id
    if slow.instance_id is not None:
        name += f" (instance {slow.instance_id})"
    if not slow.outs:
        return f"Consumer {name} keeps group {known.group} waiting."
    first, last = slow.outs[0].left_at, slow.outs[-1].left_at
    when = ""
    if first is not None and last is not None:
        when = f" at {clock(first)}"
        if len(slow.outs) > 1:
            when = f" between {clock(first)} and {clock(last)}"
    often = times(len(slow.outs))
    return f"Consumer {name} was out of group {known.group} {often}{when}."


def _why(slow: Slow) -> str:
    if not slow.outs:
        return ""
    silences = [row.silence_ms for row in slow.outs if row.silence_ms is not None]
    last = slow.outs[-1]
    longest = f" for up to {span(max(silences))}" if silences else ""
    limit = span(last.rebalance_timeout_ms)
    if all(row.cause == Cause.TIMEOUT_AMBIGUOUS.name for row in slow.outs):
        return (
            f"It had committed nothing{longest}: it polled too slowly, or its session of "
            f"{span(last.session_timeout_ms)} ended; with its timeouts the log cannot tell."
        )
    exact = sum(row.confidence == "exact" for row in slow.outs)
    known = "as the coordinator's events say" if exact else "as its silence shows"
    # aiokafka does not tell its coordinator how long it may take.
    within = (
        f"in time (rebalance timeout {limit})"
        if _is_untold(last)
        else f"within its max.poll.interval.ms of {limit}"
    )
    text = f"It did not poll {within}, {known}: it had committed nothing{longest}."
    back = [r.came_back_after_ms for r in slow.outs if r.came_back_after_ms is not None]
    if silences:
        text += f" For {span(sum(silences))} in all nobody read its partitions."
    if back:
        text += f" It came back {times(len(back))}, after {span(max(back))} at the latest."
    return text


def _standstill(rebalances: list[Rebalance], known: Findings) -> str:
    """How often everybody stopped for it, and for how long."""
    if not rebalances:
        return ""
    text = f"That cost {len(rebalances)} rebalance{'s' * (len(rebalances) > 1)}"
    pauses = [row.pause_ms for row in rebalances if row.pause_ms is not None]
    if not pauses:
        return f"{text}; how long consumption stood still is not known."
    if sum(pauses) < PAUSE_WORTH_TELLING_MS:
        text += "; each was over before the group's next commits were due"
        rounds = [row.join_ms + (row.sync_ms or 0) for row in rebalances if row.join_ms is not None]
        return f"{text}, after {span(max(rounds))} at the latest." if rounds else f"{text}."
    text += f", in which the consumption of the group stood still for {span(sum(pauses))} in all"
    if len(pauses) > 1:
        text += f", {span(max(pauses))} at the longest"
    began = [row.joined_at for row in rebalances if row.joined_at is not None]
    passed = known.as_of_ms - min(began) if began else 0
    if len(pauses) > 1 and 0.01 * passed <= sum(pauses) < passed <= HOUR_MS:
        text += f" ({share(sum(pauses) / passed)} of the time since)"
    return f"{text}."


def _waits(slow: Slow) -> str:
    waits = [row.wait_ms for row in slow.waits if row.wait_ms is not None]
    if not waits:
        return ""
    return (
        f"{times(len(waits)).capitalize()} a rebalance began while it was still processing, and "
        f"all others waited for it, {span(max(waits))} at the longest."
    )


def _refused(rebalances: Iterable[Rebalance]) -> str:
    count = sum(row.rejected_commits or 0 for row in rebalances)
    if not count:
        return ""
    commits = "1 commit was" if count == 1 else f"{count} commits were"
    return f"{commits} refused meanwhile: that work was done again."


def _others(others: list[Slow]) -> str:
    if not others:
        return ""
    names = listed(f"{slow.client_id} on {slow.host}".removesuffix(" on ") for slow in others)
    return f"Slow as well: {names}."


# --- what to do


def _advice(slow: Slow, known: Findings) -> tuple[str, ...]:
    limit = max(
        [0 if _is_untold(row) else row.rebalance_timeout_ms for row in slow.outs]
        or [m.rebalance_timeout_ms for m in (known.generation.members if known.generation else ())]
        or [0]
    )
    session = max([row.session_timeout_ms for row in slow.outs] or [0])
    took = _took_ms(slow)
    faster = "Process faster, or take less at a time (max.poll.records)"
    if limit:
        faster += f", so that a batch takes less than {span(limit)}"
    advice = [f"{faster}; hand long work to other threads and pause() the partition meanwhile."]
    if took is not None and took > limit / RESERVE:
        enough = _rounded_up(RESERVE * took)
        advice.append(
            f"Or let it take its time: max.poll.interval.ms={enough} ({span(enough)}), half as "
            f"long again as the {span(took)} that it was seen to take."
        )
    static = (
        "Static membership (group.instance.id) spares rebalances at restarts; it does not cure "
        "slow polls alone"
    )
    advice.append(f"{static}: such a member is out as well, once its session ends.")
    advice += cooperative(known)
    rule = "Keep session.timeout.ms ≥ 3 × heartbeat.interval.ms"
    if session:
        rule += f" (with {span(session)}: heartbeats each {span(session // 3)} or oftener)"
    advice.append(f"{rule}; a longer session does not help a slow poll.")
    return tuple(advice)


def _is_untold(row: MemberExit) -> bool:
    return row.rebalance_timeout_ms == row.session_timeout_ms


def _took_ms(slow: Slow) -> int | None:
    """The longest that it was seen to be at one batch: until it was out and, if it came back, until
    then; or while the others waited."""
    took = [
        row.silence_ms + (row.came_back_after_ms or 0)
        for row in slow.outs
        if row.silence_ms is not None
    ]
    took += [row.wait_ms for row in slow.waits if row.wait_ms is not None]
    return max(took, default=None)


def _rounded_up(ms: float) -> int:
    """To a figure that somebody would write into a configuration."""
    step = 60_000 if ms > 120_000 else 1_000
    return -int(-ms // step) * step
