"""Exact causes and durations from the coordinator's event log (docs/events.md).

The coordinator reports what triggered a rebalance and how a member left. The rules refine this
cause if the records reveal more (a restart, added partitions), or if a long time without commits
explains a LeaveGroup without a reason. If the event log lacks an event, the rules alone decide.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping
from operator import attrgetter
from statistics import median
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from ...protocol.errors import ErrorCode
from ..formatting import count_of, duration, join_texts
from .exit_rules import Exit, Explanation, slow_poll_min_ms
from .group_history import Event, GroupHistory, Member
from .history_index import Transition
from .timing import JoinPhase, reportable_wait_ms

NEAR_MS: Final = 5_000
"""Maximum time between an event and its record, which may be delayed by a slow disk."""

DELAYS_MIN: Final = 5
"""Number of delays between a rebalance and a member's join that an estimate requires."""

ERRORS: Final[Mapping[int, str]] = {int(code): code.name.upper() for code in ErrorCode}

EXIT_CAUSES: Final = (
    Cause.LEFT_CLEANLY,
    Cause.SLOW_POLL,
    Cause.REMOVED_BY_ADMIN,
    Cause.SESSION_TIMEOUT,
    Cause.SYNC_TIMEOUT,
    Cause.REBALANCE_TIMEOUT,
)
"""Causes of rebalances triggered by members that left."""

EXIT_EVENTS: Final = {
    "leave_received": "sent LeaveGroup",
    "member_expired": "was removed: session expired",
    "member_join_timed_out": "did not rejoin",
    "member_revocation_timed_out": "did not revoke its partitions",
    "member_sync_timed_out": "joined but sent no SyncGroup",
    "join_rejected": "was rejected: the group is full",
}


class LoggedRebalance(NamedTuple):
    """The events of the rebalance that led to a record."""

    cause: Cause
    reason: str
    triggered_by: tuple[str, ...]  # member ids
    ended_ms: int
    join_ms: int | None
    sync_ms: int | None


