"""Why a group is where it is: one sentence, or all that can be said of it.

Who has not rejoined, which timer runs and how long it still does: what a developer would have to
piece together from the logs of the broker and of each client.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ..coordinator.classic.group import Group, Member
from ..coordinator.classic.states import COMPLETING, EMPTY, PREPARING, STABLE
from ..coordinator.coordinator import Coordinator
from ..coordinator.deadlines import DeadlineKey
from .asked import Asked
from .folding import folded
from .members import given_back
from .report import places

# So many lines of requests of its members end a group's story: two or three rounds of a small
# group. One that is not answered is told however long ago it came: it may be what all wait for.
LAST_REQUESTS = 12
# With these a client may give its member id up, and join again under another one.
_GIVE_UP = frozenset({"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"})


def explain(
    coordinator: Coordinator | None, group_id: str, now_ms: int, requests: Sequence[Asked]
) -> str:
    """One plain sentence on what the group waits for, and what the test has to do with that."""
    said = _state(coordinator, group_id, now_ms)
    held = Counter(each.api for each in requests if each.is_held)
    said += "".join(f" The test holds {count} × {api} of it." for api, count in held.items())
    group = None if coordinator is None else coordinator.groups.get(group_id)
    return said + "".join(f" {each}" for each in _ghosts(group, requests))


def _state(coordinator: Coordinator | None, group_id: str, now_ms: int) -> str:
    group = None if coordinator is None else coordinator.groups.get(group_id)
    if coordinator is None or group is None:
        if coordinator is not None and coordinator.offsets.has_group(group_id):
            return f"{group_id} is Empty: it has offsets, and no member has ever joined."
        return f"{group_id} does not exist: nobody has joined it, and nothing was committed for it."
    left = _Left(coordinator, now_ms)
    if group.state is PREPARING:
        return f"{group_id} is rebalancing: {_joins(group, left)}"
    is_one = len(group.pending_syncs) == 1
    if group.state is COMPLETING:
        owing = _listed(group.pending_syncs)
        return (
            f"{group_id} waits for its leader {group.leader} to bring the assignment of generation "
            f"{group.generation} (SyncGroup); without it {owing} "
            f"{'is' if is_one else 'are'} out in {left.of(group.sync_timer)}."
        )
    if group.state is STABLE and group.pending_syncs:
        return (
            f"{group_id} is Stable in generation {group.generation}, but "
            f"{_listed(group.pending_syncs)} {'has' if is_one else 'have'} not asked for "
            f"{'its' if is_one else 'their'} assignment yet, and {'is' if is_one else 'are'} out "
            f"in {left.of(group.sync_timer)}."
        )
    if group.state is STABLE and (giving := given_back(group)):
        said = "; ".join(f"{who} gives {places(sorted(what))} up" for who, what in giving.items())
        return (
            f"{group_id} is Stable in generation {group.generation}, but {said}, and is to join "
            "again: another round follows."
        )
    if group.state is STABLE:
        count = len(group.members)
        return (
            f"{group_id} is Stable in generation {group.generation} with {count} "
            f"member{'s' * (count != 1)}: nothing is under way."
        )
    if group.state is EMPTY:
        return f"{group_id} is Empty: nobody is in it. Its generation is {group.generation}."
    return f"{group_id} is {group.state}."


def tell(
    coordinator: Coordinator | None, group_id: str, now_ms: int, requests: Sequence[Asked]
) -> str:
    """The whole story: the sentence, each member, and what they last asked."""
    lines = [explain(coordinator, group_id, now_ms, requests)]
    group = None if coordinator is None else coordinator.groups.get(group_id)
    if coordinator is not None and group is not None:
        left = _Left(coordinator, now_ms)
        if group.rebalance_reason is not None:
            reason = group.rebalance_reason
            lines.append(f"  last round because: {reason.cause} ({reason.text})")
        lines += [f"  {_of_member(group, each, left)}" for each in group.members.values()]
        lines += [
            f"  {pending}: was given this id, and has not joined with it; it is forgotten in "
            f"{left.session(group, pending)}"
            for pending in group.pending_joins
        ]
    lines += ["  last requests:"] if requests else ["  no request has named this group"]
    lines += [f"    {line}" for line in _last(requests, now_ms)]
    return "\n".join(lines)


def _last(requests: Sequence[Asked], now_ms: int) -> list[str]:
    """What repeats is one line: heartbeats shall not push out the request that matters."""
    found = folded((each, str(each)) for each in requests)
    waiting = [each for each in found[:-LAST_REQUESTS] if each.last.answer is None]
    lines = []
    for each in (*waiting[-LAST_REQUESTS:], *found[-LAST_REQUESTS:]):
        last = f", the last {_ago(each.last, now_ms)}" if each.count > 1 else ""
        lines.append(f"{_ago(each.first, now_ms)}  {each}{last}")
    return lines


def _ago(asked: Asked, now_ms: int) -> str:
    return f"{(asked.at_ms - now_ms) / 1000:+.3f} s"


def _ghosts(group: Group | None, requests: Sequence[Asked]) -> Iterator[str]:
    """Members whose client has gone on without them: a fault of the test has told it something of
    which the coordinator knows nothing, so that it waits for them until their sessions end."""
    told: dict[str, tuple[Asked, str]] = {
        each.member_id: (each, error)
        for each in requests
        if each.faults and each.member_id
        for error in each.errors
        if error in _GIVE_UP
    }
    for member_id in () if group is None else group.members:
        asked, error = told.get(member_id, (None, ""))
        if asked is not None and _has_given_up(asked, requests):
            yield (
                f"{member_id} was told {error} by a fault of this test and is not "
                f'coming back under that id: group.expire("{member_id}") or clock.advance(…) ends '
                "its session."
            )


def _has_given_up(asked: Asked, requests: Sequence[Asked]) -> bool:
    """Whether its client has come under another id after that, and not under this one any more."""
    has = False
    for each in requests:
        if each.number <= asked.number:
            continue
        if each.member_id == asked.member_id:
            has = False
        elif each.api == "JoinGroup" and each.connection == asked.connection:
            has = True
    return has


class _Left:
    """How long the timers of a coordinator still run, as text."""

    def __init__(self, coordinator: Coordinator, now_ms: int) -> None:
        self._deadlines = coordinator.deadlines
        self._now_ms = now_ms

    def of(self, key: DeadlineKey) -> str:
        due = self._deadlines.get(key)
        return "(no timer runs)" if due is None else f"{(due - self._now_ms) / 1000:.1f} s"

    def session(self, group: Group, member_id: str) -> str:
        return self.of(DeadlineKey("session", group.group_id, member_id))


def _joins(group: Group, left: _Left) -> str:
    if group.in_initial_rebalance:
        return (
            "its first members have joined, and latecomers are waited for, "
            f"{left.of(group.join_timer)} more (group.initial.rebalance.delay.ms)."
        )
    absent = [m.member_id for m in group.members.values() if m.join_ticket is None]
    who = _listed([*absent, *group.pending_joins])
    if not who:
        return (
            f"all {group.awaiting_joins} members that are left have rejoined, and the last one it "
            "waited for was refused: as in Kafka, the round ends with its time, in "
            f"{left.of(group.join_timer)}."
        )
    return (
        f"{group.awaiting_joins} of {len(group.members)} members have rejoined; "
        f"it waits for {who}, {left.of(group.join_timer)} more "
        "(the longest max.poll.interval.ms of its members)."
    )


def _of_member(group: Group, member: Member, left: _Left) -> str:
    said = list(_what_it_does(group, member, left))
    name = f"{member.group_instance_id} = " if member.group_instance_id else ""
    leads = ", leader" if member.member_id == group.leader else ""
    who = f"{name}{member.member_id} ({member.client_id} at {member.client_host}{leads})"
    return f"{who}: {'; '.join(said)}"


def _what_it_does(group: Group, member: Member, left: _Left) -> Iterator[str]:
    if group.state is PREPARING:
        yield "has rejoined" if member.join_ticket is not None else "has not rejoined"
    elif member.sync_ticket is not None:
        yield "waits for its assignment"
    elif member.member_id in group.pending_syncs:
        yield "has not asked for its assignment"
    if not member.has_waiting_request:
        yield f"its session ends in {left.session(group, member.member_id)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
