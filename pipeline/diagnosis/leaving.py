"""Why a member went, from the log alone: rules 6 to 10, in their order, for one member.

A rule looks at how long the member had been silent, against its two timeouts, and at whether the
same client came back in the very record that it is missing in.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from .silence import Silence
from .story import Member
from .words import span, who

__all__ = ["EXIT_RULES", "Finding", "Leaving", "slow_poll_least_ms", "why_left"]


class Finding(NamedTuple):
    """What a rule answers."""

    cause: Cause
    confidence: str  # exact, high, medium, low
    evidence: str
    member: Member | None = None  # whom it is about
    rule: int = 0  # of docs/diagnosis.md; 0: of the event log


class Leaving(NamedTuple):
    """A member that is out: what the rules of this file are asked about."""

    silence: Silence
    is_back: bool  # a client like it joined in the same record
    came_back_after_ms: int | None  # there, or in a later record

    @property
    def member(self) -> Member:
        return self.silence.member


# A silence is measured from a commit, a little after the poll before it, to the end of the round, a
# little after the deadline: it may be this much shorter than the timeout, not more.
SLOW_POLL_SHARE: Final = 0.98
SESSION_SHARE: Final = 0.9

HEARTBEAT_SHARE: Final = 1 / 3
"""heartbeat.interval.ms is at most this share of the session, by Kafka's rule: a session counts
from the last heartbeat, which may have been so long before heartbeats ended."""

AMBIGUOUS_SHARE: Final = 1.5
"""Timeouts nearer to each other than this may explain the same silence."""

LATE_MS: Final = 5_000
"""How late a timeout may show, beyond the member's usual gap between commits: the others hear of it
with their next heartbeat (3 s), and join."""

GAP_MS: Final = 5_000
"""The gap of a member that has none to be seen: auto.commit.interval.ms."""

STUCK_MS: Final = 25_000
"""Nobody is taken to be stuck for less, whatever its timeouts: aiokafka's max.poll.interval.ms is
not in its JoinGroup."""


def _slow_poll(leaving: Leaving) -> Finding | None:
    member, silence = leaving.member, leaving.silence
    if not silence.proves or silence.ms is None or not _fits_slow_poll(silence):
        return None
    if _is_near(member) and _fits_session(silence):
        return None
    sure = silence.had_work is True and leaving.came_back_after_ms is not None
    text = f"{who(member)} {_since(silence)} {span(silence.ms)}, "
    if _rebalance_ms(member) == member.session_timeout_ms:
        text += f"longer than its session of {span(member.session_timeout_ms)}: it sent heartbeats"
    else:
        text += f"its max.poll.interval.ms is {span(_rebalance_ms(member))}"
    text += _work(silence)
    if member.instance_id is not None:
        text += "; a static member says no goodbye, it is out when its session ends as well"
    return Finding(Cause.SLOW_POLL, _confidence(silence, sure), text, member, 6)


def _stuck(leaving: Leaving) -> Finding | None:
    """A client that commits by the clock, in the background, does so while its user is busy."""
    member, silence = leaving.member, leaving.silence
    if silence.stuck_ms is None or not silence.repeats or not _short(silence):
        return None
    if silence.stuck_ms < max(slow_poll_least_ms(member), STUCK_MS):
        return None
    text = (
        f"{who(member)} repeated the same offsets for {span(silence.stuck_ms)}, though there were "
        f"records for it to read; its rebalance timeout is {span(_rebalance_ms(member))}"
    )
    return Finding(Cause.SLOW_POLL, "medium", text, member, 6)


def _ambiguous(leaving: Leaving) -> Finding | None:
    member, silence = leaving.member, leaving.silence
    if not silence.proves or silence.ms is None or not _is_near(member):
        return None
    if not (_fits_slow_poll(silence) and _fits_session(silence)):
        return None
    text = (
        f"{who(member)} {_since(silence)} {span(silence.ms)}; its rebalance timeout, "
        f"{span(_rebalance_ms(member))}, and its session timeout, "
        f"{span(member.session_timeout_ms)}, explain that equally well (aiokafka gives both the "
        f"same value){_work(silence)}"
    )
    return Finding(Cause.TIMEOUT_AMBIGUOUS, "low", text, member, 6)


def _session_timeout(leaving: Leaving) -> Finding | None:
    member, silence = leaving.member, leaving.silence
    if not silence.proves or silence.ms is None:
        return None
    if _at_its_end(silence) < SESSION_SHARE * member.session_timeout_ms:
        return None
    text = (
        f"{who(member)} {_since(silence)} {span(silence.ms)}, its session.timeout.ms is "
        f"{span(member.session_timeout_ms)}: a crash, a long pause of its process, or the network"
        f"{_work(silence)}"
    )
    if member.instance_id is not None:
        text += "; a static member that is closed looks the same"
    return Finding(Cause.SESSION_TIMEOUT, _confidence(silence, sure=False), text, member, 7)


def _restarted(leaving: Leaving) -> Finding | None:
    if not leaving.is_back or not _short(leaving.silence):
        return None
    text = (
        f"{who(leaving.member)} {_lately(leaving)}, and was back under a new id in the same round"
    )
    return Finding(Cause.RESTARTED, "medium", text, leaving.member, 8)


def _left_cleanly(leaving: Leaving) -> Finding | None:
    if leaving.is_back or not _short(leaving.silence):
        return None
    text = f"{who(leaving.member)} {_lately(leaving)}: it was closed, or has unsubscribed"
    return Finding(Cause.LEFT_CLEANLY, "medium", text, leaving.member, 9)


def _left_unknown(leaving: Leaving) -> Finding:
    member, silence = leaving.member, leaving.silence
    if member.assigned is None:
        why = "its assignment cannot be read"
    elif not member.assigned:
        why = "it had no partitions, so it never committed"
    elif silence.ms is None:
        why = "the log does not say when"
    elif silence.had_work is False:
        why = f"its partitions were idle for {span(silence.ms)}, and idle silence proves nothing"
    elif silence.committed:
        why = f"a silence of {span(silence.ms)} is not unusual for it"
    else:
        why = "none of its commits is in the log"
    return Finding(Cause.LEFT_UNKNOWN, "low", f"{who(member)} went: {why}", member, 10)


EXIT_RULES: Final[tuple[Callable[[Leaving], Finding | None], ...]] = (
    _slow_poll,
    _stuck,
    _ambiguous,
    _session_timeout,
    _restarted,
    _left_cleanly,
)


def why_left(leaving: Leaving) -> Finding:
    """The first rule that holds."""
    for rule in EXIT_RULES:
        if (finding := rule(leaving)) is not None:
            return finding
    return _left_unknown(leaving)


def _rebalance_ms(member: Member) -> int:
    """Records of version 0 have none: coordinators take the session's."""
    ms = member.rebalance_timeout_ms
    return ms if ms >= 0 else member.session_timeout_ms