class EventLog:
    """The events in a group's history, indexed."""

    def __init__(self, history: GroupHistory) -> None:
        self._of_type: dict[str, list[Event]] = {}
        self._exits: dict[str, list[Event]] = defaultdict(list)
        for event in sorted(history.events, key=lambda event: (event.ts_ms, event.seq)):
            self._of_type.setdefault(event.type, []).append(event)
            if event.type in EXIT_EVENTS and event.member_id is not None and _cause(event):
                self._exits[event.member_id].append(event)
        self.heartbeat_ms = self._estimate_heartbeat_ms()

    def __bool__(self) -> bool:
        return bool(self._of_type)

    # --- rebalances

    def rebalance_of(self, transition: Transition) -> LoggedRebalance | None:
        after = transition.after
        if after.tombstone or transition.is_same_generation:
            return None
        type_ = "join_completed" if after.members else "group_emptied"
        if after.is_consumer_group:
            type_ = "rebalance_started"  # with the new epoch
        event = self._nearest(type_, after.state_ms, after.generation)
        cause = _cause(event)
        if event is None or cause is None:
            return None
        synced = self._nearest("sync_completed", after.append_ms, after.generation)
        return LoggedRebalance(
            cause,
            event.reason or cause.value,
            tuple(filter(None, event.detail.get("triggered_by", "").split(","))),
            event.ts_ms,
            None if after.is_consumer_group else event.duration_ms,
            None if synced is None else synced.duration_ms,
        )

    def cause_without_rebalance(self, transition: Transition) -> Cause | None:
        """Return the cause of a record that was written without a rebalance."""
        after = transition.after
        if after.tombstone:
            return _cause(self._nearest("group_deleted", after.append_ms))
        if transition.is_same_generation:
            ids = {new.member_id for _, new in transition.replaced}
            replacements = self._of_type.get("member_replaced", ())
            successors = {event.detail.get("successor") for event in replacements}
            return None if ids.isdisjoint(successors) else Cause.STATIC_REPLACED
        created = self._nearest("group_created", after.state_ms or after.append_ms)
        return None if created is None else Cause.GROUP_CREATED

    def lost_generations(self, transition: Transition) -> list[tuple[int, Cause]]:
        """Return the generations that never reached SyncGroup and therefore have no record."""
        before, after = transition.before, transition.after
        if before is None or before.generation is None or after.generation is None:
            return []
        return [
            (event.generation, cause)
            for event in self._between("join_completed", before.state_ms, after.state_ms)
            if event.generation is not None
            and before.generation < event.generation < after.generation
            and (cause := _cause(event)) is not None
        ]

    def rejected_commits(self, transition: Transition) -> Counter[str]:
        """Count the commits rejected since the previous record, by error."""
        before, after = transition.before, transition.after
        if before is None:
            return Counter()
        since = before.state_ms if before.append_ms is None else before.append_ms
        if since is not None:
            since += 1  # an event at the time of a record counts for that record
        until = after.state_ms if after.append_ms is None else after.append_ms
        return Counter(
            ERRORS.get(event.error_code or 0, f"error {event.error_code}")
            for event in self._between("commit_rejected", since, until)
        )

    def join_phase_of(
        self, transition: Transition, rebalance: LoggedRebalance, estimated: JoinPhase
    ) -> JoinPhase:
        """Return the join phase with exact times, and the member that joined last or timed out."""
        if rebalance.join_ms is None:
            return estimated
        started = rebalance.ended_ms - rebalance.join_ms
        phase = JoinPhase(started, estimated.ended_ms)
        if transition.before is None or not transition.before.members:
            return phase
        reportable = reportable_wait_ms(transition.before)
        if rebalance.join_ms < reportable:
            return phase
        for member in transition.left:
            event = self.exit_event(transition, member)
            if (
                event is not None
                and event.type in ("member_join_timed_out", "member_expired")
                and event.ts_ms >= started + reportable
            ):
                return phase._replace(waited_for=member, wait_ms=event.ts_ms - started)
        kept = {new.member_id: old for old, new in transition.kept}
        joins = [
            (event.ts_ms, kept[event.member_id])
            for event in self._between("join_received", started, rebalance.ended_ms)
            if event.member_id in kept
        ]
        if joins and joins[-1][0] >= started + reportable:
            joined_ms, last = joins[-1]
            return phase._replace(waited_for=last, wait_ms=joined_ms - started)
        return phase

    def cause_of_offsets_deletion(self, time_ms: int) -> Cause | None:
        return _cause(self._nearest("offsets_deleted", time_ms))

    # --- exits

    def explain_exit(
        self,
        transition: Transition,
        exit_: Exit,
        inferred: Explanation,
        rebalance: LoggedRebalance | None,
    ) -> Explanation | None:
        """Explain how a member of `transition.left` left. `inferred` is the result of the rules."""
        member = exit_.member
        event = self.exit_event(transition, member)
        cause = _cause(event)
        if event is None or cause is None:
            return _exit_by_rebalance(member, inferred, rebalance)
        is_consumer_group = transition.before is not None and transition.before.is_consumer_group
        text = f"{member.label} {_describe_exit(event, is_consumer_group)}"
        if slow := _slow_poll_evidence(event, exit_, inferred):
            return Explanation(Cause.SLOW_POLL, "high", f"{text}; {slow}", member)
        if cause is Cause.LEFT_CLEANLY and exit_.has_returned:
            text += ", and rejoined with a new member id in the same rebalance"
            return Explanation(Cause.RESTARTED, "exact", text, member)
        if cause is Cause.SESSION_TIMEOUT and self.heartbeat_ms is not None:
            text += f"; estimated heartbeat.interval.ms of the group: {duration(self.heartbeat_ms)}"
            if member.session_timeout_ms < 3 * self.heartbeat_ms:
                text += ", more than a third of the session timeout"
        return Explanation(cause, "exact", text, member)

    def exit_event(self, transition: Transition, member: Member) -> Event | None:
        """Return the member's newest exit event up to the record. (Tests may reuse member ids.)"""
        since = transition.before.state_ms if transition.before is not None else None
        until = transition.after.time_ms
        found = [
            event
            for event in self._exits.get(member.member_id, [])
            if (since is None or event.ts_ms >= since - NEAR_MS)
            and (until is None or event.ts_ms <= until + NEAR_MS)
        ]
        return found[-1] if found else None

    # --- lookups

    def _nearest(
        self, type_: str, time_ms: int | None, generation: int | None = None
    ) -> Event | None:
        if time_ms is None:
            return None
        found = [
            event
            for event in self._between(type_, time_ms - NEAR_MS, time_ms + NEAR_MS)
            if generation is None or event.generation == generation
        ]
        return min(found, key=lambda event: abs(event.ts_ms - time_ms), default=None)

    def _between(self, type_: str, since: int | None, until: int | None) -> list[Event]:
        events = self._of_type.get(type_, [])
        first = 0 if since is None else bisect_left(events, since, key=attrgetter("ts_ms"))
        last = None if until is None else bisect_right(events, until, key=attrgetter("ts_ms"))
        return events[first:last]

    def _estimate_heartbeat_ms(self) -> int | None:
        """Estimate the heartbeat interval. On average, a member is informed of a rebalance half an
        interval after the rebalance starts."""
        delays = []
        for event in self._of_type.get("join_completed", []):
            if event.duration_ms is None:
                continue
            started = event.ts_ms - event.duration_ms
            ignored = {e.member_id for e in self._between("member_joined", started, event.ts_ms)}
            ignored |= set(event.detail.get("triggered_by", "").split(","))
            delays += [
                join.ts_ms - started
                for join in self._between("join_received", started, event.ts_ms)
                if join.member_id is not None and join.member_id not in ignored
            ]
        return int(2 * median(delays)) if len(delays) >= DELAYS_MIN else None


