"""What the coordinator's event log adds: causes as it knew them, and how long each phase took.

The broker says who opened a round and who went how; it does not say what that was part of. Where
the log's own records tell more (a restart, partitions that were added), its cause is refined by
them, and where a client left without a word, by its silence. A log of events may begin late, lack
lines, or not be there: whatever it does not cover is left to the rules.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from statistics import median
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from .history import Step
from .leaving import Finding, Leaving, slow_poll_least_ms
from .silence import Round, worth_telling
from .story import Event, Member, Story
from .words import listed, span, who

__all__ = ["Witness", "WitnessedRound"]

NEAR_MS: Final = 5_000
"""An event and its record are of the same turn of the same clock; a slow disk comes between."""

DELAYS_MIN: Final = 5
"""So many answers to rounds are needed before a heartbeat interval is guessed from them."""

ERRORS: Final = {
    16: "NOT_COORDINATOR",
    22: "ILLEGAL_GENERATION",
    25: "UNKNOWN_MEMBER_ID",
    27: "REBALANCE_IN_PROGRESS",
    82: "FENCED_INSTANCE_ID",
}

EXIT_CAUSES: Final = frozenset(
    {
        Cause.LEFT_CLEANLY,
        Cause.SLOW_POLL,
        Cause.REMOVED_BY_ADMIN,
        Cause.SESSION_TIMEOUT,
        Cause.SYNC_TIMEOUT,
    }
)
"""Of these a round is opened on account of members that are out."""

EXITS: Final = frozenset(
    {
        "leave_received",
        "member_expired",
        "member_join_timed_out",
        "member_sync_timed_out",
        "join_rejected",
    }
)


class WitnessedRound(NamedTuple):
    """The events of the round that led to a record."""

    cause: Cause
    reason: str
    triggered_by: tuple[str, ...]
    ended_ms: int
    join_ms: int | None
    sync_ms: int | None


class Witness:
    """The events of a story, so arranged that they can be asked."""

    def __init__(self, story: Story) -> None:
        # By time and, within a millisecond, by seq: nodes share the row of numbers.
        self._events = sorted(story.events, key=lambda event: (event.ts_ms, event.seq))
        self._of_type: dict[str, list[Event]] = defaultdict(list)
        for event in self._events:
            self._of_type[event.type].append(event)
        self._exits: dict[str, list[Event]] = defaultdict(list)
        for event in self._events:
            if event.type in EXITS and event.member_id is not None and _cause(event) is not None:
                self._exits[event.member_id].append(event)
        self.heartbeat_ms = self._heartbeat_ms()

    def __bool__(self) -> bool:
        return bool(self._events)

    # --- a round

    def round_to(self, step: Step) -> WitnessedRound | None:
        after = step.after
        if after.tombstone or step.is_same_generation:
            return None
        type_ = "join_completed" if after.members else "group_emptied"
        event = self._near(type_, after.state_ms, after.generation)
        cause = None if event is None else _cause(event)
        if event is None or cause is None:
            return None
        synced = self._near("sync_completed", after.append_ms, after.generation)
        return WitnessedRound(
            cause,
            event.reason or cause.value,
            tuple(filter(None, event.detail.get("triggered_by", "").split(","))),
            event.ts_ms,
            event.duration_ms,
            None if synced is None else synced.duration_ms,
        )

    def deed(self, step: Step) -> Cause | None:
        """Of records that no round has led to."""
        after = step.after
        if after.tombstone:
            event = self._near("group_deleted", after.append_ms)
            return None if event is None else _cause(event)
        if step.is_same_generation:
            ids = {new.member_id for _, new in step.replaced}
            found = any(e.detail.get("successor") in ids for e in self._of_type["member_replaced"])
            return Cause.STATIC_REPLACED if found else None
        created = self._near("group_created", after.state_ms or after.append_ms)
        return None if created is None else Cause.GROUP_CREATED

    def lost_rounds(self, step: Step) -> list[tuple[int, Cause]]:
        """Rounds whose generations never came to a sync, and so are in no record."""
        before, after = step.before, step.after
        if before is None or before.generation is None or after.generation is None:
            return []
        return [
            (event.generation, cause)
            for event in self._between("join_completed", before.state_ms, after.state_ms)
            if event.generation is not None
            and before.generation < event.generation < after.generation
            and (cause := _cause(event)) is not None
        ]

    def rejected_commits(self, step: Step) -> Counter[str]:
        """Commits that were refused since the record before: work that is done again."""
        before = step.before
        if before is None or not self:
            return Counter()
        until = step.after.append_ms if step.after.append_ms is not None else step.after.state_ms
        since = before.append_ms if before.append_ms is not None else before.state_ms
        return Counter(
            ERRORS.get(event.error_code or 0, f"error {event.error_code}")
            for event in self._between("commit_rejected", since, until)
        )

    def waited(self, step: Step, seen: WitnessedRound, round_: Round) -> Round:
        """Who joined last, or was waited for in vain."""
        if seen.join_ms is None:
            return round_
        started = seen.ended_ms - seen.join_ms
        round_ = Round(started, round_.ended_ms)
        if step.before is None or not step.before.members:
            return round_
        if seen.join_ms < worth_telling(step.before):
            return round_
        for member in step.left:
            gone = self._exit_event(step, member)
            if (
                gone is not None
                and gone.type in ("member_join_timed_out", "member_expired")
                and gone.ts_ms >= started + worth_telling(step.before)
            ):
                return round_._replace(waited_for=member, wait_ms=gone.ts_ms - started)
        kept = {new.member_id: old for old, new in step.kept}
        joins = [
            event
            for event in self._between("join_received", started, seen.ended_ms)
            if event.member_id in kept
        ]
        if joins and joins[-1].ts_ms >= started + worth_telling(step.before):
            last = kept[joins[-1].member_id or ""]
            return round_._replace(waited_for=last, wait_ms=joins[-1].ts_ms - started)
        return round_

    def offsets_went(self, at_ms: int) -> Cause | None:
        """Why offsets were deleted at that time."""
        event = self._near("offsets_deleted", at_ms)
        return None if event is None else _cause(event)

    # --- a member

    def exit_of(
        self, step: Step, leaving: Leaving, inferred: Finding, seen: WitnessedRound | None
    ) -> Finding | None:
        """How a member of `step.left` went. `inferred`: what the rules make of it."""
        member = leaving.member
        event = self._exit_event(step, member)
        cause = None if event is None else _cause(event)
        if event is None or cause is None:
            return _by_its_round(member, inferred, seen)
        text = f"{who(member)} {_deed(event)}"
        if slow := _slow_after_all(event, leaving, inferred):
            return Finding(Cause.SLOW_POLL, "high", f"{text}; {slow}", member)
        if cause is Cause.LEFT_CLEANLY and leaving.is_back:
            text += ", and was back under a new id in the same round"
            return Finding(Cause.RESTARTED, "exact", text, member)
        if cause is Cause.SESSION_TIMEOUT and self.heartbeat_ms is not None:
            text += (
                f"; members of this group hear of a rebalance as if {_interval(self.heartbeat_ms)}"
            )
            if member.session_timeout_ms < 3 * self.heartbeat_ms:
                text += ", and its session is less than three times that"
        return Finding(cause, "exact", text, member)

    def left_at(self, step: Step, member: Member) -> int | None:
        event = self._exit_event(step, member)
        return None if event is None else event.ts_ms

    def _exit_event(self, step: Step, member: Member) -> Event | None:
        """The newest one until the record: an id that a test uses again has several."""
        since = step.before.state_ms if step.before is not None else None
        until = step.after.state_ms if step.after.state_ms is not None else step.after.append_ms
        fitting = [
            event
            for event in self._exits.get(member.member_id, [])
            if (since is None or event.ts_ms >= since - NEAR_MS)
            and (until is None or event.ts_ms <= until + NEAR_MS)
        ]
        return fitting[-1] if fitting else None

    # --- finding

    def _near(self, type_: str, time_ms: int | None, generation: int | None = None) -> Event | None:
        if time_ms is None:
            return None
        fitting = [
            event
            for event in self._between(type_, time_ms - NEAR_MS, time_ms + NEAR_MS)
            if generation is None or event.generation == generation
        ]
        return min(fitting, key=lambda event: abs(event.ts_ms - time_ms), default=None)

    def _between(self, type_: str, since: int | None, until: int | None) -> list[Event]:
        events = self._of_type.get(type_, [])
        first = 0 if since is None else bisect_left(events, since, key=lambda event: event.ts_ms)
        last = (
            len(events)
            if until is None
            else bisect_right(events, until, key=lambda event: event.ts_ms)
        )
        return events[first:last]

    def _heartbeat_ms(self) -> int | None:
        """Members hear of a round with their next heartbeat: on average after half an interval."""
        delays = []
        for event in self._of_type.get("join_completed", []):
            if event.duration_ms is None:
                continue
            started = event.ts_ms - event.duration_ms
            asked = set(event.detail.get("triggered_by", "").split(","))
            new = {e.member_id for e in self._between("member_joined", started, event.ts_ms)}
            delays += [
                join.ts_ms - started
                for join in self._between("join_received", started, event.ts_ms)
                if join.member_id is not None and join.member_id not in asked | new
            ]
        return int(2 * median(delays)) if len(delays) >= DELAYS_MIN else None


def _by_its_round(member: Member, inferred: Finding, seen: WitnessedRound | None) -> Finding | None:
    """Where the line of its exit is lost, the round that was opened for it tells as much."""
    if seen is None or member.member_id not in seen.triggered_by:
        return None
    if seen.cause not in EXIT_CAUSES:
        return None
    if seen.cause is Cause.LEFT_CLEANLY and inferred.cause in (Cause.RESTARTED, Cause.SLOW_POLL):
        return inferred._replace(confidence="high")
    return Finding(seen.cause, "exact", f"{who(member)}: {seen.cause.value}", member)


def _cause(event: Event) -> Cause | None:
    return Cause.__members__.get(event.detail.get("cause", ""))


def _deed(event: Event) -> str:
    if event.type == "leave_received":
        said = f': "{event.reason}"' if event.reason else " without a reason"
        return f"sent LeaveGroup{said}"
    if event.type == "member_expired":
        age = (
            "" if event.duration_ms is None else f", {span(event.duration_ms)} after its last sign"
        )
        return f"was out when its session ended{age}"
    if event.type == "member_join_timed_out":
        age = "" if event.duration_ms is None else f" within {span(event.duration_ms)}"
        return f"did not join the round{age}, and the others waited for it"
    if event.type == "member_sync_timed_out":
        return "joined, and never asked for its assignment"
    return "was refused: the group is full"


def _slow_after_all(event: Event, leaving: Leaving, inferred: Finding) -> str | None:
    """A slow poll that the broker could not see: its client said nothing."""
    member, silence = leaving.member, leaving.silence
    if inferred.cause not in (Cause.SLOW_POLL, Cause.TIMEOUT_AMBIGUOUS):
        return None
    if event.type == "leave_received" and not event.reason:
        if _cause(event) is Cause.LEFT_CLEANLY and inferred.confidence != "low":
            return inferred.evidence.replace(who(member), "it", 1)
        if inferred.cause is Cause.TIMEOUT_AMBIGUOUS and silence.proves:
            return f"its session had not ended, yet it had committed nothing for {_ms(silence.ms)}"
    if (
        event.type == "member_expired"
        and member.instance_id is not None
        and inferred.cause is Cause.SLOW_POLL
        and silence.proves
        and silence.ms is not None
        and silence.ms >= slow_poll_least_ms(member)
    ):
        return (
            f"it had committed nothing for {span(silence.ms)}, its max.poll.interval.ms and "
            "its session together: a static member that polls too slowly sends no LeaveGroup, "
            "its heartbeats end"
        )
    return None


def _ms(ms: int | None) -> str:
    return "an unknown time" if ms is None else span(ms)


def _interval(ms: int) -> str:
    return f"heartbeat.interval.ms were about {span(ms)}"


def told_rejected(rejected: Counter[str]) -> str:
    """3 commits refused meanwhile (ILLEGAL_GENERATION 2, UNKNOWN_MEMBER_ID 1)."""
    count = sum(rejected.values())
    which = listed(f"{name} {number}" for name, number in rejected.most_common())
    commits = "commit was" if count == 1 else "commits were"
    return f"{count} {commits} refused meanwhile, and that work is done again ({which})"
