"""A transaction coordinator with its log as a list and a manual clock. After every step a replay of
the encoded log gives its durable state, and the log obeys the state machine."""

from collections.abc import Sequence
from typing import Any

from kohort.coordinator.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    Markers,
    TransactionCommand,
    TransactionOutcome,
)
from kohort.coordinator.transactions.coordinator import TransactionConfig, TransactionCoordinator
from kohort.coordinator.transactions.states import TopicPartition, TransactionState
from kohort.offsets.records import NO_EPOCH, TransactionMetadata, TransactionRecord
from kohort.offsets.transaction_codec import decode_transaction, encode_transaction

ID = "billing-1"
TIMEOUT_MS = 60_000
MAX_TIMEOUT_MS = 900_000
ID_EXPIRATION_MS = 600_000
TXN_V1, TXN_V2 = 0, 2  # versions of the client's transaction protocol

S = TransactionState
_IDLE = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
# State -> the states before it. Since KIP-890 an abort without a transaction bumps the epoch.
TRANSITIONS = {
    S.EMPTY: _IDLE,
    S.ONGOING: (S.ONGOING, *_IDLE),
    S.PREPARE_COMMIT: (S.ONGOING,),
    S.PREPARE_ABORT: (S.ONGOING, *_IDLE),
    S.COMPLETE_COMMIT: (S.PREPARE_COMMIT,),
    S.COMPLETE_ABORT: (S.PREPARE_ABORT,),
}


def durable_state(coordinator: TransactionCoordinator) -> dict[str, Any]:
    """Return what has been written: transactional ids without an epoch have no record yet."""
    return {
        transactional_id: (_plain(each.metadata), each.partitions)
        for transactional_id, each in coordinator.transactions.items()
        if each.metadata.producer_epoch != NO_EPOCH
    }


def _plain(metadata: TransactionMetadata) -> TransactionMetadata:
    """Return a copy with lists, as the codec returns it."""
    partitions = metadata.partitions
    if partitions is None:
        return metadata
    plain = [(topic, list(indexes)) for topic, indexes in partitions]
    return metadata._replace(partitions=plain)  # type: ignore[arg-type]


def check_log(log: Sequence[TransactionRecord]) -> None:
    """Check that each record is a valid transition, and that producer ids and epochs of an id never
    go back."""
    last: dict[str, TransactionMetadata] = {}
    for transactional_id, metadata in log:
        before = last.get(transactional_id)
        if metadata is None:
            assert before is None or before.state in _IDLE, "an unfinished transaction was removed"
            last.pop(transactional_id, None)
            continue
        state = TransactionState(metadata.state)
        if before is None:
            assert state is S.EMPTY
        else:
            assert before.state in TRANSITIONS[state], (before, metadata)
            newest = before.producer_id, before.producer_epoch
            assert (metadata.producer_id, metadata.producer_epoch) >= newest
        last[transactional_id] = metadata


class TransactionHarness:
    """`markers`: those that have been decided but not written. `log`: all records."""

    def __init__(self) -> None:
        self._config = TransactionConfig(MAX_TIMEOUT_MS, ID_EXPIRATION_MS)
        self._last_producer_id = 999
        self.now = 1_000_000
        self.log: list[TransactionRecord] = []
        self.markers: list[Markers] = []
        self.coordinator = self._new()

    def _new(self) -> TransactionCoordinator:
        return TransactionCoordinator(self._config, self._new_producer_id)

    def _new_producer_id(self) -> int:
        self._last_producer_id += 1
        return self._last_producer_id

    # --- the runtime's part

    def handle(self, command: TransactionCommand) -> Any:
        outcome = self.coordinator.handle(command, self.now)
        self.carry_out(outcome)
        assert outcome.reply is not None
        return outcome.reply

    def carry_out(self, outcome: TransactionOutcome) -> None:
        for record in outcome.records:
            self.log.append(record)
            self.coordinator.apply(record)
        self.markers += outcome.markers
        self.check()

    def write_markers(self, place: int | None = None) -> None:
        """Write all markers, or only those at one index of the list."""
        written = list(self.markers) if place is None else [self.markers[place]]
        for each in written:
            self.markers.remove(each)
            self.carry_out(self.coordinator.markers_written(each, self.now))

    def advance(self, ms: int) -> None:
        self.now += ms
        while (due := self.coordinator.next_deadline()) is not None and due <= self.now:
            self.carry_out(self.coordinator.tick(self.now))

    def expire_ids(self) -> None:
        for outcome in self.coordinator.expired_ids(self.now):
            self.carry_out(outcome)

    def restart(self, keep: int | None = None) -> None:
        """Load the log again; `keep`: the number of records that were durable."""
        del self.log[len(self.log) if keep is None else keep :]
        self.coordinator = self._replayed()
        self.markers.clear()
        self.carry_out(self.coordinator.loaded())

    def _replayed(self) -> TransactionCoordinator:
        coordinator = self._new()
        for record in self.log:
            decoded = decode_transaction(*encode_transaction(record))
            assert decoded is not None
            coordinator.apply(decoded)
        return coordinator

    def check(self) -> None:
        check_log(self.log)
        replayed = self._replayed()
        assert durable_state(replayed) == durable_state(self.coordinator)
        assert replayed._timeouts.pending == self.coordinator._timeouts.pending
        prepared = {(each.transactional_id, each.partitions) for each in replayed.loaded().markers}
        pending = {(each.transactional_id, each.partitions) for each in self.markers}
        assert prepared <= pending, "a prepared transaction has no markers to be written"

    # --- requests

    def init(self, **values: Any) -> Any:
        arguments: dict[str, Any] = {"transactional_id": ID, "timeout_ms": TIMEOUT_MS, **values}
        return self.handle(InitProducerId(**arguments))

    def add(self, *partitions: TopicPartition, **values: Any) -> Any:
        return self.handle(AddPartitions(**self._producer(values), partitions=partitions))

    def end(self, *, commit: bool, **values: Any) -> Any:
        return self.handle(EndTransaction(**self._producer(values), commit=commit))

    def _producer(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the producer; the default is the current producer of `ID`."""
        metadata = self.metadata
        current = {"producer_id": metadata.producer_id, "producer_epoch": metadata.producer_epoch}
        return {"transactional_id": ID, **current, **values}

    @property
    def metadata(self) -> TransactionMetadata:
        return self.coordinator.transactions[ID].metadata

    @property
    def state(self) -> TransactionState:
        return self.coordinator.transactions[ID].state