def _exit_by_rebalance(
    member: Member, inferred: Explanation, rebalance: LoggedRebalance | None
) -> Explanation | None:
    """Explain an exit without an event by the cause of the rebalance that it triggered."""
    if rebalance is None or member.member_id not in rebalance.triggered_by:
        return None
    cause = rebalance.cause
    if cause not in EXIT_CAUSES:
        return None
    if cause is Cause.LEFT_CLEANLY and inferred.cause in (Cause.RESTARTED, Cause.SLOW_POLL):
        return inferred._replace(confidence="high")
    return Explanation(cause, "exact", f"{member.label}: {cause.value}", member)


def _cause(event: Event | None) -> Cause | None:
    return None if event is None else Cause.__members__.get(event.detail.get("cause", ""))


def _describe_exit(event: Event, is_consumer_group: bool) -> str:
    text = EXIT_EVENTS[event.type]
    span = None if event.duration_ms is None else duration(event.duration_ms)
    if event.type == "leave_received" and is_consumer_group:
        return "left the group with a heartbeat"  # without a reason
    if event.type == "leave_received":
        return f'{text}: "{event.reason}"' if event.reason else f"{text} without a reason"
    if event.type == "member_expired" and span:
        return f"{text} {span} after its last heartbeat"
    if event.type == "member_revocation_timed_out" and span:
        return f"{text} within {span}"
    if event.type == "member_join_timed_out":
        return f"{text}{f' within {span}' if span else ''} while the others waited for it"
    return text


def _slow_poll_evidence(event: Event, exit_: Exit, inferred: Explanation) -> str | None:
    """Return evidence for a slow poll that the coordinator could not recognize because the client
    gave no reason, or None."""
    member, silence = exit_.member, exit_.silence
    silent = duration(silence.total_ms)
    if inferred.cause not in (Cause.SLOW_POLL, Cause.TIMEOUT_AMBIGUOUS):
        return None
    if event.type == "leave_received" and not event.reason:
        if _cause(event) is Cause.LEFT_CLEANLY and inferred.confidence != "low":
            return inferred.evidence.replace(member.label, "it", 1)
        if inferred.cause is Cause.TIMEOUT_AMBIGUOUS and silence.is_significant:
            return f"its session had not expired, but it did not commit for {silent}"
    if (
        event.type == "member_expired"
        and member.instance_id is not None
        and inferred.cause is Cause.SLOW_POLL
        and silence.is_significant
        and (silence.total_ms or 0) >= slow_poll_min_ms(member)
    ):
        return (
            f"it did not commit for {silent}, about the sum of its max.poll.interval.ms and its "
            "session timeout: a static member that polls too slowly stops its heartbeats without a "
            "LeaveGroup"
        )
    return None


def describe_rejected(rejected: Counter[str]) -> str:
    """Return `3 commits rejected, so the records are processed again (ILLEGAL_GENERATION 2 …)`."""
    errors = join_texts(f"{name} {count}" for name, count in rejected.most_common())
    commits = count_of(rejected.total(), "commit")
    return f"{commits} rejected, so the records are processed again ({errors})"
