"""Rows of gold_rebalance and gold_member_exit: the cause of each rebalance and each exit.

The rules infer causes from the log; where the event log covers a rebalance or an exit, its cause
replaces or confirms the inferred one.
"""

from collections import defaultdict
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from ..formatting import count_of, duration, join_texts, without_uuids
from .assignments import assignment_moves
from .event_log import EventLog, LoggedRebalance, describe_rejected
from .exit_rules import Exit, Explanation, infer_exit, reported_silence_ms
from .group_history import GroupHistory, Member
from .history_index import REJOIN_WITHIN_MS, HistoryIndex, Transition
from .rebalance_rules import RebalanceCase, Rejoin, explain_rebalance, partitions_added
from .rows import MemberExit, Rebalance
from .timing import join_phase_of, pause_ms, silence_of


class ExplainedHistory(NamedTuple):
    """`rebalances`: one per record of the group, in log order; `exits`: one per member that is in a
    record but not in the next one."""

    rebalances: list[Rebalance]
    exits: list[MemberExit]


def explain(history: GroupHistory) -> ExplainedHistory:
    index, events = HistoryIndex(history), EventLog(history)
    returns = _returns(index)
    by_exit = {each.left: each for each in returns}
    by_join = {each.joined: each for each in returns}
    causes_of_exits: dict[_MemberAt, Cause] = {}
    rows = ExplainedHistory([], [])
    for number, transition in enumerate(index.transitions):
        logged = events.rebalance_of(transition)
        phase = join_phase_of(index, transition)
        if logged is not None:
            phase = events.join_phase_of(transition, logged, phase)
        exits = []
        for member in transition.left:
            left = _MemberAt(number, member.member_id)
            return_ = by_exit.get(left)
            exit_ = Exit(
                silence_of(index, transition, member, phase),
                member.member_id in transition.returned,
                None if return_ is None else return_.after_ms,
            )
            inferred = infer_exit(exit_)
            explanation = events.explain_exit(transition, exit_, inferred, logged) or inferred
            causes_of_exits[left] = explanation.cause
            exits.append(explanation)
            rows.exits.append(_exit_row(history, transition, exit_, explanation, events))
        rejoins = {
            member.member_id: Rejoin(causes_of_exits[return_.left], return_.after_ms)
            for member in transition.joined
            if (return_ := by_join.get(_MemberAt(number, member.member_id))) is not None
        }
        case = RebalanceCase(index, transition, phase, tuple(exits), rejoins)
        explanation = _with_events(case, explain_rebalance(case), events, logged)
        rows.rebalances.append(_rebalance_row(case, explanation, events, logged))
    return rows


# --- members that return


class _MemberAt(NamedTuple):
    """A member that left or joined in a transition, which is identified by its number."""

    transition: int
    member_id: str


class _Return(NamedTuple):
    """A client that left and joined again."""

    left: _MemberAt
    joined: _MemberAt
    after_ms: int


def _returns(index: HistoryIndex) -> list[_Return]:
    """Match each exit with the first later join of the same client within REJOIN_WITHIN_MS that is
    not matched with another exit."""
    returns = []
    waiting: dict[str, list[tuple[_MemberAt, int | None]]] = defaultdict(list)
    for number, transition in enumerate(index.transitions):
        now = transition.after.state_ms
        for old_id, new in transition.returned.items():
            left, joined = _MemberAt(number, old_id), _MemberAt(number, new.member_id)
            returns.append(_Return(left, joined, 0))
        taken = {member.member_id for member in transition.returned.values()}
        for member in transition.joined:
            earlier = waiting[member.identity]
            while earlier and member.member_id not in taken:
                left, left_ms = earlier.pop(0)
                if now is not None and left_ms is not None and now - left_ms <= REJOIN_WITHIN_MS:
                    joined = _MemberAt(number, member.member_id)
                    returns.append(_Return(left, joined, max(now - left_ms, 0)))
                    break
        for member in transition.left:
            if member.member_id not in transition.returned:
                waiting[member.identity].append((_MemberAt(number, member.member_id), now))
    return returns


# --- the event log

_LAST_FACT: Final = 5
"""Rules up to this number are based on facts in the records, the others on inference."""

_SAME_MEMBERS: Final = frozenset(
    {Cause.LEADER_REJOINED, Cause.METADATA_CHANGED, Cause.COOPERATIVE_FOLLOWUP}
)


def _with_events(
    case: RebalanceCase, inferred: Explanation, events: EventLog, logged: LoggedRebalance | None
) -> Explanation:
    if logged is None:
        explanation = _explain_unlogged(case, inferred, events)
    else:
        explanation = _explain_logged(case, inferred, logged)
    text = explanation.evidence
    if logged is not None:
        text += f'; the coordinator\'s reason: "{without_uuids(logged.reason)}"'
    if lost := events.lost_generations(case.transition):
        generations = join_texts(f"{generation} ({cause.name})" for generation, cause in lost)
        text += f"; lost generations: {generations}"
    elif case.transition.lost_generations:
        count = count_of(case.transition.lost_generations, "earlier generation")
        text += f"; {count} never reached an assignment"
    if case.join_phase.waited_for is not None:
        waited = duration(case.join_phase.wait_ms)
        text += f"; the others waited {waited} for {case.join_phase.waited_for.client_id}"
    if rejected := events.rejected_commits(case.transition):
        text += f"; {describe_rejected(rejected)}"
    return explanation._replace(evidence=text)


