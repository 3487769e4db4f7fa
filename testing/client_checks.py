"""Finds mistakes made by a test's clients, from the history: `kafka.client_checks`.

A false alarm is worse than a miss, so only mistakes that the history proves are reported. If two
clients share a client id, for example, or a fault affected a request, the history proves nothing.
"""

import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import Any, Final

from ..coordinator.outcome import EventType
from ..log.batch import read_header
from ..protocol.messages import response_decoder
from ..suggestions import SuggestsAttributes
from .explanation.transactions import is_fenced, superseding
from .generations import Generation
from .group_view import connected_members
from .history import (
    COMMIT_APIS,
    Commit,
    History,
    RejectedCommit,
    client_ids,
    rejected_commits_in,
)
from .lifecycle import BrokerHost
from .recorded_request import RecordedRequest, TopicPartition
from .timeline.timeline import join_partitions, name_member

ZOMBIE_COMMIT: Final = "zombie commit"
STALE_GENERATION: Final = "stale generation"
SLOW_HEARTBEAT: Final = "slow heartbeat"
OVERLAPPING_OWNERS: Final = "overlapping owners"
COMMIT_AHEAD: Final = "commit ahead of delivery"
LEFT_OPEN: Final = "client left open"
SHARED_INSTANCE_ID: Final = "shared instance id"
ZOMBIE_PRODUCER: Final = "zombie producer"

KINDS: Final = {
    ZOMBIE_COMMIT: "a removed member, or a member in an old generation, tried to commit",
    STALE_GENERATION: "a member kept using a generation after an error showed that it had ended",
    SLOW_HEARTBEAT: "fewer than three heartbeats in a session timeout",
    OVERLAPPING_OWNERS: "two members used the same partition at the same time",
    COMMIT_AHEAD: "a committed offset is ahead of the records that the client fetched",
    LEFT_OPEN: "a member was still connected at the end of its test",
    SHARED_INSTANCE_ID: "two connected clients used the same group.instance.id",
    ZOMBIE_PRODUCER: "a producer used a transactional id that another producer had taken over",
}

# STALE_MEMBER_EPOCH is missing, because the next heartbeat returns the member's new epoch
# (KIP-848).
_MEMBERSHIP_ERRORS = (
    "ILLEGAL_GENERATION",
    "UNKNOWN_MEMBER_ID",
    "FENCED_INSTANCE_ID",
    "FENCED_MEMBER_EPOCH",
)

_OF_MEMBERS = ("Heartbeat", "SyncGroup", "OffsetCommit", "ConsumerGroupHeartbeat")

# A request counts only if it arrives this much later than the error, because requests that were
# already in flight get the same error.
REACTION_SECONDS = 0.1
# According to Kafka's documentation, heartbeat.interval.ms should be at most a third of
# session.timeout.ms. A client with exactly that interval is always slightly late.
HEARTBEATS_PER_SESSION = 3
HEARTBEAT_TOLERANCE = 1.1
# The check uses the shortest of at least two gaps. A stalled machine prolongs one, but rarely two.
GAPS_MIN = 2
# After a new assignment, a consumer may still have a Fetch of its old partitions in flight.
LAST_FETCH_SECONDS = 1.0
# A client that was just closed disconnects within this wall-clock time.
CLOSE_SECONDS = 0.2


