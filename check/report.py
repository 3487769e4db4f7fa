"""The result of a run, as text and as JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .analysis import CHECKS, Finding
from .history import (
    Assigned,
    Commit,
    EndTransaction,
    Event,
    Joined,
    Operation,
    Poll,
    ReadCommitted,
    Send,
)
from .recorder import History

ACKNOWLEDGED_MIN: Final = 10
"""Fewer acknowledged batches, or fewer records read before the final reads, show nothing."""

_COUNTED: Final[Mapping[str, type[Operation]]] = {
    "batches": Send,
    "transactions": EndTransaction,
    "commits": Commit,
    "joins": Joined,
}


@dataclass(frozen=True, slots=True)
class Report:
    """`target`: what was checked, in words."""

    target: str
    seed: int
    seconds: float
    topic: str
    history: History
    findings: Sequence[Finding]

    @property
    def is_meaningful(self) -> bool:
        acknowledged = sum(type(each) is Send and each.is_ok for each in self.history)
        read = sum(type(each) is Poll and each.mode != "final" for each in self.history)
        return min(acknowledged, read) >= ACKNOWLEDGED_MIN

    def statistics(self) -> dict[str, Any]:
        """Return counts of operations by outcome, and of what the nemesis did."""
        found: dict[str, Any] = {}
        for name, kind in _COUNTED.items():
            counts = Counter(each.outcome for each in self.history if type(each) is kind)
            found[name] = {outcome: counts[outcome] for outcome in ("ok", "fail", "info")}
        polls = [each for each in self.history if type(each) is Poll]
        found["polls"] = len(polls)
        found["records_read"] = sum(len(each.offsets) for each in polls)
        found["assignments"] = sum(type(each) is Assigned for each in self.history)
        found["offset_reads"] = sum(type(each) is ReadCommitted for each in self.history)
        events = [each for each in self.history if type(each) is Event]
        found["crashed_clients"] = sum(each.what == "crashed" for each in events)
        found["nemesis"] = [each.what for each in events if each.client == "nemesis"]
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": "anomalies" if self.findings else "ok",
            "target": self.target,
            "seed": self.seed,
            "seconds": self.seconds,
            "topic": self.topic,
            "operations": len(self.history.operations),
            "statistics": self.statistics(),
            "findings": [_finding(each) for each in self.findings],
        }

    def to_text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        facts = self.statistics()
        operations = len(self.history.operations)
        yield f"{self.target}: {operations} operations in {self.seconds:g} s, seed {self.seed}"
        for name in _COUNTED:
            ok, failed, unknown = facts[name].values()
            yield f"  {name + ':':14}{ok} succeeded, {failed} were rejected, {unknown} unknown"
        yield f"  {'polls:':14}{facts['polls']}, with {facts['records_read']} records"
        yield f"  {'assignments:':14}{facts['assignments']}"
        yield f"  {'crashes:':14}{facts['crashed_clients']} clients"
        if facts["nemesis"]:
            yield f"  {'nemesis:':14}{len(facts['nemesis'])} times"
        for finding in self.findings:
            yield ""
            yield from _text(finding)
        yield ""
        if not self.findings:
            yield f"No anomaly: none of {len(CHECKS)} checks found anything."
            return
        names = ", ".join(each.check.name for each in self.findings)
        yield f"ANOMALIES: {names}. The topic {self.topic} is kept."


def _text(finding: Finding) -> Iterator[str]:
    example, *others = finding.anomalies
    yield f"{finding.check.name}: {finding.check.definition}"
    yield f"  {example.what}."
    for each in sorted(example.operations, key=lambda each: each.began):
        yield f"    {each}"
    if others:
        yield f"  And {len(others)} more."


def _finding(finding: Finding) -> dict[str, Any]:
    example = finding.anomalies[0]
    return {
        "check": finding.check.name,
        "definition": finding.check.definition,
        "count": len(finding.anomalies),
        "counter_example": {
            "what": example.what,
            "operations": [
                {"text": each.describe(), **each.to_json()}
                for each in sorted(example.operations, key=lambda each: each.began)
            ],
        },
    }
