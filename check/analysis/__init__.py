"""Pure functions that find the anomalies in a history, one for each kind of anomaly.

facts.py         the facts about each record, transaction and commit. Start here
log.py           the log of a partition: lost, duplicate, misplaced, reordered records
reads.py         polls: skips, repetitions, stale reads
transactions.py  isolation and fencing
groups.py        ownership, committed offsets, generations
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from ..history import Operation
from . import groups, log, reads, transactions
from .facts import Anomaly, Facts

__all__ = ["CHECKS", "Anomaly", "Check", "Finding", "analyze"]

ANOMALIES_MAX: Final = 1_000
"""The maximum number of anomalies per check. A broken broker may violate a guarantee with almost
every operation."""


class Check(NamedTuple):
    """A kind of anomaly; its definition is the docstring of the function that finds it."""

    name: str
    find: Callable[[Facts], Iterator[Anomaly]]

    @property
    def definition(self) -> str:
        return " ".join((self.find.__doc__ or "").split())


class Finding(NamedTuple):
    """The anomalies that a check found; the first one is the smallest counter-example."""

    check: Check
    anomalies: tuple[Anomaly, ...]


CHECKS: Final = (
    Check("lost-topic", log.lost_topics),
    Check("lost-write", log.lost_writes),
    Check("unseen", log.unseen),
    Check("duplicate", log.duplicates),
    Check("inconsistent-offset", log.inconsistent_offsets),
    Check("misplaced", log.misplaced),
    Check("offset-gap", log.offset_gaps),
    Check("nonmonotonic-send", log.nonmonotonic_sends),
    Check("int-nonmonotonic-send", log.reordered_sends),
    Check("nonmonotonic-poll", reads.nonmonotonic_polls),
    Check("int-nonmonotonic-poll", reads.internal_nonmonotonic_polls),
    Check("poll-skip", reads.poll_skips),
    Check("int-poll-skip", reads.internal_poll_skips),
    Check("stale-read", reads.stale_reads),
    Check("vanished", reads.vanished),
    Check("out-of-range", reads.out_of_range),
    Check("G1a", transactions.aborted_reads),
    Check("precommitted-read", transactions.precommitted_reads),
    Check("G1c", transactions.write_read_cycles),
    Check("torn-transaction", transactions.torn_transactions),
    Check("fenced-producer", transactions.fenced_producers),
    Check("producer-epoch", transactions.producer_epochs),
    Check("two-owners", groups.two_owners),
    Check("fenced-commit", groups.fenced_commits),
    Check("failed-commit-visible", groups.visible_failed_commits),
    Check("lost-commit", groups.lost_commits),
    Check("commit-ahead", groups.commits_ahead),
    Check("consumed-twice", groups.consumed_twice),
    Check("generation", groups.generations),
)


def analyze(operations: Iterable[Operation]) -> list[Finding]:
    """Return a finding for each check that found an anomaly, in the order of CHECKS."""
    facts = Facts(operations)
    findings = []
    for check in CHECKS:
        anomalies = tuple(islice(check.find(facts), ANOMALIES_MAX))
        if anomalies:
            smallest = sorted(anomalies, key=_size)
            findings.append(Finding(check, tuple(smallest)))
    return findings


def _size(anomaly: Anomaly) -> tuple[int, int]:
    """Return a sort key. Anomalies with few operations, then those with operations close together,
    come first, because they are easier to follow."""
    events = [each.began for each in anomaly.operations]
    return len(events), max(events) - min(events)
