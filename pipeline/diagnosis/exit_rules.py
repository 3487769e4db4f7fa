"""Why a member left, from the log alone: rules 6 to 10 of docs/diagnosis.md; the first match wins.
(The rules for rebalances are in rebalance_rules.py. Rule 6 has one function for each kind of
evidence.)

The rules compare the member's silence (its time without a commit) with its rebalance timeout (for
most clients, max.poll.interval.ms) and with its session timeout. They also check whether the same
client rejoined in the record from which the member is missing.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from ..formatting import duration
from .group_history import Member
from .timing import REPORTABLE_WAIT_MS, Silence


class Explanation(NamedTuple):
    """A cause, as inferred by a rule or taken from the event log."""

    cause: Cause
    confidence: str  # exact, high, medium, low
    evidence: str
    member: Member | None = None  # the member that caused it
    rule: int = 0  # number of the rebalance rule in docs/diagnosis.md; 0 for an exit


class Exit(NamedTuple):
    """A member that is in a record but not in the next one."""

    silence: Silence
    has_returned: bool  # the same client joined in the same record
    rejoined_after_ms: int | None  # the client rejoined in the same or a later record

    @property
    def member(self) -> Member:
        return self.silence.member


# A silence may be shorter than the timeout, down to this share of it. It starts with a commit,
# shortly after the last poll, and ends with the join phase, shortly after the deadline.
SLOW_POLL_SHARE: Final = 0.98
SESSION_SHARE: Final = 0.9

HEARTBEAT_SHARE: Final = 1 / 3
"""Kafka's upper bound for heartbeat.interval.ms / session.timeout.ms. A session starts with the
last heartbeat, which may precede the last poll by this share of the session timeout."""

AMBIGUOUS_RATIO: Final = 1.5
"""If the rebalance timeout is at most this many session timeouts, both may explain a silence."""

LATE_MS: Final = 5_000
"""How long after a timeout the rebalance may appear in the log, in addition to the usual commit
gap. The other members are informed of the rebalance by their next heartbeat (3 s) and then
rejoin."""

DEFAULT_GAP_MS: Final = 5_000
"""Kafka's auto.commit.interval.ms, for members with too few commits to show a usual gap."""

STUCK_MS: Final = 25_000
"""The shortest time without progress after which a member is considered stuck. A constant,
because aiokafka does not send its max.poll.interval.ms."""


def _revocation_timeout(exit_: Exit) -> Explanation | None:
    """Rule 6, in consumer groups (KIP-848): the coordinator removed the member because it did not
    revoke partitions. Evidence: the revocation was pending for at least 0.98 of the member's
    rebalance timeout. Confidence: high."""
    member, revoking_ms = exit_.member, exit_.silence.revoking_ms
    if revoking_ms is None or revoking_ms < SLOW_POLL_SHARE * member.rebalance_timeout_ms:
        return None
    text = (
        f"{member.label} did not revoke its partitions within {duration(revoking_ms)}; its "
        f"max.poll.interval.ms is {duration(member.rebalance_timeout_ms)}"
    )
    return Explanation(Cause.REBALANCE_TIMEOUT, "high", text, member)


def _slow_poll(exit_: Exit) -> Explanation | None:
    """Rule 6: the poll interval was exceeded.

    Evidence: a significant silence of at least 0.98 of the rebalance timeout (for a static member,
    two thirds of its session timeout are added). The rule does not apply if the silence also
    fits the session timeout (_ambiguous).
    Confidence: high if the member had committed, there were records to read during at least that
    time, and the client rejoined in this or a later record; otherwise medium or low.
    """
    member, silence = exit_.member, exit_.silence
    if not silence.is_significant or silence.total_ms is None or not _fits_slow_poll(silence):
        return None
    if _session_may_explain(silence) and _fits_session(silence):
        return None
    if _rebalance_ms(member) == member.session_timeout_ms:
        session = duration(member.session_timeout_ms)
        limit = f"longer than its session timeout of {session}, so it was sending heartbeats"
    else:
        limit = f"its max.poll.interval.ms is {duration(_rebalance_ms(member))}"
    text = f"{_silent(silence)}; {limit}{_records_to_read(silence)}"
    if member.instance_id is not None:
        text += "; a static member does not send LeaveGroup and stays until its session expires"
    is_confirmed = silence.had_records is True and exit_.rejoined_after_ms is not None
    is_confirmed &= silence.total_ms >= slow_poll_min_ms(member)
    return Explanation(Cause.SLOW_POLL, _confidence(silence, is_confirmed), text, member)


def _stuck(exit_: Exit) -> Explanation | None:
    """Rule 6, for clients that commit in the background while the application is busy (aiokafka).
    Evidence: until the member left normally, it kept committing the same offsets although there
    were records to read, for at least as long as the shortest slow poll and at least 25 s.
    Confidence: medium."""
    member, silence = exit_.member, exit_.silence
    if silence.stuck_ms is None or not silence.is_periodic or not _is_short(silence):
        return None
    if _session_silence_ms(silence) >= SESSION_SHARE * member.session_timeout_ms:
        return None
    if silence.stuck_ms < max(slow_poll_min_ms(member), STUCK_MS):
        return None
    text = (
        f"{member.label} kept committing the same offsets for {duration(silence.stuck_ms)} "
        "although there were records to read; its rebalance timeout is "
        f"{duration(_rebalance_ms(member))}"
    )
    return Explanation(Cause.SLOW_POLL, "medium", text, member)


