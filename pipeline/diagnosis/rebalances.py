"""A story's records as rows: why each rebalance was, and why each member went.

The rules answer from the log alone; then the event log, where there is one, is asked what it saw.
"""

from typing import Final, NamedTuple

from ...offsets.causes import Cause
from .causes import Case, Return, partitions_added, why_rebalanced
from .events import Witness, WitnessedRound, told_rejected
from .history import REJOIN_WITHIN_MS, History, Step, identity
from .leaving import Finding, Leaving, why_left
from .moves import moves
from .pauses import pause_ms
from .rows import MemberExit, Rebalance
from .silence import round_of, silence_of
from .story import Member, Story
from .words import listed, span, without_uuids

__all__ = ["Account", "account", "exits", "rebalances"]


class Account(NamedTuple):
    """What a story's records come to."""

    rebalances: list[Rebalance]
    exits: list[MemberExit]


def rebalances(story: Story) -> list[Rebalance]:
    """One for each record of the group's metadata, in the order of the log."""
    return account(story).rebalances


def exits(story: Story) -> list[MemberExit]:
    """One for each member that is in a record and not in the next."""
    return account(story).exits


def account(story: Story) -> Account:
    history, witness = History(story), Witness(story)
    returns = _returns(history)
    causes_of_exits: dict[_Exit, Cause] = {}
    told = Account([], [])
    for index, step in enumerate(history.steps):
        seen = witness.round_to(step)
        round_ = round_of(history, step)
        if seen is not None:
            round_ = witness.waited(step, seen, round_)
        found = []
        for member in step.left:
            exit_ = _Exit(index, member.member_id)
            back = returns.get(exit_)
            leaving = Leaving(
                silence_of(history, step, member, round_),
                member.member_id in step.back,
                None if back is None else back.after_ms,
            )
            inferred = why_left(leaving)
            finding = witness.exit_of(step, leaving, inferred, seen) or inferred
            causes_of_exits[exit_] = finding.cause
            found.append(finding)
            told.exits.append(_exit_row(story, step, leaving, finding, witness))
        earlier = {
            back.joined_id: Return(causes_of_exits[exit_], back.after_ms, back.step == exit_.step)
            for exit_, back in returns.items()
            if back.step == index and exit_ in causes_of_exits
        }
        case = Case(history, step, round_, tuple(found), earlier)
        finding = _with_events(case, why_rebalanced(case), witness, seen)
        told.rebalances.append(_rebalance_row(case, finding, witness, seen))
    return told


# --- who came back


class _Exit(NamedTuple):
    step: int  # its place among the steps
    member_id: str


class _Back(NamedTuple):
    step: int  # that it came back in
    joined_id: str
    after_ms: int


def _returns(history: History) -> dict[_Exit, _Back]:
    """Each exit with the first join of the same client that is no other exit's."""
    returns: dict[_Exit, _Back] = {}
    gone: dict[str, list[tuple[_Exit, int | None]]] = {}
    for index, step in enumerate(history.steps):
        at = step.after.state_ms
        for old_id, new in step.back.items():
            returns[_Exit(index, old_id)] = _Back(index, new.member_id, 0)
        taken = {member.member_id for member in step.back.values()}
        for member in step.joined:
            waiting = gone.get(identity(member), [])
            while waiting and member.member_id not in taken:
                exit_, left_at = waiting.pop(0)
                if at is not None and left_at is not None and at - left_at <= REJOIN_WITHIN_MS:
                    returns[exit_] = _Back(index, member.member_id, max(at - left_at, 0))
                    break
        for member in step.left:
            if member.member_id not in step.back:
                exit_ = _Exit(index, member.member_id)
                gone.setdefault(identity(member), []).append((exit_, at))
    return returns


# --- with the event log

_FACTS: Final = 5
"""Rules up to this one rest on what the records say, not on inference."""

_OF_SAME_MEMBERS: Final = frozenset(
    {Cause.LEADER_REJOINED, Cause.METADATA_CHANGED, Cause.COOPERATIVE_FOLLOWUP}
)


def _with_events(
    case: Case, inferred: Finding, witness: Witness, seen: WitnessedRound | None
) -> Finding:
    finding = _exactly(case, inferred, witness, seen)
    text = finding.evidence
    if seen is not None:
        text += f'; the coordinator\'s reason: "{without_uuids(seen.reason)}"'
    lost = witness.lost_rounds(case.step)
    if lost:
        rounds = listed(f"{generation} ({cause.name})" for generation, cause in lost)
        text += f"; lost before: generation {rounds}"
    elif case.step.lost_generations:
        count = case.step.lost_generations
        text += f"; {count} generation{'s' * (count > 1)} before came to no assignment"
    if case.round.waited_for is not None and case.round.wait_ms is not None:
        waited_for = case.round.waited_for
        text += f"; the others waited {span(case.round.wait_ms)} for {waited_for.client_id}"
    if rejected := witness.rejected_commits(case.step):
        text += f"; {told_rejected(rejected)}"
    return finding._replace(evidence=text)


