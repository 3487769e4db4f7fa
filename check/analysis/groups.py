"""What a group guarantees: one owner per partition, and durable committed offsets.

The committed offset of a group and partition is a register whose writes are unique, because each
commit has different metadata. "Generation" includes member epochs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from ..history import Assigned, Commit, Heartbeat, Joined, Left, Operation, Poll, ReadCommitted
from .facts import Anomaly, Facts, highest_before

GONE = ("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "FENCED_INSTANCE_ID")
"""After one of these errors, the member id and generation are no longer valid."""
GENERATION = attrgetter("generation")


class _Ownership(NamedTuple):
    """A period in which a member certainly owned a partition: from the response with the assignment
    until the member sent the last accepted heartbeat in which it still owned the partition."""

    member: str
    begin: int
    end: int
    grant: Assigned
    proof: Operation


def two_owners(facts: Facts) -> Iterator[Anomaly]:
    """Two members own a partition: by their assignments in one generation of a classic group, or
    because the broker accepts a heartbeat of the earlier owner after it has assigned the partition
    to another member."""
    yield from _owners_of_a_generation(facts)
    for (group, partition), owned in _ownerships(facts).items():
        last: _Ownership | None = None
        for each in sorted(owned, key=lambda each: each.begin):
            if last is not None and last.member != each.member and each.begin < last.end:
                yield Anomaly(
                    f"partition {partition} of {group} was assigned to {each.grant.client}, while "
                    f"the broker still accepted heartbeats of {last.grant.client} as its owner",
                    (last.grant, each.grant, last.proof),
                )
            if last is None or each.end > last.end:
                last = each


def _owners_of_a_generation(facts: Facts) -> Iterator[Anomaly]:
    owners: dict[tuple[str, int, int], Assigned] = {}
    for each in facts.of(Assigned):
        if not each.is_ok or not each.leader:
            continue
        for partition in each.partitions:
            other = owners.setdefault((each.group, each.generation, partition), each)
            # A member that joins again after a lost response gets another id in this generation.
            if other.member != each.member and other.leader == each.leader:
                yield Anomaly(
                    f"partition {partition} of {each.group} belongs to two members in generation "
                    f"{each.generation}",
                    (other, each),
                )


def _ownerships(facts: Facts) -> dict[tuple[str, int], list[_Ownership]]:
    proofs: dict[tuple[str, str], list[Heartbeat]] = defaultdict(list)
    for heartbeat in facts.of(Heartbeat):
        if heartbeat.is_ok:
            proofs[heartbeat.group, heartbeat.member].append(heartbeat)
    found: dict[tuple[str, int], list[_Ownership]] = defaultdict(list)
    for grant in facts.of(Assigned):
        if not grant.is_ok or grant.ended is None:
            continue
        for partition in grant.partitions:
            last: Operation = grant
            end = grant.ended
            for proof in proofs[grant.group, grant.member]:
                if proof.began < grant.ended:
                    continue
                if partition not in proof.partitions or (
                    grant.leader and proof.generation != grant.generation
                ):
                    break
                last, end = proof, proof.began
            ownership = _Ownership(grant.member, grant.ended, end, grant, last)
            found[grant.group, partition].append(ownership)
    return found


def fenced_commits(facts: Facts) -> Iterator[Anomaly]:
    """A commit was accepted although its member had left, had been fenced, or belonged to an
    earlier generation; or although the member had given up the partition in a member epoch later
    than the commit's."""
    gone = _gone(facts)
    given_up = _given_up(facts)
    commits = [each for each in facts.of(Commit) if _takes_effect(facts, each)]
    completed = _completed_generations(facts)
    newest = dict(highest_before(commits, completed, GENERATION, attrgetter("group")))
    for commit in commits:
        departure = gone.get((commit.group, commit.member))
        if departure is not None and departure.precedes(commit):
            yield Anomaly(
                f"{commit.client} was no longer a member of {commit.group}, but its commit "
                f"{commit.metadata} was accepted",
                (departure, commit),
            )
            continue
        current = newest.get(commit) if commit.is_classic else None
        if current is not None and current.generation > commit.generation:
            yield Anomaly(
                f"commit {commit.metadata} of generation {commit.generation} was accepted in "
                f"generation {current.generation} of {commit.group}",
                (current, commit),
            )
        for heartbeat in given_up.get((commit.group, commit.member, commit.partition), ()):
            if heartbeat.epoch > commit.generation and heartbeat.precedes(commit):
                yield Anomaly(
                    f"commit {commit.metadata} of partition {commit.partition} in member epoch "
                    f"{commit.generation} was accepted, although {commit.client} had given it up "
                    f"before member epoch {heartbeat.epoch}",
                    (heartbeat, commit),
                )
                break


