"""ListTransactions (key 66, KIP-664). Always flexible.

v1 duration_filter (KIP-994) · v2 transactional_id_pattern (KIP-1152).
There are no transactions: the filters are validated, and nothing is found.
"""

from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..request import Message, RequestContext
from ..topic_metadata import regex_problem

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


def handle(context: RequestContext, node: Node) -> None:  # noqa: ARG001
    request = context.request
    error, unknown = ErrorCode.none, {}
    if regex_problem(getattr(request, "transactional_id_pattern", None) or "") is None:
        unknown = dict.fromkeys(each for each in request.state_filters if each not in STATES)
    else:
        error = ErrorCode.invalid_regular_expression
    context.respond(
        Message(error_code=error, unknown_state_filters=tuple(unknown), transaction_states=())
    )