class ClientCheckError(AssertionError):
    """The client checks found mistakes, and the test treats them as errors."""

    __module__ = "kohort.testing"  # the module that users import and test reports show


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake of a client. `str(finding)` is `kind: message`."""

    kind: str
    """One of KINDS."""
    message: str
    """One sentence."""
    group: str
    member_id: str | None
    client_id: str | None
    wall_s: float
    """Wall-clock seconds since the broker was created."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class ClientChecks(SuggestsAttributes):
    """`kafka.client_checks`: the mistakes of the test's clients, which become warnings or errors of
    the test (`--kafka-client-checks=error`). Fake members, which the test controls, are not
    checked.
    """

    def __init__(self, host: BrokerHost) -> None:
        self._host = host
        self.ignored: set[str] = set()
        """The kinds of findings that are ignored."""

    def ignore(self, *kinds: str) -> None:
        """Ignore findings of these kinds, for example `zombie commit`, including earlier ones. If
        no kind is given, ignore all kinds. Raises ValueError for an unknown kind."""
        unknown = set(kinds) - KINDS.keys()
        if unknown:
            raise ValueError(f"Unknown kind {min(unknown)!r}; use one of {', '.join(KINDS)}")
        self.ignored |= set(kinds or KINDS)

    @property
    def findings(self) -> list[Finding]:
        """The findings in the history so far, in chronological order."""
        if self.ignored == KINDS.keys():
            return []
        return [each for each in check_history(self._host.history) if self._is_reported(each)]

    @property
    def left_open(self) -> list[Finding]:
        """A finding for each member that is still in its group and connected. The plugin reads
        this at the end of a test."""
        if LEFT_OPEN in self.ignored:
            return []
        found = self._host.call(self._connected_members)
        if found:
            # The response to LeaveGroup, or the end of the connection, may still be on its way.
            self._host.wait_until(lambda: not self._connected_members(), CLOSE_SECONDS)
            found = self._host.call(self._connected_members)
        return found

    def check(self) -> None:
        """Raise ClientCheckError if there are findings so far."""
        raise_findings(self.findings)

    def _is_reported(self, finding: Finding) -> bool:
        is_fake = finding.client_id in self._host.fake_members.client_ids
        return finding.kind not in self.ignored and not is_fake

    # --- on the broker's loop

    def _connected_members(self) -> list[Finding]:
        return [
            Finding(
                LEFT_OPEN,
                f"{name_member(each.member_id, each.client_id)} is still in group {each.group_id} "
                "and connected: close it",
                each.group_id,
                each.member_id,
                each.client_id,
                self._host.history.wall_s,
            )
            for each in connected_members(self._host)
        ]


def _finding(
    kind: str,
    message: str,
    by: Commit | RejectedCommit | RecordedRequest,
    client_id: str | None = None,
) -> Finding:
    """Return a finding about the client of this commit or request. If a producer sent the commit,
    `client_id` is the client id of the member."""
    client_id = client_id or by.client_id
    return Finding(kind, message, by.group or "", by.member_id, client_id, by.wall_s)


def raise_findings(findings: list[Finding]) -> None:
    if findings:
        lines = "\n".join(f"  {each}" for each in findings)
        raise ClientCheckError(f"client mistakes in this test:\n{lines}")


# --- the checks: pure functions of a history

Generations = Mapping[str, list[Generation]]
"""Group -> generations."""


def check_history(history: History) -> list[Finding]:
    generations = {
        group: [_without_standbys(each) for each in history.generations(group)]
        for group in history.groups
    }
    requests = history.requests
    rejected = {
        (event.member_id, event.generation)
        for event in (recorded.event for recorded in history.events)
        if event.type is EventType.COMMIT_REJECTED
    }
    # Responses to commits are decoded only if a coordinator has rejected a commit of the member.
    suspicious = [
        each
        for each in requests
        if each.api not in COMMIT_APIS or (each.member_id, each.generation) in rejected
    ]
    found = [
        *zombie_commits(rejected_commits_in(suspicious), _disturbed_by_test(history)),
        *stale_generations(suspicious),
        *slow_heartbeats(requests),
        *double_assignments(generations),
        *commits_of_foreign_partitions(history.commits(), generations),
        *fetches_of_lost_partitions(requests, generations),
        *commits_ahead_of_delivery(requests),
        *shared_instance_ids(requests),
        *zombie_producers(history, requests),
    ]
    return sorted(found, key=lambda finding: finding.wall_s)


def _without_standbys(generation: Generation) -> Generation:
    """Omit changelog topics from Faust's assignments, which do not show whether a member owns a
    changelog partition or only replicates it."""
    if generation.protocol != "faust":
        return generation
    partitions = {
        member: tuple(each for each in assigned if not each[0].endswith("-changelog"))
        for member, assigned in generation.partitions.items()
    }
    return replace(generation, partitions=partitions)


def _disturbed_by_test(history: History) -> set[str | None]:
    """Return the members that the test removed or whose requests had a fault."""
    removed = (each.member_id for each in history.exits() if each.is_by_test)
    return {*removed, *(each.member_id for each in history.requests if each.faults)}