def _given_up(facts: Facts) -> dict[tuple[str, str, int], list[Heartbeat]]:
    """Return, by group, member and partition, the accepted heartbeats (consumer protocol) in which
    the member did not own the partition. Only the first such heartbeat of each epoch is included.
    The member can own the partition again only in the epoch of the response or a later one. Kafka
    accepts commits with any epoch since the one in which the partition was assigned (KIP-1251);
    before 4.3, only with the current epoch."""
    partitions = {each.partition for each in facts.of(Commit)}
    found: dict[tuple[str, str, int], list[Heartbeat]] = defaultdict(list)
    for each in facts.of(Heartbeat):
        if each.is_ok and each.epoch >= 0:
            for partition in partitions.difference(each.partitions):
                known = found[each.group, each.member, partition]
                if not known or each.epoch > known[-1].epoch:
                    known.append(each)
    return found


def _completed_generations(facts: Facts) -> list[Assigned]:
    """Return the assignments of classic groups, in the order in which members received them."""
    found = [each for each in facts.of(Assigned) if each.is_ok and each.leader]
    return sorted(found, key=lambda each: each.ended or 0)


def _gone(facts: Facts) -> dict[tuple[str, str], Operation]:
    """Return the first response that made a member id invalid, by group and member."""
    gone: dict[tuple[str, str], Operation] = {}
    for each in facts.operations:
        if (isinstance(each, Left) and each.is_ok) or (
            isinstance(each, Heartbeat) and each.error in GONE
        ):
            gone.setdefault((each.group, each.member), each)
    return gone


def _takes_effect(facts: Facts, commit: Commit) -> bool:
    return commit.is_ok and facts.transaction_fate(commit.transaction) == "ok"


def visible_failed_commits(facts: Facts) -> Iterator[Anomaly]:
    """The committed offset comes from a commit that the broker rejected, from a transaction that
    was aborted or not yet committed, or from no commit at all."""
    commits = {each.metadata: each for each in facts.of(Commit)}
    for read in facts.of(ReadCommitted):
        if read.offset < 0:
            continue
        commit = commits.get(read.metadata)
        if commit is None:
            what = f"the committed offset {read.offset} of partition {read.partition} comes from no"
            yield Anomaly(what + f" commit: metadata {read.metadata!r}", (read,))
            continue
        is_aborted = facts.transaction_fate(commit.transaction) == "fail"
        if commit.outcome == "fail" or is_aborted:
            why = f"was rejected with {commit.error}" if commit.outcome == "fail" else "was aborted"
            yield Anomaly(f"commit {commit.metadata} {why}, but is visible", (commit, read))
            continue
        end = None if commit.transaction is None else facts.commit_of(commit.transaction)
        if end is not None and read.precedes(end):
            what = f"commit {commit.metadata} was visible before its transaction was committed"
            yield Anomaly(what, (commit, read, end))


def lost_commits(facts: Facts) -> Iterator[Anomaly]:
    """A committed offset is gone, or an earlier one is back: a read returns neither the last commit
    that was acknowledged or read before the read began, nor a later or concurrent commit."""
    commits: dict[tuple[str, int], list[Commit]] = defaultdict(list)
    for commit in facts.of(Commit):
        commits[commit.group, commit.partition].append(commit)
    reads: dict[tuple[str, int], list[ReadCommitted]] = defaultdict(list)
    for read in facts.of(ReadCommitted):
        reads[read.group, read.partition].append(read)
    for key, found in reads.items():
        yield from _lost(facts, commits[key], found)


class _Effect(NamedTuple):
    """A commit that had taken effect by the position `at` in the order of events, and the operation
    that proves it."""

    at: int
    commit: Commit
    proof: Operation


def _lost(facts: Facts, commits: list[Commit], reads: list[ReadCommitted]) -> Iterator[Anomaly]:
    by_metadata = {each.metadata: each for each in commits}
    seen: dict[str, ReadCommitted] = {}  # metadata -> the first read that returned it
    for read in sorted(reads, key=lambda each: each.ended or 0):
        seen.setdefault(read.metadata, read)
    effects = sorted(_effects(facts, by_metadata, reads), key=lambda each: each.at)
    latest: _Effect | None = None
    at = 0
    for read in reads:
        while at < len(effects) and effects[at].at < read.began:
            if latest is None or effects[at].commit.began > latest.commit.began:
                latest = effects[at]
            at += 1
        if latest is None:
            continue
        earlier: tuple[Operation, ...] = ()
        if read.offset >= 0:
            found = by_metadata.get(read.metadata)
            if found is None or not (
                earlier := _over(facts, found, seen[read.metadata], latest.commit)
            ):
                continue
        returned = "none" if read.offset < 0 else f"{read.offset}, of {read.metadata}"
        proof = () if latest.proof is latest.commit else (latest.proof,)
        yield Anomaly(
            f"commit {latest.commit.metadata} of offset {latest.commit.offset} of partition "
            f"{read.partition} is lost: the committed offset of {read.group} is {returned}",
            (*earlier, latest.commit, *proof, read),
        )


def _effects(
    facts: Facts, commits: dict[str, Commit], reads: Iterable[ReadCommitted]
) -> Iterator[_Effect]:
    for commit in commits.values():
        if not _takes_effect(facts, commit) or commit.ended is None:
            continue
        end = None if commit.transaction is None else facts.commit_of(commit.transaction)
        if end is None:
            yield _Effect(commit.ended, commit, commit)
        elif end.ended is not None:
            yield _Effect(end.ended, commit, end)
    for read in reads:
        if read.metadata in commits and read.offset >= 0 and read.ended is not None:
            yield _Effect(read.ended, commits[read.metadata], read)