def _ambiguous(exit_: Exit) -> Explanation | None:
    """Rule 6, if both timeouts explain the silence. Evidence: a significant silence that fits a
    slow poll and an expired session. Confidence: low."""
    member, silence = exit_.member, exit_.silence
    if not silence.is_significant or not _session_may_explain(silence):
        return None
    if not (_fits_slow_poll(silence) and _fits_session(silence)):
        return None
    is_one_value = member.rebalance_timeout_ms == member.session_timeout_ms
    text = (
        f"{_silent(silence)}; its rebalance timeout ({duration(_rebalance_ms(member))}) and its "
        f"session timeout ({duration(member.session_timeout_ms)}) explain this equally well"
        f"{' (aiokafka uses one value for both)' if is_one_value else ''}"
        f"{_records_to_read(silence)}"
    )
    return Explanation(Cause.TIMEOUT_AMBIGUOUS, "low", text, member)


def _session_timeout(exit_: Exit) -> Explanation | None:
    """Rule 7: the session expired. Evidence: a significant silence of at least 0.9 of the session
    timeout when the rebalance began (or ended, if it waited for this member). Confidence: medium;
    low without a commit or records."""
    member, silence = exit_.member, exit_.silence
    if not silence.is_significant or silence.total_ms is None:
        return None
    if _session_silence_ms(silence) < SESSION_SHARE * member.session_timeout_ms:
        return None
    text = (
        f"{_silent(silence)}; its session.timeout.ms is {duration(member.session_timeout_ms)}: "
        f"a crash, a long pause of the process, or a network failure{_records_to_read(silence)}"
    )
    if member.instance_id is not None:
        text += "; closing a static member looks the same"
    confidence = _confidence(silence, is_confirmed=False)
    return Explanation(Cause.SESSION_TIMEOUT, confidence, text, member)


def _restarted(exit_: Exit) -> Explanation | None:
    """Rule 8: the member was restarted. Evidence: a silence too short for an expired session, and
    the same client joined in the same record. Confidence: medium."""
    if not exit_.has_returned or not _is_short(exit_.silence):
        return None
    text = f"{_recently_active(exit_)}, and rejoined with a new member id in the same rebalance"
    return Explanation(Cause.RESTARTED, "medium", text, exit_.member)


def _left_cleanly(exit_: Exit) -> Explanation | None:
    """Rule 9: the member left. Evidence: a silence too short for an expired session, and the client
    did not rejoin in the same record. Confidence: medium."""
    if exit_.has_returned or not _is_short(exit_.silence):
        return None
    text = f"{_recently_active(exit_)}: it was closed or unsubscribed"
    return Explanation(Cause.LEFT_CLEANLY, "medium", text, exit_.member)


def _left_unknown(exit_: Exit) -> Explanation:
    """Rule 10: no commit shows why the member left. Confidence: low."""
    member, silence = exit_.member, exit_.silence
    if member.assigned is None:
        why = "its assignment cannot be decoded"
    elif not member.assigned:
        why = "it had no partitions and so never committed"
    elif silence.total_ms is None:
        why = "the log does not show when, so the length of its silence is unknown"
    elif silence.had_records is False:
        idle = duration(silence.total_ms)
        why = f"its partitions were idle for {idle}, so its silence is not significant"
    elif silence.idle_ms:
        busy = f"{duration(silence.total_ms)} before it left"
        why = f"its partitions were idle until {busy}, so its silence is not significant"
    elif silence.committed:
        why = f"it often goes {duration(silence.total_ms)} without a commit"
    else:
        why = "none of its commits is in the log"
    return Explanation(Cause.LEFT_UNKNOWN, "low", f"{member.label} left: {why}", member)


EXIT_RULES: Final[tuple[Callable[[Exit], Explanation | None], ...]] = (
    _revocation_timeout,
    _slow_poll,
    _stuck,
    _ambiguous,
    _session_timeout,
    _restarted,
    _left_cleanly,
)


def infer_exit(exit_: Exit) -> Explanation:
    """Return the result of the first rule that matches."""
    for rule in EXIT_RULES:
        if (explanation := rule(exit_)) is not None:
            return explanation
    return _left_unknown(exit_)


# --- timeouts


def _rebalance_ms(member: Member) -> int:
    """Return the rebalance timeout. Records of version 0 have none; for them, coordinators use the
    session timeout."""
    ms = member.rebalance_timeout_ms
    return ms if ms >= 0 else member.session_timeout_ms


def _session_after_poll_ms(member: Member) -> int:
    """Return the session timeout of a static member, or 0 for a dynamic member. A static member
    that polls too slowly sends no LeaveGroup, so its session has to expire as well."""
    return member.session_timeout_ms if member.instance_id is not None else 0


