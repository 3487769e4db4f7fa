"""DescribeUserScramCredentials (key 50, KIP-554). Always flexible.

Nobody has a password here (upstream: ScramImage.describe).
"""

from collections import Counter
from datetime import timedelta
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import NO_THROTTLE, RequestContext


class UserResponse(NamedTuple):
    user: str
    error_code: ErrorCode
    error_message: str | None
    credential_infos: tuple[()] = ()


class DescribeUserScramCredentialsResponse(NamedTuple):
    results: list[UserResponse]
    error_code: ErrorCode = ErrorCode.none
    # Kafka says nothing in an empty string here, not in null.
    error_message: str | None = ""
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    """Null and an empty list ask for all users, of whom there are none."""
    times = Counter(user.name for user in context.request.users or ())
    replies = [_refusal(name, times[name]) for name in times]
    context.respond(DescribeUserScramCredentialsResponse(replies))


def _refusal(name: str, times: int) -> UserResponse:
    if times > 1:
        complaint = "Cannot describe SCRAM credentials for the same user twice in a single request"
        return UserResponse(name, ErrorCode.duplicate_resource, f"{complaint}: {name}")
    complaint = "Attempt to describe a user credential that does not exist"
    return UserResponse(name, ErrorCode.resource_not_found, f"{complaint}: {name}")
