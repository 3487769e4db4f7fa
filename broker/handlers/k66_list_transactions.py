"""ListTransactions (key 66, KIP-664). Always flexible.

v1 duration_filter (KIP-994) · v2 transactional_id_pattern (KIP-1152).
There are no transactions: the filters are validated, and nothing is found.
"""

import re

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import Message, RequestContext

# Upstream: TransactionState.
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
# Longer patterns are not validated: compiling the worst one takes 10 ms per 1,000 characters, and
# Python caches the last 512 patterns.
PATTERN_LENGTH_MAX = 1_000


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    request = context.request
    error, unknown = ErrorCode.none, {}
    if _is_valid_pattern(getattr(request, "transactional_id_pattern", None) or ""):
        unknown = dict.fromkeys(each for each in request.state_filters if each not in STATES)
    else:
        error = ErrorCode.invalid_regular_expression
    context.respond(
        Message(error_code=error, unknown_state_filters=tuple(unknown), transaction_states=())
    )


def _is_valid_pattern(pattern: str) -> bool:
    if len(pattern) > PATTERN_LENGTH_MAX:
        return True
    try:
        # As bytes, because a character class then has at most 256 elements. For `[\0-\uffff]`,
        # Python would examine each character (8 ms).
        re.compile(pattern.encode())
    except (re.error, OverflowError):  # OverflowError: a repeat count too large
        return False
    except (RecursionError, Warning):
        # Too deeply nested for Python, or a FutureWarning raised as error: both are valid in RE2/J.
        return True
    return True
