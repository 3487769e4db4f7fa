"""Why does a member join again? What the client says, and what the coordinator can see itself."""

from ..offsets.causes import Cause
from ..protocol.consumer_protocol import Subscription, decode_subscription
from ..protocol.errors import DecodeError
from .commands import JoinGroup
from .group import Group
from .members import Member
from .subscriptions import CONSUMER


def reason_of(command: JoinGroup) -> str:
    """The client's own reason (KIP-800), as Kafka puts it into its sentences."""
    return command.reason or "not provided"


def cause_of_rejoin(group: Group, member: Member, command: JoinGroup) -> Cause:
    """What a member has changed that joins again with other protocols than before."""
    before, after = dict(member.protocols), dict(command.protocols)
    name = group.protocol_name
    if name is None or name not in before or name not in after:
        return Cause.PROTOCOL_CHANGED
    was, now = _subscription(group, before[name]), _subscription(group, after[name])
    if was is None or now is None:
        return Cause.METADATA_CHANGED
    if set(was.topics) != set(now.topics):
        return Cause.SUBSCRIPTION_CHANGED
    if _owned(was) - _owned(now):
        # It tells what it still owns once it has given up what another is to have (KIP-429).
        return Cause.COOPERATIVE_FOLLOWUP
    # What else a subscription says changes by itself: it has the generation in it, and what its
    # member was given meanwhile. (Followers that ask anew are to Kafka a change of metadata.)
    return Cause.LEADER_REJOINED if member.member_id == group.leader else Cause.METADATA_CHANGED


def _owned(subscription: Subscription) -> set[tuple[str, int]]:
    return {(topic, index) for topic, indexes in subscription.owned_partitions for index in indexes}


def _subscription(group: Group, metadata: bytes) -> Subscription | None:
    """None: it is no consumer's, or cannot be read."""
    if group.protocol_type != CONSUMER:
        return None
    try:
        return decode_subscription(metadata)
    except DecodeError:
        return None
