"""Why a group was rebalanced, from the log alone: fifteen rules, asked in order; the first one that
holds answers. docs/diagnosis.md has them as a table, with what each can not tell.

A rule is asked about a `Case`: two records that follow each other, and what can be made of the time
between. Rules 6 to 10 are about members that went: leaving.py.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from .history import History, Step, is_cooperative
from .leaving import Finding
from .silence import Round
from .story import Generation, Member, TopicPartition
from .words import listed, partitions, span, who

__all__ = ["RULES", "Case", "Return", "Rule", "partitions_added", "why_rebalanced"]


class Return(NamedTuple):
    """A member that joins, and had gone some time before."""

    cause: Cause  # why it had gone
    after_ms: int
    in_same_round: bool


class Case(NamedTuple):
    """What a rule is asked about."""

    history: History
    step: Step
    round: Round
    exits: tuple[Finding, ...]  # one for each of `step.left`, in its order
    returns: dict[str, Return]  # joined member's id -> of its exit before


class Rule(NamedTuple):
    number: int  # as in docs/diagnosis.md
    name: str
    holds: Callable[[Case], Finding | None]


# --- 1 to 5: what the records say


def _removed(case: Case) -> Finding | None:
    step = case.step
    if not step.after.tombstone:
        return None
    if step.after.converted:
        text = (
            "the group went over to the consumer protocol (KIP-848), whose rebalances are not told"
        )
        return Finding(Cause.PROTOCOL_CHANGED, "high", text)
    at, before = step.after.append_ms, step.before
    retention_ms = case.history.story.offsets_retention_ms
    if before is None or before.tombstone or before.members:
        text = "the group's record was deleted; when it became empty is not known"
    elif at is None or before.state_ms is None:
        text = "the group's record was deleted; the log does not say when"
    elif not case.history.has_offsets_before(step.after):
        text = "the group was empty and had no offsets: such a group goes of itself"
    else:
        empty_ms = at - before.state_ms
        text = f"the group was empty for {span(empty_ms)}, offsets are kept for "
        text += span(retention_ms)
        cause = Cause.GROUP_EXPIRED if empty_ms >= retention_ms else Cause.GROUP_DELETED
        return Finding(cause, "high", text)
    return Finding(Cause.GROUP_DELETED_OR_EXPIRED, "high", text)


def _first_record(case: Case) -> Finding | None:
    before, after = case.step.before, case.step.after
    number, number_before = after.generation or 0, before.generation or 0 if before else 0
    if before is not None and not before.tombstone:
        if number < number_before:
            text = f"generation {number_before} was followed by {number}: deleted and created anew"
            return Finding(Cause.GROUP_CREATED, "high", f"{text} in between")
        if number or after.members:
            return None
        return Finding(Cause.GROUP_CREATED, "high", "written again before anybody had joined")
    first = listed(who(member) for member in after.members)
    if number <= 1 or before is not None:
        text = f"first members: {first}" if first else "generation 0, before anybody had joined"
        if before is not None and before.converted:
            text = f"back from the consumer protocol (KIP-848); {text}"
        return Finding(Cause.GROUP_CREATED, "high", text)
    text = f"the first record in the log is of generation {number}: what was before it is"
    return Finding(Cause.FIRST_SEEN, "high", f"{text} not there any more")


def _emptied(case: Case) -> Finding | None:
    if case.step.after.members:
        return None
    text = "; ".join(f"{finding.cause.name}: {finding.evidence}" for finding in case.exits)
    if not text:
        text = "whoever had joined was gone before the first assignment"
    return Finding(Cause.GROUP_EMPTIED, "high", text, _first_exit(case))


def _static_replaced(case: Case) -> Finding | None:
    """Under the same generation no round was held; under a new one somebody was replaced while the
    leader was assigning, and nothing else has happened."""
    step = case.step
    if not step.replaced or step.left or step.joined:
        return None
    if not step.is_same_generation and (
        _protocol_changed(case) or _subscription_changed(case) or _new_partitions(case)
    ):
        return None
    who_came = listed(who(new) for _, new in step.replaced)
    without = "without" if step.is_same_generation else "with"
    text = f"{who_came} came back under a new id, {without} a rebalance"
    return Finding(Cause.STATIC_REPLACED, "high", text, step.replaced[0][1])


def _protocol_changed(case: Case) -> Finding | None:
    before, after = case.step.before, case.step.after
    if before is None or not before.members or before.protocol == after.protocol:
        return None
    text = f"from {before.protocol or 'none'} to {after.protocol or 'none'}"
    return Finding(Cause.PROTOCOL_CHANGED, "high", text)


# --- 6 to 10: somebody went


def _somebody_went(*causes: Cause) -> Callable[[Case], Finding | None]:
    """The first member whose exit has one of `causes`; the others are named after it."""

    def rule(case: Case) -> Finding | None:
        found = [finding for finding in case.exits if finding.cause in causes]
        if not found:
            return None
        first = found[0]
        text = first.evidence
        if len(found) > 1:
            others = (who(finding.member) for finding in found[1:] if finding.member is not None)
            text += f"; likewise {listed(others)}"
        member = first.member
        is_back = member is not None and member.member_id in case.step.back
        if is_back and first.cause is not Cause.RESTARTED:
            text += f"; it was back in the same round ({first.cause.name}_REJOINED)"
        return first._replace(evidence=text)

    return rule


# --- 11: somebody came


def _joined(case: Case) -> Finding | None:
    step = case.step
    if not step.joined:
        return None
    text = f"{listed(who(member) for member in step.joined)} joined"
    again = [(m, case.returns[m.member_id]) for m in step.joined if m.member_id in case.returns]
    if again:
        member, was = again[0]
        whose = "" if len(step.joined) == 1 else f" {who(member)}"
        text += f",{whose} {span(was.after_ms)} after it had gone (REJOIN_AFTER_{was.cause.name})"
    return Finding(Cause.MEMBER_JOINED, "high", text, (again[0][0] if again else step.joined[0]))


# --- 12 to 15: the same members


def _subscription_changed(case: Case) -> Finding | None:
    for old, new in case.step.kept:
        if old.topics is None or new.topics is None or set(old.topics) == set(new.topics):
            continue
        more, less = set(new.topics) - set(old.topics), set(old.topics) - set(new.topics)
        told = [f"subscribed to {listed(sorted(more))}"] * bool(more)
        told += [f"no longer to {listed(sorted(less))}"] * bool(less)
        text = f"{who(new)} {' and '.join(told)}"
        return Finding(Cause.SUBSCRIPTION_CHANGED, "high", text, new)
    return None


def partitions_added(case: Case) -> Finding | None:
    new = _new_partitions(case)
    if not new or case.step.is_same_generation:
        return None
    text = f"same members and subscriptions, and {partitions(new)} assigned for the first time"
    return Finding(Cause.PARTITIONS_ADDED, "medium", text)


def _cooperative_followup(case: Case) -> Finding | None:
    before = case.step.before
    if before is None or case.step.is_same_generation:
        return None
    if not (is_cooperative(before) or is_cooperative(case.step.after)):
        return None
    # Who has to give something up says what it owns, and joins again when it has.
    revoked = {at for m in before.members for at in m.owned or () if at not in (m.assigned or ())}
    waiting = case.history.known_partitions(before) - _assigned(before)
    # Of a topic that nobody reads any more, or that is gone, nothing waits to be assigned.
    waiting = {at for at in waiting if at[0] in {topic for topic, _ in _assigned(before)}} or (
        waiting & _assigned(case.step.after)
    )
    if not waiting and not revoked:
        return None
    text = f"the second phase of the round before, which took away {partitions(revoked or waiting)}"
    return Finding(Cause.COOPERATIVE_FOLLOWUP, "high", text)


def _same_members(case: Case) -> Finding:
    step = case.step
    if step.is_same_generation:
        text = "the same generation was written again: no rebalance"
    else:
        text = (
            "same members and subscriptions: a client asked for a rebalance (enforceRebalance), "
            "the leader joined again, or members lost their coordinator for a while"
        )
        if step.before is not None and (gone := _assigned(step.before) - _assigned(step.after)):
            text += f"; {partitions(gone)} no longer assigned"
    return Finding(Cause.SAME_MEMBERS_UNKNOWN, "low", text)


def _new_partitions(case: Case) -> set[TopicPartition]:
    """Assigned now, and never known before."""
    before, after = case.step.before, case.step.after
    if before is None or not before.members:
        return set()
    new = _assigned(after) - case.history.known_partitions(before)
    return new if _assigned(before) else set()


def _assigned(generation: Generation) -> set[TopicPartition]:
    return {at for member in generation.members for at in member.assigned or ()}


def _first_exit(case: Case) -> Member | None:
    return next((finding.member for finding in case.exits), None)


RULES: Final = (
    Rule(1, "the group's record is deleted", _removed),
    Rule(2, "there is no record before", _first_record),
    Rule(3, "nobody is left", _emptied),
    Rule(4, "a static member has a new id", _static_replaced),
    Rule(5, "the protocol is another", _protocol_changed),
    Rule(
        6,
        "somebody went, silent for its whole rebalance timeout",
        _somebody_went(Cause.SLOW_POLL, Cause.REBALANCE_TIMEOUT, Cause.TIMEOUT_AMBIGUOUS),
    ),
    Rule(
        7,
        "somebody went, silent for its session",
        _somebody_went(Cause.SESSION_TIMEOUT, Cause.SYNC_TIMEOUT),
    ),
    Rule(8, "somebody went and came back at once", _somebody_went(Cause.RESTARTED)),
    Rule(
        9,
        "somebody went, right after a commit",
        _somebody_went(Cause.LEFT_CLEANLY, Cause.REMOVED_BY_ADMIN),
    ),
    Rule(
        10,
        "somebody went, and no commit tells why",
        _somebody_went(Cause.LEFT_UNKNOWN, Cause.GROUP_FULL),
    ),
    Rule(11, "somebody came", _joined),
    Rule(12, "same members, other topics", _subscription_changed),
    Rule(13, "same members, new partitions", partitions_added),
    Rule(14, "same members, partitions that waited for an owner", _cooperative_followup),
    Rule(15, "same members, nothing to be seen", _same_members),
)


def why_rebalanced(case: Case) -> Finding:
    for rule in RULES:
        if (finding := rule.holds(case)) is not None:
            return finding._replace(rule=rule.number)
    raise AssertionError("the last rule always holds")