def slow_poll_min_ms(member: Member) -> float:
    """Return the shortest silence of a member that exceeds its poll interval."""
    session_ms = (1 - HEARTBEAT_SHARE) * _session_after_poll_ms(member)
    return SLOW_POLL_SHARE * _rebalance_ms(member) + session_ms


def reported_silence_ms(silence: Silence) -> int | None:
    """Return the silence to report, or the time since the last commit if only that time matches the
    poll interval."""
    total_ms = silence.total_ms
    if total_ms is None or total_ms >= slow_poll_min_ms(silence.member):
        return total_ms
    return silence.since_commit_ms if _fits_slow_poll(silence) else total_ms


def _session_may_explain(silence: Silence) -> bool:
    """Whether an expired session may explain the silence as well. Either the rebalance timeout is
    at most AMBIGUOUS_RATIO session timeouts, or the silence is shorter than the poll interval and
    only the time since the last commit exceeds it."""
    assert silence.total_ms is not None
    member = silence.member
    if silence.total_ms < slow_poll_min_ms(member):
        return True
    return _rebalance_ms(member) <= AMBIGUOUS_RATIO * member.session_timeout_ms


def _fits_slow_poll(silence: Silence) -> bool:
    """Whether a slow poll explains the silence, which must exceed the poll interval. If the session
    timeout may explain it as well, the silence must also be either only slightly longer than the
    poll interval, or longer than a session can last without heartbeats.

    A client that commits records when it has polled them, such as librdkafka, has nothing to commit
    while it processes them, so the time since its last commit may also match the poll interval."""
    assert silence.total_ms is not None
    member, late = silence.member, _late_ms(silence)
    slow_poll_max = _rebalance_ms(member) + _session_after_poll_ms(member) + late
    if silence.total_ms < slow_poll_min_ms(member):
        return slow_poll_min_ms(member) <= silence.total_ms + silence.idle_ms <= slow_poll_max
    if not _session_may_explain(silence):
        return True
    return silence.total_ms <= slow_poll_max or silence.total_ms > member.session_timeout_ms + late


def _fits_session(silence: Silence) -> bool:
    """Whether an expired session explains the silence. The heartbeats may have stopped while there
    was nothing to read."""
    session_ms, silence_ms = silence.member.session_timeout_ms, _session_silence_ms(silence)
    is_long = silence_ms + silence.idle_ms >= SESSION_SHARE * session_ms
    return is_long and silence_ms <= session_ms + _late_ms(silence)


def _late_ms(silence: Silence) -> int:
    return LATE_MS + (DEFAULT_GAP_MS if silence.gap_ms is None else silence.gap_ms)


def _session_silence_ms(silence: Silence) -> int:
    """Return the silence that an expired session has to explain. It ends when the rebalance starts.
    If the rebalance waited for this member, or was short and ended after the session had expired,
    it ends when the rebalance ends."""
    assert silence.total_ms is not None
    if silence.delayed_rebalance or silence.until_start_ms is None:
        return silence.total_ms
    session_ms = silence.member.session_timeout_ms
    waited_ms = silence.total_ms - silence.until_start_ms
    if silence.total_ms >= session_ms and waited_ms < min(REPORTABLE_WAIT_MS, session_ms // 3):
        return silence.total_ms
    return silence.until_start_ms


def _is_short(silence: Silence) -> bool:
    """Whether the silence is too short for an expired session: the member committed within its
    session timeout, or the generation was younger than that."""
    session_ms = silence.member.session_timeout_ms
    # The age is measured from the end of SyncGroup, and a session from the member's last request.
    if silence.age_ms is not None and silence.age_ms < SESSION_SHARE * session_ms:
        return True
    if not silence.committed or silence.total_ms is None:
        return False
    if silence.total_ms + silence.idle_ms < session_ms:
        return True
    return _session_silence_ms(silence) + silence.idle_ms < SESSION_SHARE * session_ms


def _confidence(silence: Silence, is_confirmed: bool) -> str:
    if is_confirmed and silence.committed:
        return "high"
    return "medium" if silence.committed or silence.had_records else "low"


# --- texts


def _silent(silence: Silence) -> str:
    within = "" if silence.committed else " in this generation,"
    silent = duration(reported_silence_ms(silence))
    return f"{silence.member.label} did not commit{within} for {silent}"


def _records_to_read(silence: Silence) -> str:
    if silence.had_records is True:
        if reported_silence_ms(silence) == silence.total_ms:
            return "; there were records to read"
        return f"; there were records to read during the last {duration(silence.total_ms)}"
    if silence.had_records is None:
        return "; without samples of the log end it is unknown whether there were records to read"
    return "; it commits periodically, even if there is nothing to read"


def _recently_active(exit_: Exit) -> str:
    silence, label = exit_.silence, exit_.member.label
    session = duration(exit_.member.session_timeout_ms)
    if silence.committed and silence.total_ms is not None:
        silent = duration(_session_silence_ms(silence) + silence.idle_ms)
        return f"{label} committed {silent} before it left, within its session timeout of {session}"
    age = duration(silence.age_ms)
    return (
        f"{label} left when the generation was {age} old, within its session timeout of {session}"
    )
