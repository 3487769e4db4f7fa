"""Why a group rebalanced, from the log alone: the fifteen rules of docs/diagnosis.md.

A rule receives a `RebalanceCase`: two consecutive GroupMetadata records and the facts about the
time in between. The first rule that matches decides. Rules 6 to 10 take the causes of members that
left from exit_rules.py.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from ..formatting import duration, join_texts, partition_names
from .exit_rules import Explanation
from .group_history import FIRST_EPOCH, TopicPartition
from .history_index import HistoryIndex, Transition
from .timing import JoinPhase


class Rejoin(NamedTuple):
    """A member that rejoins after it has left."""

    cause: Cause  # cause of its exit
    after_ms: int


class RebalanceCase(NamedTuple):
    history_index: HistoryIndex
    transition: Transition
    join_phase: JoinPhase
    exits: tuple[Explanation, ...]  # one per member of `transition.left`, in the same order
    rejoins: dict[str, Rejoin]  # keyed by the id of the member that joined


class Rule(NamedTuple):
    number: int  # the number in docs/diagnosis.md
    name: str
    match: Callable[[RebalanceCase], Explanation | None]


# --- 1 to 5: facts in the records


def _deleted(case: RebalanceCase) -> Explanation | None:
    """Rule 1: the group's record is a tombstone.

    The group expired if it was Empty for offsets.retention.minutes, and was deleted otherwise. In a
    consumer group, or a group that never had members, the age of the last commit is compared
    instead. The cause is GROUP_DELETED_OR_EXPIRED if the group had no offsets, or if the log does
    not show how long it was unused. Confidence: high.
    """
    before, after = case.transition.before, case.transition.after
    if not after.tombstone:
        return None
    index, retention_ms = case.history_index, case.history_index.history.offsets_retention_ms
    has_record = before is not None and not before.tombstone
    had_offsets = index.had_offsets(after)
    if (before is not None and before.members) or not (has_record or had_offsets):
        text = "the group's record was deleted; when the group became empty is unknown"
    elif not had_offsets:
        text = "the group was empty and had no offsets: such a group is removed automatically"
    elif after.append_ms is None or (since_ms := index.retained_since(before, after)) is None:
        text = "the group's record was deleted; how long the group was empty is unknown"
    else:
        unused_ms = after.append_ms - since_ms
        text = f"the group was empty for {duration(unused_ms)}"
        if before is None or before.tombstone or before.is_consumer_group:
            text = f"the last commit of the empty group was {duration(unused_ms)} old"
        text += f"; offsets are retained for {duration(retention_ms)}"
        cause = Cause.GROUP_EXPIRED if unused_ms >= retention_ms else Cause.GROUP_DELETED
        return Explanation(cause, "high", text)
    return Explanation(Cause.GROUP_DELETED_OR_EXPIRED, "high", text)


def _first_record(case: RebalanceCase) -> Explanation | None:
    """Rule 2: the group has no previous record, or starts from scratch. It was created if the
    generation is at most 1 (2 in a consumer group), if a tombstone precedes it, or if the
    generation went back. Otherwise earlier records are missing (first seen). Confidence: high."""
    before, after = case.transition.before, case.transition.after
    number, number_before = after.generation or 0, before.generation or 0 if before else 0
    if before is not None and not before.tombstone:
        if number < number_before:
            text = f"generation {number_before} is followed by {number}: the group was deleted "
            return Explanation(Cause.GROUP_CREATED, "high", f"{text}and created again")
        if number or after.members:
            return None
        text = "generation 0 was written again before a member joined"
        return Explanation(Cause.GROUP_CREATED, "high", text)
    first = join_texts(member.label for member in after.members)
    first_number = FIRST_EPOCH if after.is_consumer_group else 1
    if number <= first_number or before is not None:
        text = f"first members: {first}" if first else "generation 0, before a member joined"
        return Explanation(Cause.GROUP_CREATED, "high", text)
    text = f"the first record in the log is of generation {number}; earlier records are missing"
    return Explanation(Cause.FIRST_SEEN, "high", text)


def _emptied(case: RebalanceCase) -> Explanation | None:
    """Rule 3: the record has no members. Evidence: the exits. Confidence: high."""
    if case.transition.after.members:
        return None
    text = "; ".join(f"{exit_.cause.name}: {exit_.evidence}" for exit_ in case.exits)
    if not text:
        text = "all members had left before the first assignment"
    first = next((exit_.member for exit_ in case.exits), None)
    return Explanation(Cause.GROUP_EMPTIED, "high", text, first)


def _static_replaced(case: RebalanceCase) -> Explanation | None:
    """Rule 4: the only change is that static members have new member ids. If the generation is the
    same, there was no rebalance; if it is new, a member was replaced while the leader was computing
    the assignment. Confidence: high."""
    transition = case.transition
    if not transition.replaced or transition.left or transition.joined:
        return None
    if not transition.is_same_generation and (
        _protocol_changed(case) or _subscription_changed(case) or _new_partitions(case)
    ):
        return None
    members = join_texts(new.label for _, new in transition.replaced)
    without = "without" if transition.is_same_generation else "with"
    text = f"{members} rejoined with a new member id, {without} a rebalance"
    return Explanation(Cause.STATIC_REPLACED, "high", text, transition.replaced[0][1])


def _protocol_changed(case: RebalanceCase) -> Explanation | None:
    """Rule 5: the assignor differs from the previous generation's, or the group was converted
    from or to the consumer protocol (KIP-848). Confidence: high."""
    before, after = case.transition.before, case.transition.after
    if before is None or not before.members or before.protocol == after.protocol:
        return None
    text = f"from {before.protocol or 'none'} to {after.protocol or 'none'}"
    if before.is_consumer_group or after.is_consumer_group:
        names = [
            "the consumer protocol (KIP-848)"
            if record.is_consumer_group
            else f"the classic protocol ({record.protocol or 'none'})"
            for record in (before, after)
        ]
        text = f"converted from {names[0]} to {names[1]}"
        if case.transition.joined:
            text += f"; {join_texts(member.label for member in case.transition.joined)} joined"
    return Explanation(Cause.PROTOCOL_CHANGED, "high", text)


# --- 6 to 10: a member left


def _left(*causes: Cause) -> Callable[[RebalanceCase], Explanation | None]:
    """Rules 6 to 10: the first exit with one of `causes`, with its evidence and confidence."""

    def rule(case: RebalanceCase) -> Explanation | None:
        found = [exit_ for exit_ in case.exits if exit_.cause in causes]
        if not found:
            return None
        first, text = found[0], found[0].evidence
        if len(found) > 1:
            others = (exit_.member.label for exit_ in found[1:] if exit_.member is not None)
            text += f"; likewise {join_texts(others)}"
        returned, member = case.transition.returned, first.member
        has_returned = member is not None and member.member_id in returned
        if has_returned and first.cause is not Cause.RESTARTED:
            text += f"; it rejoined in the same rebalance ({first.cause.name}_REJOINED)"
        return first._replace(evidence=text)

    return rule


# --- 11: a member joined


def _joined(case: RebalanceCase) -> Explanation | None:
    """Rule 11: a member joined. If the same client left at most 15 minutes before, the evidence
    names the cause of that exit (REJOIN_AFTER_<cause>). Confidence: high."""
    joined = case.transition.joined
    if not joined:
        return None
    text = f"{join_texts(member.label for member in joined)} joined"
    rejoined = [(m, case.rejoins[m.member_id]) for m in joined if m.member_id in case.rejoins]
    if rejoined:
        member, exit_ = rejoined[0]
        whose = "" if len(joined) == 1 else f" {member.label}"
        after = duration(exit_.after_ms)
        text += f",{whose} {after} after it left (REJOIN_AFTER_{exit_.cause.name})"
    first = rejoined[0][0] if rejoined else joined[0]
    return Explanation(Cause.MEMBER_JOINED, "high", text, first)


# --- 12 to 15: the same members


def _subscription_changed(case: RebalanceCase) -> Explanation | None:
    """Rule 12: a member subscribes to other topics (their order does not matter), or its regular
    expression matches other topics (KIP-848). Confidence: high."""
    for old, new in case.transition.kept:
        if old.topics is None or new.topics is None or set(old.topics) == set(new.topics):
            continue
        added, dropped = set(new.topics) - set(old.topics), set(old.topics) - set(new.topics)
        changes = [f"subscribed to {join_texts(sorted(added))}"] * bool(added)
        changes += [f"unsubscribed from {join_texts(sorted(dropped))}"] * bool(dropped)
        if new.regex is not None and new.regex == old.regex:
            matches = [f"matches {join_texts(sorted(added))}"] * bool(added)
            matches += [f"no longer matches {join_texts(sorted(dropped))}"] * bool(dropped)
            text = f"{new.label}: {new.regex} {' and '.join(matches)}"
            return Explanation(Cause.TOPICS_MATCHED, "high", text, new)
        text = f"{new.label} {' and '.join(changes)}"
        return Explanation(Cause.SUBSCRIPTION_CHANGED, "high", text, new)
    return None


def _topics_changed(case: RebalanceCase) -> Explanation | None:
    """Rule 13, in consumer groups: the hash of the subscribed topics differs; it depends on their
    ids, names, partitions and racks. Confidence: high."""
    before, after = case.transition.before, case.transition.after
    hashes = [None if record is None else record.metadata_hash for record in (before, after)]
    if not all(hashes) or hashes[0] == hashes[1]:
        return None
    text = "same members and subscriptions; the subscribed topics changed"
    if new := _new_partitions(case):
        text += f": {partition_names(new)} assigned for the first time"
    return Explanation(Cause.TOPICS_CHANGED, "high", text)


def _new_partitions_or_topics(case: RebalanceCase) -> Explanation | None:
    return _topics_changed(case) or partitions_added(case)


def partitions_added(case: RebalanceCase) -> Explanation | None:
    """Rule 13: partitions are assigned that were never assigned, owned or committed before.
    Confidence: medium, because they may have existed without an owner."""
    new = _new_partitions(case)
    if not new or case.transition.is_same_generation:
        return None
    text = f"same members and subscriptions; {partition_names(new)} assigned for the first time"
    return Explanation(Cause.PARTITIONS_ADDED, "medium", text)


def _cooperative_followup(case: RebalanceCase) -> Explanation | None:
    """Rule 14: the second phase of a cooperative rebalance (KIP-429). Evidence: the previous
    generation revoked partitions, or left known partitions of an assigned topic without an owner.
    Confidence: high."""
    before, after = case.transition.before, case.transition.after
    if before is None or case.transition.is_same_generation or after.is_consumer_group:
        return None
    if not (before.is_cooperative or after.is_cooperative):
        return None
    revoked = {tp for m in before.members for tp in m.owned or () if tp not in (m.assigned or ())}
    unowned = case.history_index.known_partitions(before) - before.assigned
    # Partitions of topics that are deleted or no longer read need no owner.
    topics = {topic for topic, _ in before.assigned}
    unowned = {tp for tp in unowned if tp[0] in topics} or unowned & after.assigned
    if not unowned and not revoked:
        return None
    partitions = partition_names(revoked or unowned)
    text = f"second phase of the previous rebalance, which left {partitions} without an owner"
    return Explanation(Cause.COOPERATIVE_FOLLOWUP, "high", text)


def _same_members(case: RebalanceCase) -> Explanation:
    """Rule 15: no visible change; always matches. Confidence: low."""
    before, after = case.transition.before, case.transition.after
    if case.transition.is_same_generation:
        text = "the same generation was written again, without a rebalance"
    elif after.is_consumer_group:
        text = "same members and subscriptions: a member changed its rack or its assignor"
    else:
        text = (
            "same members and subscriptions: a client requested a rebalance (enforceRebalance), "
            "the leader rejoined, or members temporarily lost their coordinator"
        )
        if before is not None and (unassigned := before.assigned - after.assigned):
            text += f"; {partition_names(unassigned)} no longer assigned"
    return Explanation(Cause.SAME_MEMBERS_UNKNOWN, "low", text)


def _new_partitions(case: RebalanceCase) -> set[TopicPartition]:
    before, after = case.transition.before, case.transition.after
    if before is None or not before.assigned:
        return set()
    return after.assigned - case.history_index.known_partitions(before)


RULES: Final = (
    Rule(1, "the group's record is deleted", _deleted),
    Rule(2, "there is no previous record", _first_record),
    Rule(3, "no members remain", _emptied),
    Rule(4, "a static member has a new member id", _static_replaced),
    Rule(5, "the protocol changed", _protocol_changed),
    Rule(
        6,
        "a member left after a silence as long as its rebalance timeout",
        _left(Cause.SLOW_POLL, Cause.REBALANCE_TIMEOUT, Cause.TIMEOUT_AMBIGUOUS),
    ),
    Rule(
        7,
        "a member left after a silence as long as its session timeout",
        _left(Cause.SESSION_TIMEOUT, Cause.SYNC_TIMEOUT),
    ),
    Rule(8, "a member left and rejoined immediately", _left(Cause.RESTARTED)),
    Rule(9, "a member left soon after a commit", _left(Cause.LEFT_CLEANLY, Cause.REMOVED_BY_ADMIN)),
    Rule(10, "a member left and no commit shows why", _left(Cause.LEFT_UNKNOWN, Cause.GROUP_FULL)),
    Rule(11, "a member joined", _joined),
    Rule(12, "same members, other topics", _subscription_changed),
    Rule(13, "same members, new partitions", _new_partitions_or_topics),
    Rule(14, "same members, partitions that had no owner", _cooperative_followup),
    Rule(15, "same members, no visible change", _same_members),
)


def explain_rebalance(case: RebalanceCase) -> Explanation:
    """Return the result of the first rule that matches."""
    for rule in RULES:
        if (explanation := rule.match(case)) is not None:
            return explanation._replace(rule=rule.number)
    raise AssertionError("the last rule always matches")
