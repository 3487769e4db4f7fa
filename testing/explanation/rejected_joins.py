"""Explains why clients could not join a group, from the last attempt of each client."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from ...broker.config.broker_config import BrokerConfig
from ...protocol.apis import NEWEST, PROFILES
from ..lifecycle import BrokerHost
from ..recorded_request import RecordedRequest

_CONSUMER_GROUP_HEARTBEAT: Final = 68


def rejected_joins(host: BrokerHost, requests: Sequence[RecordedRequest]) -> Iterator[str]:
    """Yield a sentence for each client whose last attempt to join, or to change its subscription,
    was rejected. Omits faults, and errors after which clients retry on their own. Runs on the
    broker's loop."""
    last: dict[tuple[str | None, int], RecordedRequest] = {}
    for request in requests:
        if _is_attempt(request):
            last[request.group, request.connection] = request
    attempts = last.values()
    for request in attempts:
        remedy = next((_REMEDIES[each] for each in request.errors if each in _REMEDIES), None)
        if remedy is None or request.faults:
            continue
        if not _has_joined_since(request, attempts, host.interception.open_connections):
            yield _sentence(request, remedy(request, host.config))


def profile_problem(config: BrokerConfig) -> str:
    """Return why clients of the consumer protocol may be unable to join with the broker's profile;
    "" with the newest profile."""
    profile, key = config.str("kohort.profile"), _CONSUMER_GROUP_HEARTBEAT
    served, newest = PROFILES[profile].get(key), PROFILES[NEWEST][key]
    if served == newest:
        return ""
    lacks = f"supports only v{served.max_version}" if served else "does not support it"
    return (
        f"With group.protocol=consumer, a client needs {newest.name} (librdkafka: "
        f"v{newest.max_version}). Profile {profile} {lacks}. Use profile {NEWEST}, or set "
        "group.protocol of the client to classic."
    )


def _is_attempt(request: RecordedRequest) -> bool:
    """Whether the request is an attempt to join or to change a subscription. (A heartbeat with a
    negative epoch leaves the group.)"""
    if request.api == "ConsumerGroupHeartbeat":
        return (request.generation or 0) >= 0
    return request.api == "JoinGroup"


def _has_joined_since(
    rejected: RecordedRequest,
    attempts: Collection[RecordedRequest],
    open_connections: Collection[int],
) -> bool:
    """Whether the client has reconnected and joined. If the connection of the rejected request is
    still open, a later join came from another client with the same client id."""
    return rejected.connection not in open_connections and any(
        each.number > rejected.number
        and (each.group, each.client_id) == (rejected.group, rejected.client_id)
        and each.response_frame is not None
        and not each.errors
        for each in attempts
    )


def _sentence(request: RecordedRequest, remedy: str) -> str:
    message = getattr(request.response, "error_message", None) or ""
    text = (
        f"Client {request.client_id} was rejected by group {request.group} "
        f"({request.api}: {', '.join(request.errors)})"
    )
    return f"{text}{f': {message}' if message else '.'} {remedy}".strip()


# --- what to do, by error


def _unsupported_version(_: RecordedRequest, config: BrokerConfig) -> str:
    protocols = ",".join(config.list("group.coordinator.rebalance.protocols"))
    return (
        f"group.coordinator.rebalance.protocols is {protocols}: add consumer, or set "
        "group.protocol of the client to classic."
    )


def _cannot_upgrade(_: RecordedRequest, config: BrokerConfig) -> str:
    policy = config.str("group.consumer.migration.policy").lower()
    if policy in ("upgrade", "bidirectional"):
        return ""
    return (
        f"group.consumer.migration.policy is {policy}: set it to bidirectional, or close the "
        "classic members first."
    )


def _full(request: RecordedRequest, config: BrokerConfig) -> str:
    is_classic = request.api == "JoinGroup"
    key = "group.max.size" if is_classic else "group.consumer.max.size"
    return f"Close another member, or increase {key} ({config.int(key)})."


def _inconsistent(request: RecordedRequest, _: BrokerConfig) -> str:
    protocols = ", ".join(each.name for each in request.message.protocols)
    return (
        f"Its protocol type is {request.message.protocol_type or 'empty'} and its assignors are "
        f"{protocols or 'none'} (partition.assignment.strategy). All members need the same type "
        "and one assignor in common."
    )


def _session_timeout(request: RecordedRequest, config: BrokerConfig) -> str:
    low, high = (config.int(f"group.{each}.session.timeout.ms") for each in ("min", "max"))
    ms = int(request.message.session_timeout.total_seconds() * 1000)
    return (
        f"Its session.timeout.ms is {ms}, but must be between group.min.session.timeout.ms ({low}) "
        f"and group.max.session.timeout.ms ({high})."
    )


def _remedy(text: str) -> Callable[[RecordedRequest, BrokerConfig], str]:
    return lambda _request, _config: text


_REMEDIES: Final = {
    "INVALID_REGULAR_EXPRESSION": _remedy(
        "The broker uses the syntax of RE2, which has no backreferences and no lookaround."
    ),
    "UNSUPPORTED_ASSIGNOR": _remedy("Change or remove group.remote.assignor of the client."),
    "UNSUPPORTED_VERSION": _unsupported_version,
    "GROUP_ID_NOT_FOUND": _cannot_upgrade,
    "GROUP_MAX_SIZE_REACHED": _full,
    "INCONSISTENT_GROUP_PROTOCOL": _inconsistent,
    "INVALID_SESSION_TIMEOUT": _session_timeout,
    "UNRELEASED_INSTANCE_ID": _remedy(
        "Use another group.instance.id, or close the other member; group.expire(…) ends the "
        "session of a crashed member."
    ),
    "INVALID_GROUP_ID": _remedy("Set group.id of the client."),
    "INVALID_REQUEST": _remedy(""),
}
"""The remedy for each error, printed after the message of the response. BrokerHost.denials explains
denied operations."""
