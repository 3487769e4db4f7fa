"""Endpoints of faults: what a test does to requests on their way, and that it must happen."""

from typing import Any, Final, Literal

from ..testing.waiting import TIMEOUT_SECONDS
from .control import Control, found
from .endpoint import Endpoint
from .fields import Count, Milliseconds, Name, Node, Partition, Seconds, Seed, Timeout
from .words import Json, of_fault

Deed = Literal[
    "answer",
    "delay",
    "delay_answer",
    "never_answer",
    "drop",
    "lose_answer",
    "apply_late",
    "close_mid_frame",
    "trickle",
    "corrupt",
]
_TIMED: Final = ("delay", "delay_answer", "apply_late")


def set_fault(
    control: Control,
    *,
    deed: Deed,
    api: Name,
    error: Name | None = None,
    seconds: Seconds = 0,
    ms: Milliseconds = 0,
    group: Name | None = None,
    member: Name | None = None,
    instance_id: Name | None = None,
    client_id: Name | None = None,
    topic: Name | None = None,
    partition: Partition | None = None,
    node: Node | None = None,
    nth: Count = 1,
    times: Count | None = 1,
    probability: float | None = None,
    seed: Seed = 0,
) -> Json:
    """Do something to requests of one API, by Kafka's names: `{"deed": "answer", "api":
    "OffsetCommit", "error": "NOT_COORDINATOR"}`.

    `deed`: `answer` with an `error`; `delay` by `seconds` or `ms` before it is handled, or
    `delay_answer` after; `never_answer`; `drop` the connection before anything is done,
    `lose_answer` after it is done, `apply_late` (now, and do it so much later); `close_mid_frame`;
    `trickle` it in pieces of one byte; `corrupt` it. Whom it is for: `group`, `member` (a member
    id, or the client id it begins with), `instance_id`, `client_id`, `topic`, `partition`, `node`.
    When: from the `nth` that fits on, so many `times` (null: always), with a `probability` drawn by
    `seed`. One that does not fire fails the check."""
    how: dict[str, Any] = {
        "group": group,
        "member": member,
        "instance_id": instance_id,
        "client_id": client_id,
        "topic": topic,
        "partition": partition,
        "node": node,
        "nth": nth,
        "times": times,
        "probability": probability,
        "seed": seed,
    }
    how |= _with_what(deed, error, seconds, ms)
    fault = getattr(control.kafka.faults, deed)(api, **how)
    number = control.number()
    control.faults[number] = fault
    return of_fault(number, fault)


def faults(control: Control) -> Json:
    """All faults that are set."""
    return {"faults": [of_fault(number, each) for number, each in list(control.faults.items())]}


def fault(control: Control, fault: Count) -> Json:
    """What it does, and the numbers of the requests that it has met."""
    return of_fault(fault, found(control.faults, fault, "fault"))


def wait_fault(
    control: Control, fault: Count, *, times: Count = 1, timeout: Timeout = TIMEOUT_SECONDS
) -> Json:
    """Until it has fired so often. In vain, it is 408 with what nearly fitted."""
    there = found(control.faults, fault, "fault")
    there.wait(times, timeout)
    return of_fault(fault, there)


def cancel_fault(control: Control, fault: Count) -> Json:
    """Let it do nothing from now on, and not fail the check."""
    there = found(control.faults, fault, "fault")
    there.cancel()
    control.faults.pop(fault, None)
    return of_fault(fault, there)


def check_faults(control: Control) -> Json:
    """At the end of a test: has every fault fired as often as it was to? If not, it is 409 with
    what nearly fitted. All are forgotten, as the harness does it."""
    told = faults(control)
    control.faults = {}
    control.kafka.faults.check()
    return told


def _with_what(deed: Deed, error: str | None, seconds: float, ms: int) -> dict[str, Any]:
    """What only some deeds take."""
    if error is None and deed == "answer":
        raise ValueError("say which error to answer with")
    if error is not None and deed != "answer":
        raise ValueError(f"{deed} takes no error")
    if (seconds or ms) and deed not in _TIMED:
        raise ValueError(f"{deed} takes no seconds and no ms")
    timed = {"seconds": seconds, "ms": ms} if deed in _TIMED else {}
    return timed if error is None else {"error": error}


ENDPOINTS: Final = (
    Endpoint("POST", "/faults", set_fault),
    Endpoint("GET", "/faults", faults),
    Endpoint("POST", "/faults/check", check_faults),
    Endpoint("GET", "/faults/{fault}", fault),
    Endpoint("POST", "/faults/{fault}/wait", wait_fault),
    Endpoint("DELETE", "/faults/{fault}", cancel_fault),
)