def zombie_commits(
    rejected: Iterable[RejectedCommit], disturbed: Container[str | None] = ()
) -> Iterator[Finding]:
    """Find rejected commits of removed members or old generations."""

    def key(commit: RejectedCommit) -> tuple[str, str, int, str]:
        return commit.group, commit.member_id or "", commit.generation or 0, commit.error

    zombies = [
        each
        for each in rejected
        if each.member_id and each.error in _MEMBERSHIP_ERRORS and each.member_id not in disturbed
    ]
    for (group, member, generation, error), same in groupby(sorted(zombies, key=key), key):
        commits = list(same)
        offsets = ", ".join(f"{c.topic}-{c.partition} at {c.offset}" for c in commits[:3])
        more = f" and {len(commits) - 3} more" if len(commits) > 3 else ""
        message = (
            f"{name_member(member, commits[0].client_id)} tried to commit {offsets}{more} for "
            f"group {group} in generation {generation} and was rejected with {error}, so the "
            "next owner repeats its work"
        )
        yield _finding(ZOMBIE_COMMIT, message, commits[0])


def stale_generations(requests: Iterable[RecordedRequest]) -> Iterator[Finding]:
    """Find members that received a membership error and kept using the same generation."""
    rejected: dict[tuple[str, str, int], tuple[float, str]] = {}
    found: dict[tuple[str, str, int], Finding] = {}
    for request in requests:
        if request.api not in _OF_MEMBERS or request.is_join or request.faults:
            continue
        if request.response_wall_s is None or not request.member_id:
            continue
        errors = [each for each in request.errors if each in _MEMBERSHIP_ERRORS]
        if not errors:
            continue
        key = request.group or "", request.member_id, request.generation or 0
        since, error = rejected.setdefault(key, (request.response_wall_s, errors[0]))
        if request.wall_s > since + REACTION_SECONDS and key not in found:
            message = (
                f"{name_member(request.member_id, request.client_id)} sent {request.api} for "
                f"generation {key[2]} of group {key[0]} "
                f"{request.wall_s - since:.1f} s after it received {error}"
            )
            found[key] = _finding(STALE_GENERATION, message, request)
    yield from found.values()


def slow_heartbeats(requests: list[RecordedRequest]) -> Iterator[Finding]:
    sessions: dict[str, float] = {}
    heartbeats: dict[str, list[RecordedRequest]] = {}
    gaps: dict[str, list[float]] = {}
    for request in requests:
        if request.api == "JoinGroup" and (member := _joined_member(request)):
            sessions[member] = request.message.session_timeout.total_seconds()
        member = request.member_id or ""
        if request.api == "Heartbeat" and not request.errors and not request.faults:
            heartbeats.setdefault(member, []).append(request)
        elif request.api in ("JoinGroup", "SyncGroup", "LeaveGroup", "Heartbeat"):
            gaps.setdefault(member, []).extend(_gaps(heartbeats.pop(member, [])))
    for member, last in heartbeats.items():
        gaps.setdefault(member, []).extend(_gaps(last))
    last_heartbeats = {each.member_id: each for each in requests if each.api == "Heartbeat"}
    for member, measured in gaps.items():
        session = sessions.get(member)
        allowed = (session or 0) / HEARTBEATS_PER_SESSION
        if session is None or len(measured) < GAPS_MIN:
            continue
        if min(measured) > allowed * HEARTBEAT_TOLERANCE:
            message = (
                f"{member} sends a heartbeat every {min(measured):.2g} s, more than a third of its "
                f"session timeout of {session:g} s, so its session expires if two are lost"
            )
            yield _finding(SLOW_HEARTBEAT, message, last_heartbeats[member])


def shared_instance_ids(requests: list[RecordedRequest]) -> Iterator[Finding]:
    """Find members that still sent requests after another client had joined with the same
    group.instance.id and fenced them."""
    joins: dict[tuple[str, str], RecordedRequest] = {}
    found: set[tuple[str, str]] = set()
    for request in requests:
        if request.instance_id is None or request.faults:
            continue
        key = request.group or "", request.instance_id
        other = joins.get(key)
        is_fenced = "FENCED_INSTANCE_ID" in request.errors
        if is_fenced and key not in found and other and other.connection != request.connection:
            found.add(key)
            message = (
                f"clients {request.client_id} and {other.client_id} of group {key[0]} both use "
                f"the group.instance.id {key[1]}, so the later one fences the earlier one"
            )
            yield _finding(SHARED_INSTANCE_ID, message, request)
        if request.is_join and "UNRELEASED_INSTANCE_ID" not in request.errors:
            joins[key] = request


def zombie_producers(history: History, requests: list[RecordedRequest]) -> Iterator[Finding]:
    """Find producers that were fenced, but not by the test."""
    seen: set[tuple[str | None, str | None]] = set()
    for request in requests:
        key = request.client_id, request.transactional_id
        if key in seen or not is_fenced(request):
            continue
        fenced_by = superseding(history, request)
        if fenced_by is not None and not fenced_by.is_by_test:
            seen.add(key)
            message = (
                f"{request.client_id} sent {request.api} for {request.transactional_id} with epoch "
                f"{request.producer_epoch} and got {request.errors[0]} (fenced by epoch "
                f"{fenced_by.producer_epoch}; cause: {fenced_by.cause})"
            )
            yield _finding(ZOMBIE_PRODUCER, message, request)


