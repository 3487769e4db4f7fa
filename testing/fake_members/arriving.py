"""Until a new puppet has joined, as far as that is the broker's doing: what its script says next
would race with that. And what a test is told of one that may not join."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ..asked import Asked
from ..choreography import is_loading
from ..loop_thread import PATIENCE_SECONDS
from ..waiting import BarrierTimeout
from .asking import Refused
from .member import Member

if TYPE_CHECKING:
    from ..kafka import Kafka


class PuppetRefused(AssertionError):
    """A puppet may not join its group; the message has the broker's error and what the group is."""


def arrive(kafka: "Kafka", member: Member, timeout: float, *, may_be_refused: bool) -> None:
    """Let it live, and wait for its join. Raises PuppetRefused, BarrierTimeout, and what its
    assignor raised."""
    has_arrived = kafka.run(_arrived(kafka, member, timeout), timeout + PATIENCE_SECONDS)
    name, group = member.identity.client_id, kafka.group(member.identity.group_id)
    if not has_arrived:
        errors = member.asking.errors
        last = f" It was answered: {errors[-1].api} {errors[-1].error}." if errors else ""
        raise BarrierTimeout(
            f"puppet {name} was waited for {timeout:g} s to join {group.group_id}, in vain."
            f"{last}\n{group.story()}"
        )
    # Who was in a generation has joined, whatever came of it then: `wait_owned` tells that.
    failure = member.failure
    if failure is None or may_be_refused or member.generation >= 0:
        return
    if not isinstance(failure, Refused):
        raise failure
    why = kafka.ask(lambda _broker: _why(kafka, member, failure))
    raise PuppetRefused(
        f"puppet {name} may not join {group.group_id}: {failure}.{why} A test that is about that "
        f"says so: may_be_refused.\n{group.story()}"
    ) from failure


# --- on the broker's loop


async def _arrived(kafka: "Kafka", member: Member, seconds: float) -> bool:
    kafka.puppets.live(member)
    try:
        async with asyncio.timeout(seconds):
            while True:
                seen = kafka.changes.count
                # A request that is not answered then waits for others, for a time, or in the
                # hands of the test; and the other puppets of the group have noticed this one.
                await kafka.settled()
                if member.is_in_or_waits or _is_in_its_way(kafka, member):
                    return True
                await kafka.changes.until(partial(kafka.has_changed, seen), seconds)
    except TimeoutError:
        if member.generation >= 0:
            return True  # It has joined; the others find no rest.
        member.vanish()  # Nobody has it in hand.
        return False


def _is_in_its_way(kafka: "Kafka", member: Member) -> bool:
    """Whether it asks in vain because the test wants it so, until the test ends that: to wait for
    that would be to wait for oneself. (A fault that meets a few requests ends by itself.)"""
    if not member.asking.errors:
        return False  # It has not met anything yet.
    broker = kafka.broker
    if not broker.is_running or not broker.cluster.up:
        return True
    files = kafka.disk.files
    if files.is_stuck or any(fault.times is None for fault in files.faults):
        return True
    if is_loading(kafka.group(member.identity.group_id)):
        return True

    def is_its(asked: Asked) -> bool:
        identity = member.identity
        return asked.client_id == identity.client_id and identity.group_id in asked.groups

    endless = (fault for fault in kafka.faults.all if fault.times is None)
    return any(is_its(asked) for fault in endless for asked in reversed(fault.fired))


def _why(kafka: "Kafka", member: Member, refused: Refused) -> str:
    """What of the group is in the way of this member, in a sentence."""
    if refused.error is not ErrorCode.inconsistent_group_protocol:
        return ""
    group = kafka.group(member.identity.group_id).known
    if group is None or not group.members:
        return ""
    if group.protocol_type != member.role.protocol_type:
        return f" It is a {member.role.protocol_type}, and the group is of {group.protocol_type}s."
    offered = ", ".join(name for name, _ in member.role.protocols())
    everybody = len(group.members)
    common = [name for name, count in group.protocol_counts.items() if count == everybody]
    return (
        f" It offers {offered}, and all that the group's members have in common is "
        f"{', '.join(common)}: one of those has to be its assignor."
    )
