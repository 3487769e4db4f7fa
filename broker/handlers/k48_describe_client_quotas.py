"""DescribeClientQuotas (key 48, KIP-546). v1 flexible.

Nobody has a quota here, so the answer to every question that makes sense is empty; one that makes
none is refused in Kafka's words (upstream: DescribeClientQuotasRequest, ClientQuotasImage).
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.errors import Refused
from ..node import Node
from ..request import NO_THROTTLE, RequestContext

EXACT, DEFAULT, ANY = 0, 1, 2
USER, CLIENT_ID, IP = "user", "client-id", "ip"


class DescribeClientQuotasResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.none
    # Kafka says nothing in an empty string here, not in null.
    error_message: str | None = ""
    entries: tuple[()] | None = ()
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    try:
        _check(context.request.components)
    except Refused as refused:
        context.respond(DescribeClientQuotasResponse(refused.error, refused.message, None))
    else:
        context.respond(DescribeClientQuotasResponse())


def _check(components: Sequence[Any]) -> None:
    seen: set[str] = set()
    for each in components:
        kind = each.entity_type
        if not kind:
            raise Refused(ErrorCode.invalid_request, "Invalid empty entity type.")
        if kind in seen:
            raise Refused(
                ErrorCode.invalid_request,
                f"Entity type {kind} cannot appear more than once in the filter.",
            )
        if kind not in (USER, CLIENT_ID, IP):
            raise Refused(ErrorCode.unsupported_version, f"Unsupported entity type {kind}")
        if complaint := _mismatch(each.match_type, each.match):
            raise Refused(ErrorCode.invalid_request, complaint)
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        raise Refused(
            ErrorCode.invalid_request,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )


def _mismatch(match_type: int, match: str | None) -> str | None:
    if match_type == EXACT and match is None:
        return "Request specified MATCH_TYPE_EXACT, but set match string to null."
    if match_type == DEFAULT and match is not None:
        return "Request specified MATCH_TYPE_DEFAULT, but also specified a match string."
    if match_type == ANY and match is not None:
        return "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."
    if match_type not in (EXACT, DEFAULT, ANY):
        return f"Unknown match type {match_type}"
    return None