def _joined_member(join: RecordedRequest) -> str | None:
    return join.member_id or getattr(join.response, "member_id", None) or None


def _gaps(heartbeats: Iterable[RecordedRequest]) -> list[float]:
    return [after.wall_s - before.wall_s for before, after in pairwise(heartbeats)]


def double_assignments(generations: Generations) -> Iterator[Finding]:
    for group, of_group in generations.items():
        for each in of_group:
            owners: dict[TopicPartition, str] = {}
            for member, partitions in each.partitions.items():
                for partition in partitions:
                    first = owners.setdefault(partition, member)
                    if first != member:
                        yield Finding(
                            OVERLAPPING_OWNERS,
                            f"{join_partitions([partition])} was assigned to both {first} and "
                            f"{member} in generation {each.number} of group {group}, by its leader "
                            f"{each.leader}",
                            group,
                            member,
                            None,
                            each.wall_s,
                        )


def commits_of_foreign_partitions(
    commits: Iterable[Commit], generations: Generations
) -> Iterator[Finding]:
    """Find accepted commits of partitions that belong to another member in the generation of the
    commit. (A commit with the previous generation is correct if its partition is being revoked.)"""
    seen: set[tuple[str | None, TopicPartition]] = set()
    for commit in commits:
        partition = commit.topic, commit.partition
        generation = _generation_of(commit, generations.get(commit.group, []))
        if generation is None or commit.member_id not in generation.partitions:
            continue
        if partition in generation.partitions[commit.member_id or ""]:
            continue
        owner = _owner(generation, partition)
        if owner is not None and (commit.member_id, partition) not in seen:
            seen.add((commit.member_id, partition))
            message = (
                f"{name_member(commit.member_id or '', commit.client_id)} committed "
                f"{join_partitions([partition])} at {commit.offset} "
                f"in generation {generation.number} of group {commit.group}, in which it belongs "
                f"to {owner}"
            )
            yield _finding(OVERLAPPING_OWNERS, message, commit)


def _generation_of(commit: Commit, generations: list[Generation]) -> Generation | None:
    return next(
        (
            each
            for each in reversed(generations)
            if each.number == commit.generation and each.wall_s <= commit.wall_s
        ),
        None,
    )


def _owner(generation: Generation, partition: TopicPartition) -> str | None:
    owners = (who for who, what in generation.partitions.items() if partition in what)
    return next(owners, None)


def fetches_of_lost_partitions(
    requests: list[RecordedRequest], generations: Generations
) -> Iterator[Finding]:
    """Find members that still fetch partitions assigned to others. A Fetch contains a client id,
    but no member id, so it is checked only if exactly one member, with one fetching connection per
    node, uses that client id."""
    syncs = [each for each in requests if each.api == "SyncGroup" and not each.errors]
    members: dict[str | None, set[str]] = {}
    for each in requests:
        if each.api in ("SyncGroup", "ConsumerGroupHeartbeat") and not each.errors:
            members.setdefault(each.client_id, set()).add(each.member_id or "")
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
        for partition, owner in _lost_partitions(fetch, member, syncs, generations):
            if (member, partition) not in seen:
                seen.add((member, partition))
                yield Finding(
                    OVERLAPPING_OWNERS,
                    f"{member} fetches {join_partitions([partition])}, which was reassigned to "
                    f"{owner}",
                    "",
                    member,
                    fetch.client_id,
                    fetch.wall_s,
                )


def _lost_partitions(
    fetch: RecordedRequest, member: str, syncs: list[RecordedRequest], generations: Generations
) -> Iterator[tuple[TopicPartition, str]]:
    """Yield the partitions of this Fetch that the member has lost, with their new owners."""
    own = [each for each in syncs if each.member_id == member and each.wall_s <= fetch.wall_s]
    if not own or (own[-1].response_wall_s or fetch.wall_s) + LAST_FETCH_SECONDS > fetch.wall_s:
        return
    past = [g for g in generations.get(own[-1].group or "", []) if g.wall_s <= fetch.wall_s]
    if not past or past[-1].number != own[-1].generation:
        return  # a rebalance is in progress, or the member has not received its last assignment
    owned = {partition for g in past[:-1] for partition in g.partitions.get(member, ())}
    for partition in fetch.partitions:
        owner = _owner(past[-1], partition)
        if partition in owned and owner not in (None, member):
            yield partition, owner or ""


