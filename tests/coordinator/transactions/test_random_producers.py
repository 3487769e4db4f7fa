"""Random producers of two transactional ids, of both protocol versions: retries, zombies, timeouts,
lost records, lost responses, restarts, and expired ids.

The harness checks the log after every step. This test checks that each transaction is decided once,
as in the response to its producer; that only the newest producer can change anything; and that a
committed transaction has exactly the partitions that its producer added.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kohort.coordinator.transactions.commands import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    TransactionCommand,
)
from kohort.coordinator.transactions.states import TopicPartition, TransactionState
from kohort.protocol.errors import ErrorCode
from support.transaction_coordinator import ID_EXPIRATION_MS, TXN_V1, TXN_V2, TransactionHarness

E, S = ErrorCode, TransactionState
IDS = ("a", "b")
DELIVERED, REPLY_LOST, RECORD_LOST = "delivered", "reply lost", "record lost"
FATES = st.sampled_from([DELIVERED, DELIVERED, DELIVERED, REPLY_LOST, RECORD_LOST])
WHO = st.integers(0, 5)
PARTITIONS = st.sets(st.sampled_from([("t", 0), ("t", 1), ("u", 0)]), min_size=1, max_size=2)


class Producer:
    """A client. `added`: the partitions of its transaction; `maybe_added`: partitions whose request
    had no response. `last_end`: its last EndTxn, for a retry, with the transaction's partitions."""

    def __init__(self, transactional_id: str, version: int) -> None:
        self.transactional_id, self.version = transactional_id, version
        self.producer_id = self.epoch = -1
        self.added: set[TopicPartition] = set()
        self.maybe_added: set[TopicPartition] = set()
        self.last_end: tuple[EndTransaction, set[TopicPartition]] | None = None

    @property
    def identity(self) -> tuple[str, int, int]:
        return self.transactional_id, self.producer_id, self.epoch


