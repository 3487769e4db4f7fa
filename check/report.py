"""The result of a run, as text and as JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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
"""With fewer acknowledged batches, or fewer polls before the final reads, there is no verdict."""

_COUNTED: Final[Mapping[str, type[Operation]]] = {
    "batches": Send,
    "transactions": EndTransaction,
    "commits": Commit,
    "joins": Joined,
}

_NEEDED: Final[Mapping[str, tuple[type[Operation], int]]] = {
    "batches": (Send, ACKNOWLEDGED_MIN),
    "polls": (Poll, ACKNOWLEDGED_MIN),
    "joins of the classic group": (Joined, 1),
    "commits of offsets": (Commit, 1),
}

# This error is part of every first join (KIP-394), so it says nothing about the broker.
_EXPECTED_ERROR: Final = "MEMBER_ID_REQUIRED"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a run. `target`: a description of the broker. `failure`: why the run is not
    complete, if it is not. `output`: the file with the output of the command that started the
    broker. `seconds_wanted`: how long the run would have lasted without an interrupt."""

    target: str
    seed: int
    seconds: float
    history: History
    findings: Sequence[Finding]
    failure: str = ""
    output: Path | None = None
    seconds_wanted: float = 0

    @property
    def problem(self) -> str:
        """Why a run without findings has no verdict: it is not complete, or a kind of operation
        succeeded too rarely. Empty if there is no such reason."""
        if self.failure:
            return self.failure
        succeeded = Counter(type(each) for each in self.history if _is_work(each))
        for name, (kind, least) in _NEEDED.items():
            if succeeded[kind] < least:
                return self._too_little(name, kind, succeeded[kind], least)
        return ""

    def _too_little(self, name: str, kind: type[Operation], succeeded: int, least: int) -> str:
        """Return a message saying that an operation succeeded too rarely. A longer run is
        recommended only if the broker rejected nothing."""
        errors = Counter(
            each.error for each in self.history if type(each) is kind and each.outcome == "fail"
        )
        del errors[_EXPECTED_ERROR]
        if errors:
            ((error, times),) = errors.most_common(1)
            return f"{succeeded} {name} succeeded; {times} failed with {error}"
        return (
            f"{succeeded} {name} succeeded within {self.seconds:g} s; at least {least} "
            f"{'is' if least == 1 else 'are'} needed: pass a larger --seconds"
        )

    @property
    def is_ok(self) -> bool:
        return not self.findings and not self.problem

    def statistics(self) -> dict[str, Any]:
        """Return the number of operations by outcome, and what the nemesis did."""
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
            "verdict": "anomalies" if self.findings else "unknown" if self.problem else "ok",
            "problem": self.problem,
            "target": self.target,
            "seed": self.seed,
            "seconds": self.seconds,
            "interrupted": self.history.is_interrupted,
            "topic": self.history.topic,
            "output": None if self.output is None else str(self.output),
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
        if self.history.is_interrupted:
            yield f"  interrupted after {self.seconds:.0f} of {self.seconds_wanted:g} s"
        for name in _COUNTED:
            ok, failed, unknown = facts[name].values()
            rejected = f"{failed} {'was' if failed == 1 else 'were'} rejected"
            yield f"  {name + ':':14}{ok} succeeded, {rejected}, {unknown} unknown"
        yield f"  {'polls:':14}{facts['polls']}, with {facts['records_read']} records"
        yield f"  {'assignments:':14}{facts['assignments']}"
        yield f"  {'crashes:':14}{facts['crashed_clients']} clients"
        times = Counter(each.nemesis for each in self.history if type(each) is Event)
        if disturbed := [f"{name} {times[name]}" for name in sorted(times) if name]:
            yield f"  {'nemesis:':14}{', '.join(disturbed)}"
        if self.output is not None:
            yield f"  {'output:':14}{self.output}"
        for finding in self.findings:
            yield ""
            yield from _text(finding)
        yield ""
        if self.is_ok:
            yield f"No anomalies: none of the {len(CHECKS)} checks found anything."
        elif not self.findings:
            yield "No verdict."  # the command prints the reason to standard error
        else:
            if self.problem:
                yield f"No verdict on the whole run: {self.problem}."
            names = ", ".join(each.check.name for each in self.findings)
            yield f"ANOMALIES: {names}. The topic {self.history.topic} is kept."


def _is_work(operation: Operation) -> bool:
    return operation.is_ok and not (type(operation) is Poll and operation.mode == "final")


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
