"""Transactions that a test can inspect, wait for and control: `kafka.transactions`."""

from collections.abc import Callable
from typing import Final, Literal, Self

from ..coordinator.transactions.commands import Markers, TransactionOutcome
from ..coordinator.transactions.coordinator import TransactionCoordinator
from ..coordinator.transactions.states import COMPLETE_ABORT, COMPLETE_COMMIT, EMPTY, ONGOING
from ..suggestions import SuggestsAttributes, did_you_mean
from .explanation.transactions import explain_transaction
from .faults.faults import UnusedFault
from .lifecycle import BrokerHost
from .loop_thread import TIMEOUT_SECONDS, timed_out
from .transaction_view import Transaction, transaction_node, transactions_of

Until = Literal["open", "committed", "aborted"]

_STATES: Final[dict[Until, str]] = {
    "open": ONGOING.text,
    "committed": COMPLETE_COMMIT.text,
    "aborted": COMPLETE_ABORT.text,
}
_IDLE: Final = (EMPTY.text, COMPLETE_COMMIT.text, COMPLETE_ABORT.text)


class MarkerHold(SuggestsAttributes):
    """Holds back transaction markers until `release`. `with
    kafka.transactions.hold_markers() as held:` releases them on exit. As with a fault, the test
    fails if the hold has not held back any markers."""

    def __init__(self, host: BrokerHost, transactional_id: str | None) -> None:
        self._host = host
        self._transactional_id = transactional_id
        self._held: dict[str, Callable[[], None]] = {}
        self.is_unused = True
        """Whether the hold has never held back markers."""
        host.call(lambda: host.marker_holds.append(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.release()
        else:
            self.cancel()

    @property
    def is_active(self) -> bool:
        """Whether the hold is still in effect."""
        return self in self._host.marker_holds

    @property
    def transactional_ids(self) -> list[str]:
        """The transactions whose markers are held back."""
        return list(self._held)

    def wait(self, count: int = 1, timeout: float = TIMEOUT_SECONDS) -> list[str]:
        """Wait until the markers of `count` transactions are held back. Return their transactional
        ids."""
        if not self._host.wait_until(lambda: len(self._held) >= count, timeout):
            name, explanation = self._transactional_id, ""
            if name is not None:
                explanation = self._host.call(lambda: explain_transaction(self._host, name))
            what = f"the markers of {count} × {name or 'any transaction'}: {len(self._held)} held"
            raise timed_out(timeout, what, explanation)
        return self.transactional_ids

    def release(self) -> None:
        """Write the markers that are held back, and end the hold. Raises UnusedFault if it has
        never held back markers."""
        is_active = self.is_active
        self.cancel()
        if is_active and self.is_unused:
            raise UnusedFault(f"unused marker hold\n{self.report()}")

    def cancel(self) -> None:
        """Write the markers that are held back, and end the hold, without failing the test."""
        self._host.call(self.remove)

    def report(self) -> str:
        """Describe the hold, and what happened to the transaction instead."""
        name, lines = self._transactional_id, list[str]()
        # A shared loop also runs while the broker is stopped.
        if name is not None and self._host.broker.is_running:
            lines = self._host.call(lambda: explain_transaction(self._host, name)).splitlines()
        where = "" if name is None else f" (transactional_id {name})"
        heading = f"markers{where}: held back, fired 0"
        return "\n".join([heading, *(f"    {line}" for line in lines)])

    # --- on the broker's loop

    def remove(self) -> None:
        """Write the markers that are held back, and end the hold."""
        if self in self._host.marker_holds:
            self._host.marker_holds.remove(self)
        held, self._held = self._held, {}
        if self._host.broker.is_running:
            for write in held.values():
                write()

    def hold(self, markers: Markers, write: Callable[[], None]) -> bool:
        """Return whether the hold holds back these markers. If so, it calls `write` later."""
        if self._transactional_id not in (None, markers.transactional_id):
            return False
        self.is_unused = False
        # After a restart, the coordinator writes the markers again; the last attempt counts.
        self._held[markers.transactional_id] = write
        self._host.changes.notify()
        return True


class Transactions(SuggestsAttributes):
    """`kafka.transactions`: the transactions of all producers, by transactional id."""

    def __init__(self, host: BrokerHost) -> None:
        self._host = host

    @property
    def all(self) -> list[Transaction]:
        """The current or last transaction of each transactional id, sorted by id."""
        return list(self._host.call(lambda: transactions_of(self._host)).values())

    def describe(self, transactional_id: str) -> Transaction:
        """Return the current or last transaction of a transactional id. Raises LookupError if no
        producer has used the id, or if it has expired."""
        return self._host.call(lambda: self._find(transactional_id))

    def explain(self, transactional_id: str) -> str:
        """Describe what the transaction is waiting for, whether its producer is fenced, and the
        last requests with this transactional id."""
        return self._host.call(lambda: explain_transaction(self._host, transactional_id))

    def wait(
        self, transactional_id: str, until: Until, timeout: float = TIMEOUT_SECONDS
    ) -> Transaction:
        """Wait until the transaction is `open` (it has partitions, and has not ended), `committed`
        or `aborted` (its markers are written), or has been in that state at any time during the
        wait. Return the transaction. Raises BarrierTimeout, whose message explains the state."""
        state = _STATES.get(until)
        if state is None:
            words = {state: word for word, state in _STATES.items()}
            hint = did_you_mean(until, _STATES)
            if until in words:
                hint = f": {until} is {words[until]!r}"
            raise ValueError(f"until must be one of {', '.join(_STATES)}, not {until!r}{hint}")
        history = self._host.history
        began_s = history.wall_s

        def reached() -> Transaction | None:
            found = transactions_of(self._host).get(transactional_id)
            if found is None or found.state == state:
                return found
            changes = history.transaction_changes(transactional_id)
            has_been = any(each.after == state and each.wall_s >= began_s for each in changes)
            return found if has_been else None

        reached_by = self._host.wait_until(reached, timeout)
        if reached_by is None:
            what = f"transaction {transactional_id} to be {until}"
            raise timed_out(timeout, what, self.explain(transactional_id))
        return reached_by

    def abort(self, transactional_id: str) -> None:
        """Abort an open transaction and fence its producer, as if it had timed out. Raises
        LookupError for an unknown id, and ValueError if the transaction is not open."""

        def decide(coordinator: TransactionCoordinator, now_ms: int) -> TransactionOutcome:
            return coordinator.abort(transactional_id, now_ms)

        def abort() -> str | None:
            if self._find(transactional_id).state != ONGOING.text:
                return explain_transaction(self._host, transactional_id)
            node = transaction_node(self._host.broker, transactional_id)
            with self._host.history.by_test():
                node.transactions.carry_out(transactional_id, decide)
            return None

        explanation = self._host.call(abort)
        if explanation is not None:
            raise ValueError(f"Transaction {transactional_id} is not open. {explanation}")

    def expire(self, transactional_id: str) -> None:
        """Expire a transactional id, as if `transactional.id.expiration.ms` had passed without a
        transaction. Requests of its producer then fail with INVALID_PRODUCER_ID_MAPPING. Raises
        LookupError for an unknown id, and ValueError while its transaction is not complete."""

        def expire() -> str | None:
            if self._find(transactional_id).state not in _IDLE:
                return explain_transaction(self._host, transactional_id)
            node = transaction_node(self._host.broker, transactional_id)
            with self._host.history.by_test():
                node.transactions.carry_out(
                    transactional_id, lambda coordinator, _now: coordinator.expire(transactional_id)
                )
            return None

        explanation = self._host.call(expire)
        if explanation is not None:
            raise ValueError(f"Transactional id {transactional_id} cannot expire. {explanation}")

    def hold_markers(self, transactional_id: str | None = None) -> MarkerHold:
        """Hold back the markers of decided transactions, for one transactional id or all ids, until
        the hold is released. The producer gets its response, but `read_committed` consumers
        wait. A crash of the broker does not end the hold. As with a fault, the test fails if the
        hold has not held back any markers (`faults.check`)."""
        return MarkerHold(self._host, transactional_id)

    # --- on the broker's loop

    def _find(self, transactional_id: str) -> Transaction:
        found = transactions_of(self._host)
        if transactional_id in found:
            return found[transactional_id]
        if self._host.history.transaction_changes(transactional_id):
            raise LookupError(f"Transactional id {transactional_id} no longer exists")
        hint = did_you_mean(transactional_id, found)
        known = hint or f"; known transactional ids: {', '.join(found) or 'none'}"
        raise LookupError(f"Transactional id {transactional_id} does not exist{known}")
