"""Endpoints of puppets: scripted members inside the broker, so that one real consumer is enough."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from ..assignors.resolve import AssignorNotFound, NotAnAssignor
from ..testing.fake_members.puppet import Puppet
from ..testing.waiting import TIMEOUT_SECONDS
from .control import Control, found
from .endpoint import Endpoint
from .fields import INT32_MAX, Count, Name, Offset, Partition, Timeout, Within
from .words import Json, of_puppet

# A group of Kafka's has group.max.size at most; beyond some thousand a round takes seconds here.
TOPICS_MAX: Final = 1000

Names = Annotated[list[str], Within(1, TOPICS_MAX)]
Generation = Annotated[int, Within(-1, INT32_MAX)]
Deed = Literal["slow", "quick", "silence", "speak", "die", "leave", "come_back", "close"]


def add_puppet(
    control: Control,
    group: Name,
    *,
    topics: Names,
    assignor: Name = "range",
    client_id: Name | None = None,
    instance_id: Name | None = None,
    session_timeout_ms: Count = 45_000,
    rebalance_timeout_ms: Count = 300_000,
    may_be_refused: bool = False,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Json:
    """A member with no process behind it: it leads if it is the leader, rejoins, keeps its session.

    When the answer comes, it has joined, or waits for other members, for the clock, for a hold or a
    fault. If it is refused, it is 409 with the broker's error, unless it `may_be_refused`.
    Its `assignor` is one of Kafka's names: range, roundrobin, sticky, cooperative-sticky."""
    try:
        puppet = control.kafka.puppet(
            group,
            topics,
            assignor=assignor,
            client_id=client_id,
            instance_id=instance_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            may_be_refused=may_be_refused,
            timeout=timeout,
        )
    except (AssignorNotFound, NotAnAssignor) as error:
        raise ValueError(str(error)) from error
    number = control.number()
    control.puppets[number] = puppet
    return of_puppet(number, puppet)


def puppet(control: Control, puppet: Count) -> Json:
    """What it believes: its generation, what it owns, the errors that it was answered."""
    return of_puppet(puppet, found(control.puppets, puppet, "puppet"))


def wait_puppet(
    control: Control,
    puppet: Count,
    *,
    partitions: Annotated[int, Within(0, INT32_MAX)] | None = None,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Json:
    """Until it owns so many partitions, or any."""
    there = found(control.puppets, puppet, "puppet")
    there.wait_owned(partitions, timeout)
    return of_puppet(puppet, there)


def script_puppet(control: Control, puppet: Count, *, deed: Deed) -> Json:
    """Let it deviate from what a client does.

    `slow` does not rejoin, `quick` ends that; `silence` sends nothing, `speak` ends that; `die`
    without leaving, `leave`, `come_back` as a new process, `close` as a consumer is closed."""
    there = found(control.puppets, puppet, "puppet")
    do: Callable[[], Any] = getattr(there, deed)
    do()
    return of_puppet(puppet, there)


def commit_puppet(
    control: Control,
    puppet: Count,
    *,
    topic: Name,
    partition: Partition,
    offset: Offset,
    generation: Generation | None = None,
    member_id: Name | None = None,
) -> Json:
    """Let it commit, as whom and in which generation it believes to be, or as said. Answers with
    the name of the error that it got, or null."""
    there: Puppet = found(control.puppets, puppet, "puppet")
    try:
        error = there.commit(topic, partition, offset, generation=generation, member_id=member_id)
    except RuntimeError as gone:
        raise ValueError(str(gone)) from gone
    return {"refused_with": error}


ENDPOINTS: Final = (
    Endpoint("POST", "/groups/{group}/puppets", add_puppet),
    Endpoint("GET", "/puppets/{puppet}", puppet),
    Endpoint("POST", "/puppets/{puppet}/wait", wait_puppet),
    Endpoint("POST", "/puppets/{puppet}/script", script_puppet),
    Endpoint("POST", "/puppets/{puppet}/commit", commit_puppet),
)
