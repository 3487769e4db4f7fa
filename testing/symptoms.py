"""What is wrong with the clients of a history. Pure functions; each finds one kind.

A false alarm costs more than a miss: where a history does not say for certain that something is
wrong (two clients of one name, a test that has meddled with the request) nothing is found.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import groupby, pairwise

from ..coordinator.outcome import EventType
from . import findings
from .asked import Asked, TopicPartition
from .delivered import Positions, asked_from, told_by
from .findings import Finding
from .happened import Commit, Generation, RefusedCommit, refused_commits_in
from .history import History
from .report import places

OUT = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID")

# A client has what is already on its way answered as the first one was; after this long it knows.
KNOWS_SECONDS = 0.1
# Kafka's documentation of heartbeat.interval.ms: no higher than a third of session.timeout.ms. One
# that is set to it exactly comes a little late each time.
HEARTBEATS_IN_A_SESSION = 3
HEARTBEAT_TOLERANCE = 1.1
# The shortest of so many gaps counts: a machine that stalls makes a gap longer, hardly two.
GAPS_MIN = 2
# A consumer that has its new assignment may still have a fetch of the old one on its way.
FETCHES_END_SECONDS = 1.0


def examine(history: History) -> list[Finding]:
    """All that can be seen in it, in the order of time."""
    rounds = {group: history.generations(group) for group in history.groups}
    requests = history.requests
    rejected = {
        (event.member_id, event.generation)
        for event in (heard.event for heard in history.events)
        if event.type is EventType.COMMIT_REJECTED
    }
    # All others were accepted: their answers need not be read.
    doubtful = [
        each
        for each in requests
        if each.api != "OffsetCommit" or (each.member_id, each.generation) in rejected
    ]
    found = [
        *zombie_commits(refused_commits_in(doubtful), _expelled_by_test(history)),
        *stale_generations(doubtful),
        *slow_heartbeats(requests),
        *partitions_given_twice(rounds),
        *commits_of_anothers(history.commits(), rounds),
        *fetches_of_anothers(requests, rounds),
        *commits_ahead(requests),
    ]
    return sorted(found, key=lambda finding: finding.wall_s)


def _expelled_by_test(history: History) -> set[str | None]:
    """Members that a test has expelled, or whose requests it has kept: they cannot but be out."""
    exits = (each.member_id for each in history.exits() if each.is_of_test)
    return {*exits, *(each.member_id for each in history.requests if each.faults)}


def zombie_commits(
    refused: Iterable[RefusedCommit], expelled_by_test: Container[str | None] = ()
) -> Iterator[Finding]:
    """Commits of members that were out, or in an old generation: work that is done again."""

    def whose(commit: RefusedCommit) -> tuple[str, str, int, str]:
        return commit.group, commit.member_id or "", commit.generation or 0, commit.error

    zombies = [
        each
        for each in refused
        if each.member_id and each.error in OUT and each.member_id not in expelled_by_test
    ]
    for (group, member, generation, error), each in groupby(sorted(zombies, key=whose), whose):
        commits = list(each)
        what = ", ".join(f"{c.topic}-{c.partition} at {c.offset}" for c in commits[:3])
        more = f" and {len(commits) - 3} more" if len(commits) > 3 else ""
        yield Finding(
            findings.ZOMBIE_COMMIT,
            f"{member} tried to commit {what}{more} for {group} in generation {generation}, and "
            f"was refused with {error}: who owns that now does its work again",
            group,
            member,
            commits[0].client_id,
            commits[0].wall_s,
        )


def stale_generations(requests: Iterable[Asked]) -> Iterator[Finding]:
    """Members that were told that they are out, had time to hear it, and went on as before."""
    told: dict[tuple[str, str, int], float] = {}
    found: dict[tuple[str, str, int], Finding] = {}
    for asked in requests:
        if asked.api not in ("Heartbeat", "SyncGroup", "OffsetCommit") or asked.faults:
            continue
        if asked.answered_wall_s is None or not asked.member_id or not set(asked.errors) & set(OUT):
            continue
        key = asked.group or "", asked.member_id, asked.generation or 0
        since = told.setdefault(key, asked.answered_wall_s)
        if asked.wall_s > since + KNOWS_SECONDS and key not in found:
            found[key] = Finding(
                findings.STALE_GENERATION,
                f"{asked.member_id} sent {asked.api} for generation {key[2]} of {key[0]} "
                f"{asked.wall_s - since:.1f} s after it had been told {asked.errors[0]}",
                key[0],
                asked.member_id,
                asked.client_id,
                asked.wall_s,
            )
    yield from found.values()


def slow_heartbeats(requests: list[Asked]) -> Iterator[Finding]:
    sessions: dict[str, float] = {}
    beats: dict[str, list[Asked]] = {}
    gaps: dict[str, list[float]] = {}
    for asked in requests:
        if asked.api == "JoinGroup" and (member := _joined_as(asked)):
            sessions[member] = asked.message.session_timeout.total_seconds()
        member = asked.member_id or ""
        if asked.api == "Heartbeat" and not asked.errors and not asked.faults:
            beats.setdefault(member, []).append(asked)
        elif asked.api in ("JoinGroup", "SyncGroup", "LeaveGroup", "Heartbeat"):
            gaps.setdefault(member, []).extend(_gaps(beats.pop(member, [])))
    for member, last in beats.items():
        gaps.setdefault(member, []).extend(_gaps(last))
    last_beat = {each.member_id: each for each in requests if each.api == "Heartbeat"}
    for member, measured in gaps.items():
        session = sessions.get(member)
        allowed = (session or 0) / HEARTBEATS_IN_A_SESSION
        if session is None or len(measured) < GAPS_MIN:
            continue
        if min(measured) > allowed * HEARTBEAT_TOLERANCE:
            beat = last_beat[member]
            yield Finding(
                findings.SLOW_HEARTBEAT,
                f"{member} sends a heartbeat every {min(measured):.2g} s, more than a third of its "
                f"session timeout of {session:g} s: two that are lost, and it is out",
                beat.group or "",
                member,
                beat.client_id,
                beat.wall_s,
            )


def _joined_as(join: Asked) -> str | None:
    return join.member_id or getattr(join.response, "member_id", None) or None


def _gaps(beats: Iterable[Asked]) -> list[float]:
    return [after.wall_s - before.wall_s for before, after in pairwise(beats)]


Rounds = Mapping[str, list[Generation]]
"""Group -> its generations."""


def partitions_given_twice(rounds: Rounds) -> Iterator[Finding]:
    for group, generations in rounds.items():
        for each in generations:
            owners: dict[TopicPartition, str] = {}
            for member, partitions in each.partitions.items():
                for place in partitions:
                    first = owners.setdefault(place, member)
                    if first != member:
                        yield Finding(
                            findings.OVERLAPPING_OWNERS,
                            f"{places([place])} was given to both {first} and {member} in "
                            f"generation {each.number} of {group}, by its leader {each.leader}",
                            group,
                            member,
                            None,
                            each.wall_s,
                        )


def commits_of_anothers(commits: Iterable[Commit], rounds: Rounds) -> Iterator[Finding]:
    """Accepted commits of a partition that is another member's in that very generation. (Not those
    that came with the round before, as of a member that commits what it is about to lose.)"""
    seen: set[tuple[str | None, TopicPartition]] = set()
    for commit in commits:
        place = commit.topic, commit.partition
        generation = _generation_of(commit, rounds.get(commit.group, []))
        if generation is None or commit.member_id not in generation.partitions:
            continue
        if place in generation.partitions[commit.member_id or ""]:
            continue
        owner = _owner(generation, place)
        if owner is not None and (commit.member_id, place) not in seen:
            seen.add((commit.member_id, place))
            yield Finding(
                findings.OVERLAPPING_OWNERS,
                f"{commit.member_id} committed {places([place])} at {commit.offset} in generation "
                f"{generation.number} of {commit.group}, in which it is {owner}'s",
                commit.group,
                commit.member_id,
                commit.client_id,
                commit.wall_s,
            )


def _generation_of(commit: Commit, generations: list[Generation]) -> Generation | None:
    return next(
        (
            each
            for each in reversed(generations)
            if each.number == commit.generation and each.wall_s <= commit.wall_s
        ),
        None,
    )


def _owner(generation: Generation, place: TopicPartition) -> str | None:
    return next((who for who, what in generation.partitions.items() if place in what), None)


def fetches_of_anothers(requests: list[Asked], rounds: Rounds) -> Iterator[Finding]:
    """A member that still fetches what it has lost to another. A Fetch says only the client's id,
    so that is looked at where one member has it, and fetches on one connection of each node."""
    syncs = [each for each in requests if each.api == "SyncGroup" and not each.errors]
    members: dict[str | None, set[str]] = {}
    for sync in syncs:
        members.setdefault(sync.client_id, set()).add(sync.member_id or "")
    fetches = [each for each in requests if each.api == "Fetch"]
    connections: dict[tuple[str | None, int], set[int]] = {}
    for fetch in fetches:
        connections.setdefault((fetch.client_id, fetch.node_id), set()).add(fetch.connection)
    seen: set[tuple[str | None, TopicPartition]] = set()
    for fetch in fetches:
        if len(members.get(fetch.client_id, ())) != 1:
            continue
        if len(connections[fetch.client_id, fetch.node_id]) != 1:
            continue
        (member,) = members[fetch.client_id]
        for place, owner in _lost(fetch, member, syncs, rounds):
            if (member, place) not in seen:
                seen.add((member, place))
                yield Finding(
                    findings.OVERLAPPING_OWNERS,
                    f"{member} fetches {places([place])}, which it had, and which is now {owner}'s",
                    "",
                    member,
                    fetch.client_id,
                    fetch.wall_s,
                )


def _lost(
    fetch: Asked, member: str, syncs: list[Asked], rounds: Rounds
) -> Iterator[tuple[TopicPartition, str]]:
    """What this Fetch names of partitions that were the member's, and are another's."""
    own = [each for each in syncs if each.member_id == member and each.wall_s <= fetch.wall_s]
    if not own or (own[-1].answered_wall_s or fetch.wall_s) + FETCHES_END_SECONDS > fetch.wall_s:
        return
    past = [g for g in rounds.get(own[-1].group or "", []) if g.wall_s <= fetch.wall_s]
    if not past or past[-1].number != own[-1].generation:
        return  # A round is open, or it does not know of the last one yet.
    had = {place for g in past[:-1] for place in g.partitions.get(member, ())}
    for place in fetch.partitions:
        owner = _owner(past[-1], place)
        if place in had and owner not in (None, member):
            yield place, owner or ""


def commits_ahead(requests: list[Asked]) -> Iterator[Finding]:
    """Commits of members beyond all that their client can know of the partition: what a Fetch gave
    it, where it asked to go on, what it was told as the end or as committed."""
    known: dict[tuple[str | None, TopicPartition], int] = {}
    fetched: set[tuple[str | None, TopicPartition]] = set()
    seen: set[tuple[str | None, TopicPartition]] = set()
    # Answers are read where it depends on them: most commits are below where a later Fetch began.
    unread: dict[str | None, list[Asked]] = {}

    def learn(client: str | None, positions: Positions) -> None:
        for place, offset in positions:
            known[client, place] = max(known.get((client, place), 0), offset)

    for is_answer, asked in _arrivals_and_answers(requests):
        client = asked.client_id
        if is_answer:
            unread.setdefault(client, []).append(asked)
            if asked.api == "Fetch":
                fetched |= {(client, place) for place in asked.partitions}
        elif asked.api == "Fetch":
            learn(client, asked_from(asked))
        else:
            for place, offset in asked.offsets.items():
                key = client, place
                if key in fetched and offset > known[key] and key not in seen:
                    for answered in unread.pop(client, []):
                        learn(client, told_by(answered))
                    if offset > known[key]:
                        seen.add(key)
                        yield _ahead(asked, place, offset, known[key])


def _ahead(asked: Asked, place: TopicPartition, offset: int, known: int) -> Finding:
    return Finding(
        findings.COMMIT_AHEAD,
        f"{asked.member_id} committed {places([place])} at {offset}, and was given only what is "
        f"before {known}: what lies between is passed over",
        asked.group or "",
        asked.member_id,
        asked.client_id,
        asked.wall_s,
    )


def _arrivals_and_answers(requests: list[Asked]) -> Iterator[tuple[bool, Asked]]:
    steps: list[tuple[float, bool, Asked]] = []
    for asked in requests:
        if asked.api == "Fetch" or (asked.api == "OffsetCommit" and asked.member_id):
            steps.append((asked.wall_s, False, asked))
        if asked.api in ("Fetch", "ListOffsets", "OffsetFetch") and asked.answered_wall_s:
            steps.append((asked.answered_wall_s, True, asked))
    steps.sort(key=lambda step: step[0])
    return ((is_answer, asked) for _, is_answer, asked in steps)
