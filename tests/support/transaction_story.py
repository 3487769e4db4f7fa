"""Three transactions of one producer, with records in two topics and an offset: two commits and an
abort between them. The producer repeats requests that fail, as clients do."""

from collections.abc import Callable, Iterator
from functools import partial

from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import Crashed
from support.broker import BrokerHarness
from support.producer import Producer, committed_offset, is_stable, read_committed

E = ErrorCode
COMMITS = (True, False, True)  # whether the transactions 0, 1, 2 are committed
TIMEOUT_MS = 60_000
RETRIABLE = (
    E.concurrent_transactions,
    E.coordinator_load_in_progress,
    E.coordinator_not_available,
    E.not_coordinator,
    E.not_enough_replicas,
    E.kafka_storage_error,
    E.not_leader_or_follower,
)
ATTEMPTS_MAX = 100


class Story:
    """Transactions of one producer. `acknowledged`: those with a response to EndTxn;
    `rejected`: those that the producer has given up."""

    def __init__(self, broker: BrokerHarness, version: int) -> None:
        self.producer = Producer(broker, version=version)
        self.acknowledged: set[int] = set()
        self.rejected: set[int] = set()
        self.ending: set[int] = set()

    def requests(self) -> Iterator[Callable[[], ErrorCode | None]]:
        producer = self.producer
        yield producer.find_coordinators
        yield producer.init
        for number, commit in enumerate(COMMITS):
            for step in (
                partial(producer.send, "orders", f"{number}a", f"{number}b"),
                partial(producer.send, "bills", f"{number}c"),
                partial(producer.commit_offset, number),
                partial(producer.send, "bills", f"{number}d"),
            ):
                if number not in self.rejected:
                    yield step
            if number in self.rejected:
                yield producer.init
                continue
            self.ending.add(number)
            yield partial(producer.end, commit=commit)
            if number in self.rejected:
                yield producer.init
            else:
                self.acknowledged.add(number)

    def tell(self, *, on_crash: Callable[[], BrokerHarness] | None = None) -> None:
        """Send all requests. `on_crash`: returns the broker after a crash, to which the producer
        sends the last request again."""
        number = -1
        for request in self.requests():
            number = len(self.acknowledged | self.rejected)
            for _ in range(ATTEMPTS_MAX):
                try:
                    error = request()
                except Crashed:
                    if on_crash is None:
                        raise
                    self.producer.broker = on_crash()
                    continue
                if error is E.none:
                    break
                if error is not None and error not in RETRIABLE:
                    self.rejected.add(number)
                    break
                self.producer.broker.advance(100)
                self.producer.broker.run_loop()
            else:
                raise AssertionError(f"no success after {ATTEMPTS_MAX} attempts: {error!r}")

    def check(self, broker: BrokerHarness) -> None:
        self.check_transactions(broker)
        self._check_new_transaction(broker)

    def check_transactions(self, broker: BrokerHarness) -> None:
        """Every transaction is decided, and visible wholly or not at all."""
        broker.advance(TIMEOUT_MS)
        broker.run_loop()
        broker.advance(1_000)
        broker.run_loop()
        assert is_stable(broker, "orders")
        assert is_stable(broker, "bills")
        orders, bills = read_committed(broker, "orders"), read_committed(broker, "bills")
        offset = committed_offset(broker)
        last_visible = -1
        for number, commit in enumerate(COMMITS):
            whole = [f"{number}a", f"{number}b"], [f"{number}c", f"{number}d"]
            found = tuple(
                [each for each in values if each.startswith(str(number))]
                for values in (orders, bills)
            )
            assert found in (whole, ([], [])), f"transaction {number} is visible in part"
            is_visible = found == whole
            if is_visible:
                last_visible = number
                assert commit
                assert number in self.ending
            if number in self.acknowledged:
                assert is_visible is commit, f"transaction {number}: lost its decision"
        assert offset == last_visible

    def _check_new_transaction(self, broker: BrokerHarness) -> None:
        """The producer's successor works, and another id has another producer id."""
        ids = [self.producer.producer_id]
        for transactional_id in ("billing-1", "another"):
            successor = Producer(broker, transactional_id, version=self.producer.version)
            assert successor.init() is E.none
            assert successor.send("orders", f"of {transactional_id}") is E.none
            assert successor.end(commit=True) is E.none
            ids.append(successor.producer_id)
        assert read_committed(broker, "orders")[-2:] == ["of billing-1", "of another"]
        assert ids[2] not in ids[:2]