def _explain_unlogged(case: RebalanceCase, inferred: Explanation, events: EventLog) -> Explanation:
    cause = events.cause_without_rebalance(case.transition)
    is_fact = inferred.rule <= _LAST_FACT
    if cause is not None and is_fact and inferred.cause is not Cause.FIRST_SEEN:
        return inferred._replace(cause=cause, confidence="exact")
    exact = [exit_ for exit_ in case.exits if exit_.confidence == "exact"]
    return exact[0] if exact and not is_fact and inferred.confidence != "exact" else inferred


def _explain_logged(
    case: RebalanceCase, inferred: Explanation, logged: LoggedRebalance
) -> Explanation:
    is_fact = inferred.rule <= _LAST_FACT
    if is_fact and inferred.cause not in (Cause.FIRST_SEEN, Cause.STATIC_REPLACED):
        return inferred._replace(confidence="exact")
    if (exit_ := _triggering_exit(case, logged)) is not None:
        return exit_
    cause = logged.cause
    if cause in _SAME_MEMBERS and (added := partitions_added(case)) is not None:
        return added._replace(confidence="exact")  # even if a member left during the rebalance
    if cause in _SAME_MEMBERS and 12 <= inferred.rule <= 14:
        return inferred._replace(confidence="exact")
    if cause is Cause.COOPERATIVE_FOLLOWUP and inferred.rule == 15:
        # The coordinator reports a follow-up whenever a member's owned partitions differ from those
        # of its previous join; here no partition was waiting for an owner.
        before = case.transition.before
        by_leader = before is not None and before.leader in logged.triggered_by
        cause = Cause.LEADER_REJOINED if by_leader else Cause.METADATA_CHANGED
    members = {m.member_id: m for m in case.transition.members_before}
    members |= {m.member_id: m for m in case.transition.after.members}
    about: Member | None = next((members[i] for i in logged.triggered_by if i in members), None)
    text = inferred.evidence if cause is inferred.cause else cause.value
    return Explanation(cause, "exact", text, about or inferred.member)


def _triggering_exit(case: RebalanceCase, logged: LoggedRebalance) -> Explanation | None:
    """Return the exit of the member that triggered the rebalance by leaving, or by rejoining with a
    new member id while its previous id was still in the group."""
    for exit_ in case.exits:
        member_id = exit_.member.member_id if exit_.member is not None else ""
        returned = case.transition.returned.get(member_id)
        new_id = None if returned is None else returned.member_id
        if member_id in logged.triggered_by or new_id in logged.triggered_by:
            return exit_
    return None


# --- rows

_NO_REBALANCE: Final = (
    Cause.GROUP_CREATED,
    Cause.FIRST_SEEN,
    Cause.GROUP_DELETED,
    Cause.GROUP_EXPIRED,
    Cause.GROUP_DELETED_OR_EXPIRED,
)


def _rebalance_row(
    case: RebalanceCase, explanation: Explanation, events: EventLog, logged: LoggedRebalance | None
) -> Rebalance:
    transition, phase, after = case.transition, case.join_phase, case.transition.after
    sync_ms = None if logged is None else logged.sync_ms
    if sync_ms is None and after.members and not transition.is_same_generation:
        sync_ms = after.sync_ms
    is_rebalance = explanation.cause not in _NO_REBALANCE and not transition.is_same_generation
    member = explanation.member
    return Rebalance(
        cluster=case.history_index.history.cluster,
        group=case.history_index.history.group,
        log_offset=after.log_offset,
        generation=after.generation,
        started_at_est=phase.started_ms,
        joined_at=after.state_ms,
        synced_at=after.append_ms,
        cause=explanation.cause.name,
        confidence=explanation.confidence,
        evidence=explanation.evidence,
        is_rebalance=is_rebalance,
        member_id=None if member is None else member.member_id,
        client_id=None if member is None else member.client_id,
        members_before=len(transition.members_before),
        members_after=len(after.members),
        **assignment_moves(case.history_index, transition)._asdict(),
        pause_ms=pause_ms(case.history_index, transition, phase) if is_rebalance else None,
        sync_ms=sync_ms,
        join_ms=None if logged is None else logged.join_ms,
        wait_ms=phase.wait_ms,
        waited_for=None if phase.waited_for is None else phase.waited_for.member_id,
        lost_generations=transition.lost_generations,
        rejected_commits=events.rejected_commits(transition).total() if events else None,
    )


def _exit_row(
    history: GroupHistory,
    transition: Transition,
    exit_: Exit,
    explanation: Explanation,
    events: EventLog,
) -> MemberExit:
    member, before = exit_.member, transition.before
    assert before is not None
    event = events.exit_event(transition, member)
    # For members of the consumer protocol, records lack the session timeout.
    logged_timeout_ms = None if event is None else event.detail.get("session_timeout_ms")
    return MemberExit(
        cluster=history.cluster,
        group=history.group,
        log_offset=transition.after.log_offset,
        generation=before.generation or 0,
        left_at=transition.after.time_ms if event is None else event.ts_ms,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        cause=explanation.cause.name,
        confidence=explanation.confidence,
        evidence=explanation.evidence,
        silence_ms=reported_silence_ms(exit_.silence),
        session_timeout_ms=int(logged_timeout_ms or member.session_timeout_ms),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        rejoined_after_ms=exit_.rejoined_after_ms,
        heartbeat_ms_est=events.heartbeat_ms,
    )