def _over(
    facts: Facts, commit: Commit, seen: ReadCommitted, later: Commit
) -> tuple[Operation, ...]:
    """Return the operations that prove that a commit took effect before `later` began; empty if
    none do. `seen`: the first read that returned the commit."""
    if commit.transaction is None:
        if commit.is_ok and commit.precedes(later):
            return (commit,)
        # A commit with an unknown outcome may be executed at any time, but only once, because
        # members never repeat a request.
        return (commit, seen) if seen.precedes(later) else ()
    end = facts.commit_of(commit.transaction)
    is_over = commit.is_ok and end is not None and end.is_ok and end.precedes(later)
    return (commit,) if is_over else ()


def commits_ahead(facts: Facts) -> Iterator[Anomaly]:
    """The committed offset differs from the offset in its commit, or is ahead of every position
    that a member of the group had reached."""
    commits = {each.metadata: each for each in facts.of(Commit)}
    polls: dict[tuple[str, int], list[Poll]] = defaultdict(list)
    for poll in facts.polls:
        if poll.group is not None:
            polls[poll.group, poll.partition].append(poll)
    for found in polls.values():
        found.sort(key=lambda each: each.ended or 0)
    reached: dict[tuple[str, int], tuple[int, int]] = {}  # values: index, highest position
    for read in sorted(facts.of(ReadCommitted), key=lambda each: each.ended or 0):
        key = read.group, read.partition
        index, highest = reached.get(key, (0, 0))
        while index < len(polls[key]) and (polls[key][index].ended or 0) < (read.ended or 0):
            highest = max(highest, polls[key][index].next_position)
            index += 1
        reached[key] = index, highest
        commit = commits.get(read.metadata)
        if commit is not None and read.offset >= 0 and commit.offset != read.offset:
            yield Anomaly(
                f"commit {read.metadata} of offset {commit.offset} of partition {read.partition} "
                f"is read as {read.offset}",
                (commit, read),
            )
        elif read.offset > highest:
            yield Anomaly(
                f"the committed offset {read.offset} of partition {read.partition} for {read.group}"
                f" is ahead of delivery: no member got further than {highest}",
                (*(() if commit is None else (commit,)), read),
            )


def consumed_twice(facts: Facts) -> Iterator[Anomaly]:
    """Two transactions of a group consumed the same records, and both were committed. Fencing and
    committed offsets failed to provide exactly-once semantics."""
    consumed: dict[tuple[str, int], list[Commit]] = defaultdict(list)
    for commit in facts.of(Commit):
        if commit.transaction is not None and _takes_effect(facts, commit):
            consumed[commit.group, commit.partition].append(commit)
    for (group, partition), commits in consumed.items():
        commits.sort(key=lambda each: each.begin)
        for earlier, later in pairwise(commits):
            if later.begin < earlier.offset:
                yield Anomaly(
                    f"the records of partition {partition} from offset {later.begin} to "
                    f"{min(earlier.offset, later.offset) - 1} were consumed for {group} in "
                    f"transactions {earlier.transaction} and {later.transaction}",
                    (earlier, later),
                )


def generations(facts: Facts) -> Iterator[Anomaly]:
    """A generation moved backwards or was used twice, or a member epoch moved backwards."""
    leaders: dict[tuple[str, int], Assigned] = {}
    shares: dict[tuple[str, int, str], Assigned] = {}
    completed = _completed_generations(facts)
    for each in completed:
        other = leaders.setdefault((each.group, each.generation), each)
        if other.leader != each.leader:
            yield Anomaly(
                f"generation {each.generation} of {each.group} has two leaders",
                (other, each),
            )
        # After a crash of the broker, a member may join its generation again.
        same = shares.setdefault((each.group, each.generation, each.member), each)
        if set(same.partitions) != set(each.partitions):
            yield Anomaly(
                f"generation {each.generation} of {each.group} was used twice, with two "
                f"assignments of {each.client}",
                (same, each),
            )
    joins = facts.of(Joined)
    for joined, last in highest_before(joins, completed, GENERATION, attrgetter("group")):
        if joined.is_ok and joined.generation < last.generation:
            yield Anomaly(
                f"the generation of {joined.group} moved backwards from {last.generation} to "
                f"{joined.generation}",
                (last, joined),
            )
    yield from _member_epochs(facts)


def _member_epochs(facts: Facts) -> Iterator[Anomaly]:
    last: dict[tuple[str, str], Heartbeat] = {}
    for each in facts.of(Heartbeat):
        if not each.is_ok or each.epoch < 0:
            continue
        before = last.get((each.group, each.member))
        if before is not None and each.epoch < before.epoch:
            yield Anomaly(
                f"the member epoch of {each.client} moved backwards from {before.epoch} to "
                f"{each.epoch}",
                (before, each),
            )
        last[each.group, each.member] = each
