"""DescribeUserScramCredentials (key 50, KIP-554). Always flexible.

There are no users with credentials (upstream: ScramImage.describe).
"""

from collections import Counter
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import RequestContext


class UserResponse(NamedTuple):
    user: str
    error_code: ErrorCode
    error_message: str | None
    credential_infos: tuple[()] = ()


class DescribeUserScramCredentialsResponse(NamedTuple):
    results: list[UserResponse]
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = ""  # not null, as from Kafka


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    """Null and an empty list both request all users, of whom there are none."""
    counts = Counter(user.name for user in context.request.users or ())
    responses = [_response(name, count) for name, count in counts.items()]
    context.respond(DescribeUserScramCredentialsResponse(responses))


def _response(name: str, count: int) -> UserResponse:
    if count > 1:
        message = "Cannot describe SCRAM credentials for the same user twice in a single request"
        return UserResponse(name, ErrorCode.duplicate_resource, f"{message}: {name}")
    message = "Attempt to describe a user credential that does not exist"
    return UserResponse(name, ErrorCode.resource_not_found, f"{message}: {name}")
