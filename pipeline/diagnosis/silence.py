"""How long a member had been silent when it was out, and how long the round was open for whom.

All that the log shows of a member is its commits. Of a round it shows the end (`joined_at`), not
the beginning; that is taken from those who stayed: who commits by the clock, or has something to
read, stops when it hears of the round.
"""

from typing import Final, NamedTuple

from .history import History, Owned, Step, is_cooperative
from .story import Generation, Member

__all__ = ["Round", "Silence", "round_of", "silence_of", "worth_telling"]

WAIT_WORTH_TELLING_MS: Final = 10_000
"""Three of Kafka's heartbeat intervals (3 s): nobody needs longer to hear of a round. Where
sessions are short, a third of the session (heartbeat.interval.ms should not be more)."""

REPEATS_MIN: Final = 2
"""One repeat may be the commit of a client that gives its partitions up; two are the clock's."""


class Silence(NamedTuple):
    """Of a member that is out. Spans are None where its partitions cannot be read, or the log lacks
    what came after its last commit."""

    member: Member
    committed: bool  # False: nothing since the generation began, and silence counts from there
    age_ms: int | None  # since the generation was complete: it cannot have been out for longer
    at_start_ms: int | None  # when the round began, as far as that can be told
    ms: int | None  # when the round was over
    gap_ms: int | None  # its usual time between two commits
    had_work: bool | None  # there was something to read meanwhile; None: no sample says so
    repeats: bool  # it commits by the clock, whether there is something to read or not
    was_active: bool  # its partitions were read on under generations before
    held: bool  # the round was open for so long because of it
    # Since it last went ahead, though there was something to read; None: it went on, or was idle.
    stuck_ms: int | None = None

    @property
    def proves(self) -> bool:
        """Silence that tells something: not that of an idle member, nor just its usual rhythm."""
        if self.ms is None or (self.gap_ms is not None and self.ms < 1.2 * self.gap_ms):
            return False
        if self.committed:
            return self.repeats or self.had_work is not False
        return self.had_work is True or (self.had_work is None and self.was_active)


class Round(NamedTuple):
    """The join phase that led to a record."""

    started_est: int | None
    ended_ms: int | None
    waited_for: Member | None = None  # who kept the others waiting, if somebody did
    wait_ms: int | None = None


def silence_of(history: History, step: Step, member: Member, round_: Round) -> Silence:
    """Of one of `step.left`."""
    before = step.before
    assert before is not None
    owned = history.owned(before, member)
    first = history.written(before)[-1]
    began = _first_known(first.append_ms, first.state_ms)
    since = began if owned.last_commit_ms is None else owned.last_commit_ms
    ended = round_.ended_ms
    is_known = step.after.shows_all_since(owned.last_log_offset)
    if since is None or ended is None or not member.assigned or not is_known:
        age = None if began is None or ended is None else max(ended - began, 0)
        return Silence(member, False, age, None, None, None, None, False, False, False)
    started = ended if round_.started_est is None else round_.started_est
    return Silence(
        member,
        committed=owned.last_commit_ms is not None,
        age_ms=None if began is None else max(ended - began, 0),
        at_start_ms=max(min(started, ended) - since, 0),
        ms=max(ended - since, 0),
        gap_ms=owned.median_gap_ms,
        had_work=history.had_work(before, member, since, ended),
        repeats=owned.repeats >= REPEATS_MIN,
        was_active=history.was_active(before, member),
        held=round_.waited_for is member,
        stuck_ms=_stuck_ms(history, before, member, owned, began, ended),
    )


def _stuck_ms(
    history: History,
    before: Generation,
    member: Member,
    owned: Owned,
    began: int | None,
    ended: int,
) -> int | None:
    since = began if owned.last_advance_ms is None else owned.last_advance_ms
    if since is None or not owned.commits:
        return None
    return max(ended - since, 0) if history.had_work(before, member, since, ended) else None


def round_of(history: History, step: Step) -> Round:
    before, after = step.before, step.after
    ended = _first_known(after.state_ms, after.append_ms)
    if before is None or before.tombstone or after.tombstone or ended is None:
        return Round(None, ended)
    # Members of a cooperative group go on while the round is open: they do not tell when it began.
    if is_cooperative(before) or step.is_same_generation:
        return Round(None, ended)
    stopped: list[tuple[int, Member, Owned]] = []
    for member, _ in step.kept:
        last = history.owned(before, member)
        if not after.shows_all_since(last.last_log_offset):
            continue
        if last.last_commit_ms is not None and _stopped_by_it(history, before, member, last, ended):
            stopped.append((last.last_commit_ms, member, last))
    if not stopped:
        return Round(None, ended)
    started = min(min(ended, last_ms + (of.median_gap_ms or 0)) for last_ms, _, of in stopped)
    return _waited(step, Round(started, ended), stopped)


def _stopped_by_it(
    history: History, before: Generation, member: Member, last: Owned, ended: int
) -> bool:
    """It fell silent because of the round, not because nothing came."""
    assert last.last_commit_ms is not None
    return last.repeats >= REPEATS_MIN or bool(
        history.had_work(before, member, last.last_commit_ms, ended)
    )


def _waited(step: Step, round_: Round, stopped: list[tuple[int, Member, Owned]]) -> Round:
    started, ended = round_.started_est, round_.ended_ms
    assert started is not None
    assert ended is not None
    assert step.before is not None
    wait_ms = ended - started
    worth = worth_telling(step.before)
    if wait_ms < worth:
        return round_
    # Who committed last, right before it joined: it was still processing while the others waited.
    last_ms, member, _ = max(stopped, key=lambda of: of[0])
    if last_ms >= max(started + worth, ended - worth):
        return round_._replace(waited_for=member, wait_ms=wait_ms)
    # Or one that was waited for in vain.
    for member in step.left:
        limit = 0.9 * min(member.session_timeout_ms, max(member.rebalance_timeout_ms, 0))
        if wait_ms >= limit:
            return round_._replace(waited_for=member, wait_ms=wait_ms)
    return round_


def worth_telling(generation: Generation) -> int:
    """How long a round must be open before somebody was waited for."""
    sessions = (member.session_timeout_ms // 3 for member in generation.members)
    return min([WAIT_WORTH_TELLING_MS, *sessions])


def _first_known(*times: int | None) -> int | None:
    return next((time for time in times if time is not None), None)