class RandomProducers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.harness = TransactionHarness()
        self.producers: list[Producer] = []  # the newest last
        # Decisions reported to producers: number of the Prepare record -> commit.
        self.reported: dict[int, bool] = {}

    def producer(self, who: int) -> Producer | None:
        return self.producers[-1 - who % len(self.producers)] if self.producers else None

    def send(self, command: TransactionCommand, fate: str) -> Any:
        """Return the response, or None if the client does not receive it."""
        harness = self.harness
        before = harness.coordinator.transactions.get(command.transactional_id)
        newest = before and (before.metadata.producer_id, before.metadata.producer_epoch)
        durable = len(harness.log)
        result = harness.handle(command)
        if len(harness.log) > durable and not isinstance(command, InitProducerId):
            sender = command.producer_id, command.producer_epoch
            assert sender == newest, "an older producer has changed the transaction"
        if fate == RECORD_LOST and len(harness.log) > durable:
            harness.restart(durable)
            return None
        return result if fate == DELIVERED else None

    # --- requests

    @rule(
        transactional_id=st.sampled_from(IDS),
        version=st.sampled_from([TXN_V1, TXN_V2]),
        timeout_ms=st.sampled_from([1_000, 60_000]),
        fate=FATES,
    )
    def a_new_producer(
        self, transactional_id: str, version: int, timeout_ms: int, fate: str
    ) -> None:
        result = self.send(InitProducerId(transactional_id, timeout_ms), fate)
        if result is not None and result.error is E.none:
            self._initialized(Producer(transactional_id, version), result)

    @rule(who=WHO, fate=FATES)
    def a_producer_recovers(self, who: int, fate: str) -> None:
        """Send InitProducerId with the current id and epoch (KIP-360)."""
        producer = self.producer(who)
        if producer is None:
            return
        command = InitProducerId(
            producer.transactional_id, 60_000, producer.producer_id, producer.epoch
        )
        result = self.send(command, fate)
        if result is not None and result.error is E.none:
            self.producers.remove(producer)
            self._initialized(producer, result)

    def _initialized(self, producer: Producer, result: Any) -> None:
        before = [
            (each.producer_id, each.epoch)
            for each in self.producers
            if each.transactional_id == producer.transactional_id
        ]
        producer.producer_id, producer.epoch = result.producer_id, result.producer_epoch
        assert all(each < (producer.producer_id, producer.epoch) for each in before)
        producer.added, producer.maybe_added, producer.last_end = set(), set(), None
        self.producers.append(producer)

    @rule(who=WHO, partitions=PARTITIONS, fate=FATES)
    def a_producer_adds_partitions(
        self, who: int, partitions: set[TopicPartition], fate: str
    ) -> None:
        producer = self.producer(who)
        if producer is None:
            return
        command = AddPartitions(*producer.identity, frozenset(partitions), producer.version)
        result = self.send(command, fate)
        if result is None:
            producer.maybe_added |= partitions
        elif result.error is E.none:
            producer.added |= partitions
            verified = self.send(command._replace(verify_only=True), DELIVERED)
            assert (verified.error, list(verified.missing)) == (E.none, [])

    @rule(who=WHO, commit=st.booleans(), fate=FATES)
    def a_producer_ends_its_transaction(self, who: int, commit: bool, fate: str) -> None:
        producer = self.producer(who)
        if producer is None or (producer.version == TXN_V1 and not producer.added):
            return  # before KIP-890, clients end only transactions that have begun
        command = EndTransaction(*producer.identity, commit, producer.version)
        producer.last_end = command, producer.added | producer.maybe_added
        self._end(producer, fate)

    @rule(who=WHO, fate=FATES)
    def a_producer_repeats_its_last_end(self, who: int, fate: str) -> None:
        producer = self.producer(who)
        if producer is not None and producer.last_end is not None and not producer.added:
            self._end(producer, fate)

    def _end(self, producer: Producer, fate: str) -> None:
        assert producer.last_end is not None
        command, attempted = producer.last_end
        added = set(producer.added)
        result = self.send(command, fate)
        if result is None or result.error is E.concurrent_transactions:
            producer.added, producer.maybe_added = set(), set()  # only a retry may follow
            return
        if result.error is not E.none:
            return
        if attempted or command.client_version >= TXN_V2:  # otherwise the last decision is repeated
            self._check_decision(command, added, attempted)
        producer.producer_id, producer.epoch = result.producer_id, result.producer_epoch
        producer.added, producer.maybe_added, producer.last_end = set(), set(), None

    def _check_decision(
        self, command: EndTransaction, added: set[TopicPartition], attempted: set[TopicPartition]
    ) -> None:
        """Check that the last decision of the id is the requested one, with these partitions."""
        number, metadata = next(
            (number, metadata)
            for number, (transactional_id, metadata) in reversed(list(enumerate(self.harness.log)))
            if transactional_id == command.transactional_id
            and metadata is not None
            and metadata.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)
        )
        assert (metadata.state == S.PREPARE_COMMIT) is command.commit
        assert metadata.producer_id == command.producer_id
        bump = command.client_version >= TXN_V2
        assert metadata.producer_epoch == command.producer_epoch + bump
        prepared = {
            (topic, index) for topic, indexes in metadata.partitions or () for index in indexes
        }
        assert added <= prepared <= attempted
        assert self.reported.setdefault(number, command.commit) is command.commit

    # --- everything else

    @precondition(lambda self: self.harness.markers)
    @rule(place=st.integers(0, 3))
    def markers_are_written(self, place: int) -> None:
        self.harness.write_markers(place % len(self.harness.markers))

    @rule(ms=st.sampled_from([0, 999, 1_000, 60_000]))
    def time_passes(self, ms: int) -> None:
        self.harness.advance(ms)

    @rule()
    def idle_ids_expire(self) -> None:
        self.harness.advance(ID_EXPIRATION_MS)
        self.harness.expire_ids()

    @rule()
    def the_partition_is_loaded_again(self) -> None:
        self.harness.restart()

    @invariant()
    def reported_decisions_stay_in_the_log(self) -> None:
        for number, commit in self.reported.items():
            metadata = self.harness.log[number].metadata
            assert metadata is not None
            assert metadata.state == (S.PREPARE_COMMIT if commit else S.PREPARE_ABORT)

    @invariant()
    def an_ongoing_transaction_has_a_deadline(self) -> None:
        transactions = self.harness.coordinator.transactions.values()
        deadlines = [
            each.metadata.start_ms + each.metadata.timeout_ms
            for each in transactions
            if each.state is S.ONGOING
        ]
        if deadlines:
            due = self.harness.coordinator.next_deadline()
            assert due is not None
            assert due <= min(deadlines)

    def teardown(self) -> None:
        """Check that a new producer of each id can begin and commit a transaction."""
        harness = self.harness
        harness.write_markers()
        for transactional_id in IDS:
            init = InitProducerId(transactional_id, 60_000)
            result = harness.handle(init)
            if result.error is E.concurrent_transactions:
                harness.write_markers()
                result = harness.handle(init)
            assert result.error is E.none
            producer = transactional_id, result.producer_id, result.producer_epoch
            for stale in self.producers:
                if stale.transactional_id == transactional_id:
                    command = AddPartitions(*stale.identity, {("t", 0)})
                    assert harness.handle(command).error is not E.none
            assert harness.handle(AddPartitions(*producer, {("t", 0)})).error is E.none
            assert harness.handle(EndTransaction(*producer, commit=True)).error is E.none
            harness.write_markers()
            transaction = harness.coordinator.transactions[transactional_id]
            assert transaction.state is S.COMPLETE_COMMIT


TestRandomProducers = RandomProducers.TestCase
TestRandomProducers.settings = settings(stateful_step_count=40)