def commits_ahead_of_delivery(requests: list[RecordedRequest]) -> Iterator[Finding]:
    """Find commits beyond every offset that the client can know: the ends of the records that it
    fetched, its fetch offsets, log end offsets and committed offsets. A commit in a transaction is
    sent by a producer, but is checked against the records that the member's client has fetched."""
    known: dict[tuple[str | None, TopicPartition], int] = {}
    fetched: set[tuple[str | None, TopicPartition]] = set()
    seen: set[tuple[str | None, TopicPartition]] = set()
    # Responses are decoded only if necessary. The offset of a later Fetch covers most commits.
    undecoded: dict[str | None, list[RecordedRequest]] = {}

    def learn(client: str | None, positions: Iterable[tuple[TopicPartition, int]]) -> None:
        for partition, offset in positions:
            known[client, partition] = max(known.get((client, partition), 0), offset)

    for is_response, client, request in _requests_and_responses(requests):
        if is_response:
            undecoded.setdefault(client, []).append(request)
            if request.api == "Fetch":
                fetched |= {(client, partition) for partition in request.partitions}
        elif request.api == "Fetch":
            learn(client, _fetch_positions(request))
        else:
            for partition, offset in request.offsets.items():
                key = client, partition
                if key in fetched and offset > known[key] and key not in seen:
                    for each in undecoded.pop(client, []):
                        learn(client, _response_positions(each))
                    if offset > known[key]:
                        seen.add(key)
                        message = (
                            f"{name_member(request.member_id or '', client)} committed "
                            f"{join_partitions([partition])} at "
                            f"{offset}, but has fetched only records before {known[key]}, so "
                            "the records in between would be skipped"
                        )
                        yield _finding(COMMIT_AHEAD, message, request, client)


def _requests_and_responses(
    requests: list[RecordedRequest],
) -> Iterator[tuple[bool, str | None, RecordedRequest]]:
    """Yield (is_response, client id, request) for each Fetch and each commit of a member, and for
    each response to Fetch, ListOffsets and OffsetFetch, in chronological order."""
    steps: list[tuple[float, bool, RecordedRequest]] = []
    members = client_ids(requests) if any(each.is_by_producer for each in requests) else {}
    for each in requests:
        if each.api == "Fetch" or (each.api in COMMIT_APIS and each.member_id):
            steps.append((each.wall_s, False, each))
        if each.api in ("Fetch", "ListOffsets", "OffsetFetch") and each.response_wall_s:
            steps.append((each.response_wall_s, True, each))
    steps.sort(key=lambda step: step[0])
    for _, is_response, each in steps:
        if not each.is_by_producer:
            yield is_response, each.client_id, each
        elif each.member_id in members:
            yield is_response, members[each.member_id], each


def _fetch_positions(fetch: RecordedRequest) -> Iterator[tuple[TopicPartition, int]]:
    for topic, index, each in fetch.by_partition(fetch.message):
        yield (topic, index), int(each.fetch_offset)


def _response_positions(request: RecordedRequest) -> Iterator[tuple[TopicPartition, int]]:
    """Yield the offsets at which a client may continue after a response: the end of the records
    (Fetch), the offset (ListOffsets), or the committed offset (OffsetFetch)."""
    if not request.response_frame:
        return
    # `request.response` is not used, because it would keep the records in memory twice.
    response = response_decoder(request.api_key, request.version)(request.response_frame)
    position: Callable[[Any], int | None]
    position = _end_of_records if request.api == "Fetch" else _offset_of
    for topic, index, each in request.by_partition(response):
        offset = position(each)
        if offset is not None:
            yield (topic, index), offset


def _offset_of(entry: Any) -> int | None:
    for name in ("offset", "committed_offset"):
        if hasattr(entry, name):
            return int(getattr(entry, name))
    return max(entry.old_style_offsets, default=None)  # ListOffsets v0


def _end_of_records(entry: Any) -> int | None:
    """Return the offset after the last complete batch; the next batch may be cut off."""
    records: bytes = entry.records or b""
    end, position = None, 0
    while position < len(records):
        try:
            header = read_header(records, position)
        except struct.error:
            break
        position += header.size
        if position <= len(records):
            end = header.next_offset
    return end
