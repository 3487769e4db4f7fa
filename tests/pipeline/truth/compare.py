"""Compare the causes that the diagnosis reports with the expected causes.

"Log alone" means the offsets log and samples of the log end offsets of the topics; "with events"
adds the event log of the coordinator.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import NamedTuple

from kohort.offsets.causes import Cause
from kohort.pipeline.diagnosis.group_history import Generation, GroupHistory
from kohort.pipeline.diagnosis.rebalances import explain
from truth.histories import read_histories
from truth.oracle import LOOKS_LIKE, UNKNOWN_CAUSES, Oracle, ambiguity
from truth.world import World

LIVE_SAMPLE_MS = 500  # live groups have much shorter timeouts


class Verdict(NamedTuple):
    """The comparison of one GroupMetadata record. `expected`: any of these causes is correct;
    `ambiguity`: why the log alone is ambiguous, or None."""

    group: str
    log_offset: int
    generation: int | None
    expected: frozenset[str]
    reported: str
    evidence: str
    ambiguity: str | None = None

    @property
    def is_correct(self) -> bool:
        return self.reported in self.expected or self.admits_ambiguity

    @property
    def admits_ambiguity(self) -> bool:
        """Return True if an unknown cause is reported where the log is ambiguous."""
        return self.ambiguity is not None and self.reported in _UNKNOWN_NAMES

    @property
    def row(self) -> str:
        """Return the matrix row of this verdict."""
        return " + ".join(sorted(self.expected))


_UNKNOWN_NAMES = frozenset(cause.name for cause in UNKNOWN_CAUSES)


def compare_live(
    data: Path, as_of_ms: int, known: Mapping[str, tuple[Oracle, int]]
) -> Iterator[tuple[bool, Verdict]]:
    """Compare the records in a data folder. `known`: oracle and last log offset of each group."""
    for with_events in (False, True) if (data / "events").exists() else (False,):
        for history in read_histories(
            data, as_of_ms, with_events=with_events, sample_ms=LIVE_SAMPLE_MS
        ):
            if history.group in known:
                oracle, last = known[history.group]
                kept = tuple(each for each in history.generations if each.log_offset <= last)
                for verdict in compare_group(history._replace(generations=kept), oracle):
                    yield with_events, verdict


def compare(world: World) -> list[tuple[bool, Verdict]]:
    """Compare all records of a completed world: without events (False), and with them."""
    found = [
        (with_events, verdict._replace(group=f"{history.group} of world {world.seed}"))
        for with_events in (False, True)
        for history in read_histories(world.folder, world.now_ms(), with_events=with_events)
        for verdict in compare_group(history, world.oracle(history.group))
    ]
    assert [verdict for _, verdict in found if not verdict.expected] == []
    return found


def compare_group(history: GroupHistory, oracle: Oracle) -> Iterator[Verdict]:
    """Compare each record of a group. `history` is from the log alone or includes events."""
    expected = expected_causes(history, oracle)
    reported = {row.log_offset: row for row in explain(history).rebalances}
    before: Generation | None = None
    for record in history.generations:
        causes, why = expected[record.log_offset], None
        if not history.events:
            why = ambiguity(history, before, record)
            causes |= {like for name in causes for like in _LOOKS_LIKE.get(name, ())}
        row = reported.get(record.log_offset)
        yield Verdict(
            history.group,
            record.log_offset,
            record.generation,
            causes,
            "nothing" if row is None else row.cause,
            "" if row is None else row.evidence,
            why,
        )
        before = None if record.tombstone else record


_LOOKS_LIKE = {
    cause.name: frozenset(like.name for like in likes) for cause, likes in LOOKS_LIKE.items()
}


def expected_causes(history: GroupHistory, oracle: Oracle) -> dict[int, frozenset[str]]:
    """Return the expected causes of each record of the group, by log offset."""
    found = dict[int, frozenset[str]]()
    life = 0
    before: Generation | None = None
    for record in history.generations:
        causes: frozenset[Cause]
        if record.tombstone:
            causes = frozenset({oracle.ends[life]})
            life += 1
        elif record.generation == 0:  # a new group is written before it has members
            causes = frozenset({Cause.GROUP_CREATED})
        elif before is not None and before.generation == record.generation and record.members:
            assert (life, record.generation) in oracle.replaced, (
                f"{history.group}: unexpected replacement"
            )
            causes = frozenset({Cause.STATIC_REPLACED})
        else:
            causes = _between(oracle, life, before, record)
        found[record.log_offset] = frozenset(cause.name for cause in causes)
        before = None if record.tombstone else record
    return found


def _between(
    oracle: Oracle, life: int, before: Generation | None, record: Generation
) -> frozenset[Cause]:
    """Return the causes of all rebalances since `before`; one without a sync writes no record."""
    last = record.generation or 0
    first = last if before is None else (before.generation or 0) + 1
    causes = set[Cause]()
    for generation in range(first, last + 1):
        known = oracle.generations.get((life, generation))
        assert known is not None or generation < last, f"generation {last} has no expected cause"
        causes |= frozenset() if known is None else known.causes
    if record.members and before is not None:
        causes.discard(Cause.GROUP_EMPTIED)
    return frozenset(causes)


class Matrix:
    """Counts of expected causes × reported cause."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, bool, str | None]] = Counter()
        self.wrong: list[Verdict] = []

    def add(self, verdict: Verdict) -> None:
        self.counts[verdict.row, verdict.reported, verdict.is_correct, verdict.ambiguity] += 1
        if not verdict.is_correct:
            self.wrong.append(verdict)

    def only(self, causes: Set[str]) -> "Matrix":
        """Return the rows with any of these expected causes."""
        found = Matrix()
        for (row, *rest), count in self.counts.items():
            if causes & set(row.split(" + ")):
                found.counts[row, *rest] = count
        found.wrong = [each for each in self.wrong if causes & each.expected]
        return found

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def correct(self) -> int:
        return sum(n for (_, _, is_correct, _), n in self.counts.items() if is_correct)

    @property
    def share(self) -> float:
        return self.correct / self.total if self.total else 1.0

    @property
    def ambiguities(self) -> Mapping[str, int]:
        """Counts of unknown causes reported where the log is ambiguous, by reason."""
        found = Counter[str]()
        for (_, reported, _, why), count in self.counts.items():
            if why is not None and reported in _UNKNOWN_NAMES:
                found[why] += count
        return found

    def lines(self) -> list[str]:
        rows = Counter[str]()
        for (row, *_), count in self.counts.items():
            rows[row] += count
        lines = [f"{self.correct} of {self.total} correct, {100 * self.share:.2f} %"]
        for row, count in rows.most_common():
            causes = Counter[str]()
            for (of, cause, is_correct, _), n in self.counts.items():
                if of == row:
                    causes[f"{cause}{'' if is_correct else ' (wrong)'}"] += n
            listed = ", ".join(f"{cause} {n}" for cause, n in causes.most_common())
            lines.append(f"{count:>6}  {row}: {listed}")
        lines += [f"{n:>6}  ambiguous: {why}" for why, n in self.ambiguities.items()]
        return lines + [f"wrong: {each}" for each in self.wrong]


def matrices(verdicts: Iterable[tuple[bool, Verdict]]) -> dict[bool, Matrix]:
    """Count the verdicts without events (False), and those with them."""
    found = {False: Matrix(), True: Matrix()}
    for with_events, verdict in verdicts:
        found[with_events].add(verdict)
    return found
