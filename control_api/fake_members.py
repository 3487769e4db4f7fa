"""The endpoint functions for fake members: scripted members, so that a test needs only one real
consumer."""

from typing import Literal

from ..assignors.resolve import AssignorNameTaken, AssignorNotFound, NotAnAssignor, resolve
from ..testing.fake_members.fake_member import GroupProtocol
from ..testing.loop_thread import TIMEOUT_SECONDS
from .control import Control, lookup
from .endpoint import Count, Generation, Index, Name, Names, Offset, Timeout
from .serializers import Json, fake_member_json

Action = Literal[
    "stop_polling", "resume_polling", "suspend", "resume", "kill", "leave", "restart", "close"
]


def add_fake_member(
    control: Control,
    group: Name,
    *,
    topics: Names,
    protocol: GroupProtocol = "classic",
    assignor: Name | None = None,
    client_id: Name | None = None,
    instance_id: Name | None = None,
    session_timeout_ms: Count = 45_000,
    rebalance_timeout_ms: Count = 300_000,
    may_be_rejected: bool = False,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Json:
    """Add a member that needs no client process. The member rejoins, keeps its session alive, and
    computes the assignment if it is the leader. The response is sent when the member has joined, or
    when its JoinGroup waits for other members, the clock, a hold or a fault. If it cannot join, the
    status is 409 with the broker's error, unless `may_be_rejected` is true."""
    if protocol == "classic" and assignor is not None:
        _check_assignor(assignor)
    member = control.kafka.fake_member(
        group,
        topics,
        protocol=protocol,
        assignor=assignor,
        client_id=client_id,
        instance_id=instance_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        may_be_rejected=may_be_rejected,
        timeout=timeout,
    )
    return fake_member_json(control.add(control.fake_members, member), member)


def _check_assignor(name: str) -> None:
    """Raise ValueError if there is no such assignor, or if its module cannot be imported."""
    try:
        resolve(name)
    except (AssignorNotFound, AssignorNameTaken, NotAnAssignor) as error:
        raise ValueError(str(error)) from error
    except (Exception, SystemExit) as error:  # raised by the user's module
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{name} cannot be imported: {reason}") from error


def fake_member(control: Control, fake_member: Count) -> Json:
    """Return the member's generation, the partitions that it believes it owns, and the errors that
    it received."""
    return fake_member_json(fake_member, lookup(control.fake_members, fake_member, "fake member"))


def wait_fake_member(
    control: Control,
    fake_member: Count,
    *,
    partitions: Index | None = None,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Json:
    """Wait until the member owns this number of partitions (null: at least one)."""
    found = lookup(control.fake_members, fake_member, "fake member")
    found.wait_owned(partitions, timeout)
    return fake_member_json(fake_member, found)


def script_fake_member(control: Control, fake_member: Count, *, action: Action) -> Json:
    """Make the member perform an action, such as `suspend`, `kill` or `leave`."""
    found = lookup(control.fake_members, fake_member, "fake member")
    getattr(found, action)()
    return fake_member_json(fake_member, found)


def commit_fake_member(
    control: Control,
    fake_member: Count,
    *,
    topic: Name,
    partition: Index,
    offset: Offset,
    generation: Generation | None = None,
    member_id: Name | None = None,
) -> Json:
    """Commit an offset, by default with the member's own generation and member id. Returns the name
    of the error, or null."""
    found = lookup(control.fake_members, fake_member, "fake member")
    try:
        error = found.commit(topic, partition, offset, generation=generation, member_id=member_id)
    except RuntimeError as ended:
        raise ValueError(str(ended)) from ended
    return {"rejected_with": error}
