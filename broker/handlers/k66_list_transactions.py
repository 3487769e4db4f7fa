"""ListTransactions (key 66, KIP-664): the transactions that this node coordinates. Always flexible.

v1 duration_filter (KIP-994) · v2 transactional_id_pattern (KIP-1152).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...coordinator.transactions.states import Transaction, TransactionState
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation, AclResourceType
from ...topics.configs.regexes import compile_regex
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from ..topic_metadata import regex_problem
from .authorization import allows

# Upstream: TransactionState.
STATES = tuple(state.text for state in TransactionState)
NO_DURATION = -1
# Number of transactions in one step, which takes about 1 ms.
PER_STEP = 200


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    transaction_state: str


class Filters(NamedTuple):
    """Empty fields and a negative `duration_ms` do not filter."""

    states: frozenset[str]
    producer_ids: frozenset[int]
    duration_ms: int


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    pattern = getattr(request, "transactional_id_pattern", None) or ""
    if regex_problem(pattern) is not None:
        _respond(context, ErrorCode.invalid_regular_expression)
        return
    unknown = tuple(dict.fromkeys(s for s in request.state_filters if s not in STATES))
    found = node.transactions.list()
    if isinstance(found, ErrorCode):
        _respond(context, found, unknown)
        return
    filters = Filters(
        frozenset(request.state_filters),
        frozenset(request.producer_id_filters),
        getattr(request, "duration_filter", NO_DURATION),
    )
    matches = compile_regex(pattern).fullmatch if pattern else lambda _id: True
    listed = []
    for count, each in enumerate(found):
        if count % PER_STEP == PER_STEP - 1:
            yield
        name = each.transactional_id
        type_, operation = AclResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE
        if (
            _is_selected(filters, each, node.clock.now_ms())
            and matches(name)
            and allows(context, node, operation, type_, name, reports=False)
        ):
            listed.append(ListedTransaction(name, each.metadata.producer_id, each.state.text))
    _respond(context, ErrorCode.none, unknown, listed)


def _is_selected(filters: Filters, transaction: Transaction, now_ms: int) -> bool:
    states, producer_ids, duration_ms = filters
    metadata = transaction.metadata
    # Unknown states select nothing.
    if states and transaction.state.text not in states:
        return False
    if producer_ids and metadata.producer_id not in producer_ids:
        return False
    # As in Kafka, this includes transactions that have not begun, whose start time is -1.
    return duration_ms < 0 or now_ms - metadata.start_ms > duration_ms


def _respond(
    context: RequestContext, error: ErrorCode, unknown: Any = (), listed: Any = ()
) -> None:
    context.respond(
        Message(error_code=error, unknown_state_filters=unknown, transaction_states=listed)
    )
