"""What is to be said of a group: the worst complaint first, as a paragraph, with its evidence and
what to do. docs/diagnosis.md lists the verdicts."""

from .complaints import COMPLAINTS
from .consumers import ConsumerGroup
from .findings import KNOWN, Complaint, Findings
from .rows import Diagnosis
from .slow import slow_consumer
from .words import span

__all__ = ["Findings", "diagnose"]


def diagnose(cluster: str, known: Findings) -> Diagnosis:
    """The row of a group. Nothing wrong: severity 0, HEALTHY; its lag not known: LAG_UNKNOWN."""
    complaints = [c for ask in (slow_consumer, *COMPLAINTS) if (c := ask(known)) is not None]
    complaints.sort(key=lambda complaint: -complaint.severity)
    worst = complaints[0] if complaints else _all_well(known)
    # What is only to be known is not worth a sentence beside what is wrong.
    besides = [c for c in complaints[1:] if c.severity > KNOWN or worst.severity == KNOWN]
    first = worst.text
    if known.group not in first:
        first = f"Group {known.group}: {first[0].lower()}{first[1:]}"
    sentences = [first, *(complaint.text for complaint in besides)]
    if known.consumer is not None:
        sentences.append(_not_told(known.consumer))
    text = " ".join(sentences)
    told = [worst, *besides]
    return Diagnosis(
        cluster=cluster,
        group=known.group,
        severity=worst.severity,
        verdict=worst.verdict,
        text=text,
        evidence=tuple(dict.fromkeys(line for complaint in told for line in complaint.evidence)),
        advice=tuple(dict.fromkeys(line for complaint in told for line in complaint.advice)),
        as_of=known.as_of_ms,
    )


def _not_told(group: ConsumerGroup) -> str:
    members = f"{group.members} member{'s' * (group.members != 1)}"
    return (
        f"It is a group of the consumer protocol (KIP-848), {group.state} with {members}: its "
        "rebalances are not told yet, nor who owns which partition."
    )


def _all_well(known: Findings) -> Complaint:
    status = known.status
    if status is None or status.total_lag is None:
        return Complaint(
            KNOWN,
            "LAG_UNKNOWN",
            f"Nothing is wrong with group {known.group} as far as its log tells; without samples "
            "of the topics' ends its lag is not known.",
        )
    members = f"{status.members} member{'s' * (status.members != 1)}"
    text = f"Group {known.group} reads well: {members}, lag {status.total_lag}"
    if status.max_lag_ms:
        text += f", {span(status.max_lag_ms)} behind at most"
    return Complaint(0, "HEALTHY", f"{text}.")
