"""The endpoint functions for transactions: state, waits, and control."""

from functools import partial

from ..testing.loop_thread import TIMEOUT_SECONDS
from ..testing.transactions import Until
from .control import Control, active
from .endpoint import Name, Timeout
from .serializers import Json, with_partitions


def transactions(control: Control) -> Json:
    """Return the current or last transaction of each transactional id, sorted by id."""
    return {"transactions": [with_partitions(each) for each in control.kafka.transactions.all]}


def transaction(control: Control, transactional_id: Name) -> Json:
    """Return the state, producer, partitions, age and timeout of an id's current or last
    transaction, and an explanation of what it is waiting for."""
    found = control.kafka.transactions.describe(transactional_id)
    explanation = control.kafka.transactions.explain(transactional_id)
    return {**with_partitions(found), "explanation": explanation}


def wait_transaction(
    control: Control, transactional_id: Name, *, until: Until, timeout: Timeout = TIMEOUT_SECONDS
) -> Json:
    """Wait until the transaction is in the state `until`, or was in it at any time since the wait
    began. After the timeout, the status is 408, with an explanation."""
    found = control.kafka.transactions.wait(transactional_id, until, timeout)
    return with_partitions(found)


def abort_transaction(control: Control, transactional_id: Name) -> Json:
    """Abort an open transaction and fence its producer, as if it had timed out."""
    control.kafka.transactions.abort(transactional_id)
    return with_partitions(control.kafka.transactions.describe(transactional_id))


def expire_transactional_id(control: Control, transactional_id: Name) -> Json:
    """Expire the id, as if `transactional.id.expiration.ms` had passed without a transaction.
    Requests of its producer then fail with INVALID_PRODUCER_ID_MAPPING."""
    control.kafka.transactions.expire(transactional_id)
    return {"transactional_id": transactional_id}


def hold_markers(control: Control, transactional_id: Name) -> Json:
    """Hold back the markers of the transaction until `release-markers` (DELETE). Once the
    transaction is decided, its producer gets the response, but read_committed consumers wait. The
    hold is checked like a fault, so the check fails if no markers were held back."""
    taken = f"the markers of {transactional_id} are already held"
    hold = partial(control.kafka.transactions.hold_markers, transactional_id)
    control.add_named(control.marker_holds, transactional_id, hold, taken)
    return {"transactional_id": transactional_id}


def wait_markers(
    control: Control, transactional_id: Name, *, timeout: Timeout = TIMEOUT_SECONDS
) -> Json:
    """Wait until the markers of the transaction are held back. After the timeout, the status is
    408, with an explanation."""
    missing = f"the markers of {transactional_id} are not held"
    active(control.marker_holds.get(transactional_id), missing).wait(timeout=timeout)
    return with_partitions(control.kafka.transactions.describe(transactional_id))


def release_markers(control: Control, transactional_id: Name) -> Json:
    """Write the markers that are held back, and end the hold. If it has not held back any markers,
    the status is 409."""
    missing = f"the markers of {transactional_id} are not held"
    active(control.marker_holds.pop(transactional_id, None), missing).release()
    return {"transactional_id": transactional_id}


def transaction_changes(control: Control, transactional_id: Name) -> Json:
    """Return all decisions about an id's transactions, with their causes."""
    changes = control.kafka.history.transaction_changes(transactional_id)
    return {"changes": [with_partitions(each) for each in changes]}