def _exactly(
    case: Case, inferred: Finding, witness: Witness, seen: WitnessedRound | None
) -> Finding:
    if seen is None:
        deed = witness.deed(case.step)
        if deed is not None and inferred.rule <= _FACTS and inferred.cause is not Cause.FIRST_SEEN:
            return inferred._replace(cause=deed, confidence="exact")
        exact = [finding for finding in case.exits if finding.confidence == "exact"]
        if exact and inferred.rule > _FACTS and inferred.confidence != "exact":
            return exact[0]
        return inferred
    if inferred.rule <= _FACTS and inferred.cause not in (Cause.FIRST_SEEN, Cause.STATIC_REPLACED):
        return inferred._replace(confidence="exact")
    if (exit_ := _exit_behind(case, seen)) is not None:
        return exit_
    cause = seen.cause
    if cause in _OF_SAME_MEMBERS and (added := partitions_added(case)) is not None:
        return added._replace(confidence="exact")  # whoever went meanwhile
    if cause in _OF_SAME_MEMBERS and 12 <= inferred.rule <= 14:
        return inferred._replace(confidence="exact")
    if cause is Cause.COOPERATIVE_FOLLOWUP and inferred.rule == 15:
        # To the broker it is one whenever a member tells that it owns something else than when it
        # joined before; but nothing had been waiting for an owner.
        led = case.step.before is not None and case.step.before.leader in seen.triggered_by
        cause = Cause.LEADER_REJOINED if led else Cause.METADATA_CHANGED
    about = _member(case.step, seen.triggered_by)
    text = inferred.evidence if cause is inferred.cause else cause.value
    return Finding(cause, "exact", text, about or inferred.member)


def _exit_behind(case: Case, seen: WitnessedRound) -> Finding | None:
    """Of the member on whose account the round was opened: because it went, or because it came
    back while its old self was still a member."""
    asked = set(seen.triggered_by)
    for finding in case.exits:
        member_id = finding.member.member_id if finding.member is not None else ""
        back = case.step.back.get(member_id)
        if member_id in asked or (back is not None and back.member_id in asked):
            return finding
    return None


def _member(step: Step, ids: tuple[str, ...]) -> Member | None:
    members = {m.member_id: m for m in (*step.members_before, *step.after.members)}
    return next((members[id_] for id_ in ids if id_ in members), None)


# --- rows

_NO_REBALANCE: Final = frozenset(
    {
        Cause.GROUP_CREATED,
        Cause.FIRST_SEEN,
        Cause.GROUP_DELETED,
        Cause.GROUP_EXPIRED,
        Cause.GROUP_DELETED_OR_EXPIRED,
    }
)


def _rebalance_row(
    case: Case, finding: Finding, witness: Witness, seen: WitnessedRound | None
) -> Rebalance:
    step, round_ = case.step, case.round
    after, done = step.after, moves(case.history, case.step)
    sync_ms = None if seen is None else seen.sync_ms
    if sync_ms is None and after.members and not step.is_same_generation:
        sync_ms = _between(after.state_ms, after.append_ms)
    same = finding.cause in _NO_REBALANCE or step.is_same_generation or after.converted
    return Rebalance(
        cluster=case.history.story.cluster,
        group=case.history.story.group,
        log_offset=after.log_offset,
        generation=after.generation,
        started_at_est=round_.started_est,
        joined_at=after.state_ms,
        synced_at=after.append_ms,
        cause=finding.cause.name,
        confidence=finding.confidence,
        evidence=finding.evidence,
        is_rebalance=not same,
        member_id=None if finding.member is None else finding.member.member_id,
        client_id=None if finding.member is None else finding.member.client_id,
        members_before=len(step.members_before),
        # Whoever is converted with a group is a member still.
        members_after=len(step.members_before if after.converted else after.members),
        moved=None if done is None else done.moved,
        kept=None if done is None else done.kept,
        revoked_then_returned=None if done is None else done.revoked_then_returned,
        stickiness=None if done is None else done.stickiness,
        pause_ms=None if same else pause_ms(case.history, step, round_),
        sync_ms=sync_ms,
        join_ms=None if seen is None else seen.join_ms,
        wait_ms=round_.wait_ms,
        waited_for=None if round_.waited_for is None else round_.waited_for.member_id,
        lost_generations=step.lost_generations,
        rejected_commits=sum(witness.rejected_commits(step).values()) if witness else None,
    )


def _between(since: int | None, until: int | None) -> int | None:
    return None if since is None or until is None else max(until - since, 0)


def _exit_row(
    story: Story, step: Step, leaving: Leaving, finding: Finding, witness: Witness
) -> MemberExit:
    member, before = leaving.member, step.before
    assert before is not None
    left_at = witness.left_at(step, member)
    if left_at is None:
        left_at = step.after.state_ms if step.after.state_ms is not None else step.after.append_ms
    return MemberExit(
        cluster=story.cluster,
        group=story.group,
        log_offset=step.after.log_offset,
        generation=before.generation or 0,
        left_at=left_at,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        cause=finding.cause.name,
        confidence=finding.confidence,
        evidence=finding.evidence,
        silence_ms=leaving.silence.ms,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        came_back_after_ms=leaving.came_back_after_ms,
        heartbeat_ms_est=witness.heartbeat_ms,
    )