def _session_after_ms(member: Member) -> int:
    """A static member that polls too slowly sends no LeaveGroup, but no heartbeats either: its
    session has to end as well."""
    return member.session_timeout_ms if member.instance_id is not None else 0


def _slow_poll_ms(member: Member) -> int:
    """How long a member is silent that polls too slowly, at the most."""
    return _rebalance_ms(member) + _session_after_ms(member)


def slow_poll_least_ms(member: Member) -> float:
    """How long it is silent at the least."""
    after_ms = (1 - HEARTBEAT_SHARE) * _session_after_ms(member)
    return SLOW_POLL_SHARE * _rebalance_ms(member) + after_ms


def _is_near(member: Member) -> bool:
    return _rebalance_ms(member) <= AMBIGUOUS_SHARE * member.session_timeout_ms


def _fits_slow_poll(silence: Silence) -> bool:
    """For as long as the rebalance timeout; or, where that is near the session's, for longer than
    any session lasts: heartbeats must have kept it in."""
    assert silence.ms is not None
    member = silence.member
    if silence.ms < slow_poll_least_ms(member):
        return False
    late = _late_ms(silence)
    is_session = silence.ms <= member.session_timeout_ms + late
    return silence.ms <= _slow_poll_ms(member) + late or not is_session or not _is_near(member)


def _fits_session(silence: Silence) -> bool:
    assert silence.ms is not None
    session_ms = silence.member.session_timeout_ms
    return SESSION_SHARE * session_ms <= _at_its_end(silence) <= session_ms + _late_ms(silence)


def _late_ms(silence: Silence) -> int:
    return LATE_MS + (GAP_MS if silence.gap_ms is None else silence.gap_ms)


def _at_its_end(silence: Silence) -> int:
    """The silence that a session's end must explain: until the round began, or, when everybody
    waited for this very member, until it was over."""
    assert silence.ms is not None
    return silence.ms if silence.held or silence.at_start_ms is None else silence.at_start_ms


def _short(silence: Silence) -> bool:
    """Too short for a session to have ended: by its commits, each of which is a sign of life, or as
    the generation was too young."""
    session_ms = silence.member.session_timeout_ms
    if silence.age_ms is not None and silence.age_ms < session_ms:
        return True
    if not silence.committed or silence.ms is None:
        return False
    return silence.ms < session_ms or _at_its_end(silence) < SESSION_SHARE * session_ms


def _confidence(silence: Silence, sure: bool) -> str:
    if sure and silence.committed:
        return "high"
    return "medium" if silence.committed or silence.had_work else "low"


def _since(silence: Silence) -> str:
    if silence.committed:
        return "had committed nothing for"
    return "committed nothing in this generation, for"


def _work(silence: Silence) -> str:
    if silence.had_work is True:
        return "; there were records for it to read meanwhile"
    if silence.had_work is None:
        return "; no sample of the log's end says whether there was anything to read"
    return "; it commits by the clock, though there was nothing to read"


def _lately(leaving: Leaving) -> str:
    silence = leaving.silence
    session = span(silence.member.session_timeout_ms)
    if silence.committed and silence.ms is not None:
        silent = span(_at_its_end(silence))
        return f"committed {silent} before it went, within its session of {session}"
    assert silence.age_ms is not None
    return f"was in a generation of {span(silence.age_ms)}, less than its session of {session}"
