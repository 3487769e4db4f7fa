"""Transactions on a BrokerHarness: three nodes, a producer, a read_committed consumer, and a
sequence of three transactions."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from kohort.log.batch import split
from kohort.log.group_commit import Durability
from kohort.log.producer_state import ABORT, marker_type
from kohort.log.records import records
from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import Crashed, FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from support.broker import BrokerHarness, PendingRequest
from support.log import NewRecord, build
from support.runtime import NOW_MS

TRANSACTIONAL = 0x10
GROUP = "g"
READ_COMMITTED = 1


NODES = 3
TRANSACTION_PARTITIONS = 2


class ClusterHarness(BrokerHarness):
    """A broker with three nodes. Each request goes to the node that leads its partition when it is
    sent. `move_at`: the number of callbacks after which the partition `moved` gets the next node as
    its leader."""

    def __init__(self, durability: Durability = "fsync", files: FaultyFiles | None = None) -> None:
        self.before_run: Callable[[], None] | None = None
        self.moved: tuple[str, int] | None = None
        self.move_at, self.steps = -1, 0
        config = {"transaction.state.log.num.partitions": str(TRANSACTION_PARTITIONS)}
        super().__init__(config, durability=durability, files=files, nodes=NODES)
        if files is None:
            self.create_topic("orders")
            self.create_topic("bills")
        else:
            self.load()
        self.steps = 0

    def place_of(self, topic: str) -> tuple[str, int]:
        """The partition of this topic that the Story uses."""
        if topic == OFFSETS_TOPIC:
            return topic, self.node.coordinators.partition_of(GROUP)
        if topic == TRANSACTION_TOPIC:
            return topic, self.node.transactions.partition_of("billing-1")
        return topic, 0

    def move(self, topic: str, index: int) -> None:
        leader = self.cluster.leader_of(topic, index)
        if leader is not None:
            self.cluster.move(topic, index, leader.node_id % NODES + 1)

    def run_loop(self) -> None:
        self.before_run, before_run = None, self.before_run
        if before_run is not None:
            before_run()
        while self.callbacks:
            if self.steps == self.move_at:
                self._move()
            self.steps += 1
            self.callbacks.pop(0)()

    def _move(self) -> None:
        assert self.moved is not None
        self.move(*self.moved)

    def send(self, api: str, version: int | None = None, /, **values: Any) -> PendingRequest:
        if self.steps == self.move_at:  # between two requests
            self.move_at = -1
            self._move()
        self.node = self._leader_for(api, values)
        return super().send(api, version, **values)

    def _leader_for(self, api: str, values: dict[str, Any]) -> Any:
        if api in ("TxnOffsetCommit", "OffsetFetch"):
            group_id = values.get("group_id") or values["groups"][0]["group_id"]
            index = self.node.coordinators.partition_of(group_id)
            found = self.cluster.leader_of(OFFSETS_TOPIC, index)
        elif api in ("Produce", "Fetch"):
            topic = values["topic_data" if api == "Produce" else "topics"][0]
            found = self.cluster.leader_of(topic.get("name") or topic["topic"], 0)
        elif api == "FindCoordinator":
            found = self.cluster.nodes[1]
        else:
            index = self.node.transactions.partition_of(
                values.get("transactional_id") or values.get("v3_and_below_transactional_id")
            )
            found = self.cluster.leader_of(TRANSACTION_TOPIC, index)
        return found or self.cluster.nodes[1]


class Producer:
    """A producer with a transactional id, which uses the protocol of KIP-890 (`version` 2) or the
    one before. Each request returns its error; None if there is no response."""

    def __init__(
        self, broker: BrokerHarness, transactional_id: str = "billing-1", *, version: int = 2
    ) -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.version = version
        self.producer_id = self.epoch = -1
        self._sequences: dict[str, int] = {}

    def _call(self, api: str, version: int, **values: Any) -> Any:
        pending = self.broker.send(api, version, **values)
        self.broker.run_loop()
        return pending.response

    @property
    def _producer(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def find_coordinators(self) -> ErrorCode | None:
        """Clients do this before they send anything to a coordinator; it creates the topics."""
        for key, key_type in ((GROUP, 0), (self.transactional_id, 1)):
            found = self._call("FindCoordinator", 4, coordinator_keys=(key,), key_type=key_type)
            if found is None or found.coordinators[0].error_code:
                return None if found is None else ErrorCode(found.coordinators[0].error_code)
        return ErrorCode.none

    def init(self, *, timeout_ms: int = 60_000) -> ErrorCode | None:
        values = {"transactional_id": self.transactional_id, "transaction_timeout": timeout_ms}
        return self._adopt(self._call("InitProducerId", 5, **values))

    def _adopt(self, response: Any) -> ErrorCode | None:
        if response is None:
            return None
        error = ErrorCode(response.error_code)
        if error is ErrorCode.none and response.producer_id >= 0:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self._sequences.clear()
        return error

    def send(self, topic: str, *values: str, partition: int = 0) -> ErrorCode | None:
        """Produce; before KIP-890 the partition is added first."""
        if self.version < 2:
            error = self.add(topic, partition)
            if error is not ErrorCode.none:
                return error
        batch = self.batch(topic, values)
        pending = self.broker.send_produce(
            topic,
            {partition: batch},
            version=12 if self.version >= 2 else 11,
            transactional_id=self.transactional_id,
        )
        self.broker.run_loop()
        if pending.response is None:
            return None
        error = ErrorCode(pending.response.responses[0].partition_responses[0].error_code)
        if error is ErrorCode.none:
            self._sequences[topic] = self._sequences.get(topic, 0) + len(values)
        return error

    def add(self, topic: str, partition: int = 0) -> ErrorCode | None:
        topics = [{"name": topic, "partitions": [partition]}]
        producer = _v3(self._producer)
        added = self._call("AddPartitionsToTxn", 3, **producer, v3_and_below_topics=topics)
        if added is None:
            return None
        (result,) = added.results_by_topic_v3_and_below[0].results_by_partition
        return ErrorCode(result.partition_error_code)

    def batch(self, topic: str, values: Iterable[str]) -> bytes:
        return build(
            [NewRecord(None, value.encode(), NOW_MS) for value in values],
            attributes=TRANSACTIONAL,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences.get(topic, 0),
        )

    def commit_offset(
        self, offset: int, topic: str = "orders", *, group_id: str = GROUP
    ) -> ErrorCode | None:
        if self.version < 2:
            added = self._call("AddOffsetsToTxn", 3, **self._producer, group_id=group_id)
            if added is None or added.error_code:
                return None if added is None else ErrorCode(added.error_code)
        topics = [{"name": topic, "partitions": [_offset(offset)]}]
        response = self._call(
            "TxnOffsetCommit",
            5 if self.version >= 2 else 4,
            **self._producer,
            group_id=group_id,
            topics=topics,
        )
        if response is None:
            return None
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def end(self, *, commit: bool) -> ErrorCode | None:
        version = 5 if self.version >= 2 else 4
        response = self._call("EndTxn", version, **self._producer, committed=commit)
        if version < 5:
            return None if response is None else ErrorCode(response.error_code)
        return self._adopt(response)


def _offset(offset: int) -> dict[str, Any]:
    return {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}


def _v3(producer: dict[str, Any]) -> dict[str, Any]:
    return {f"v3_and_below_{name}": value for name, value in producer.items()}


# --- consumers


def read_committed(broker: BrokerHarness, topic: str) -> list[str]:
    """Return the values that a read_committed consumer receives, up to the last stable offset. It
    skips aborted records as clients do: according to the aborted transactions in the response."""
    values: list[str] = []
    offset = 0
    while True:
        found = broker.fetch(topic, offset, isolation_level=READ_COMMITTED)
        assert found.error_code == 0, found
        if not found.records:
            assert offset >= found.last_stable_offset
            return values
        upcoming = sorted(
            (each.first_offset, each.producer_id) for each in found.aborted_transactions or ()
        )
        aborted: set[int] = set()
        data = bytes(found.records)
        for position, header in split(data):
            whole = data[position : position + header.size]
            while upcoming and upcoming[0][0] <= header.last_offset:
                aborted.add(upcoming.pop(0)[1])
            if header.is_control:
                if marker_type(whole) == ABORT:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                values += [
                    (each.value or b"").decode() for each in records(whole) if each.offset >= offset
                ]
            offset = header.last_offset + 1


def committed_offset(
    broker: BrokerHarness, topic: str = "orders", *, group_id: str = GROUP
) -> int | ErrorCode:
    """Return the stable committed offset, or the error."""
    topics = [{"name": topic, "partition_indexes": [0]}]
    groups = [{"group_id": group_id, "topics": topics}]
    response = broker.call("OffsetFetch", 8, groups=groups, require_stable=True)
    group = response.groups[0]
    if group.error_code:
        return ErrorCode(group.error_code)
    found = group.topics[0].partitions[0]
    return ErrorCode(found.error_code) if found.error_code else int(found.committed_offset)


def is_stable(broker: BrokerHarness, topic: str) -> bool:
    """Whether no transaction is open: the last stable offset is the high watermark."""
    partition = broker.topic(topic).partitions[0]
    return partition.last_stable_offset == partition.high_watermark


# --- a story: records in two topics and an offset; two commits and an abort between them

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
    """Three transactions of one producer, which repeats requests that fail, as clients do.
    `acknowledged`: those with a response to EndTxn;
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
        """Check that every transaction is decided, and visible entirely or not at all."""
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
            assert found in (whole, ([], [])), f"transaction {number} is partly visible"
            is_visible = found == whole
            if is_visible:
                last_visible = number
                assert commit
                assert number in self.ending
            if number in self.acknowledged:
                assert is_visible is commit, f"transaction {number}: lost its decision"
        assert offset == last_visible

    def _check_new_transaction(self, broker: BrokerHarness) -> None:
        """Check that the producer's successor works, and that another transactional id gets another
        producer id."""
        ids = [self.producer.producer_id]
        for transactional_id in ("billing-1", "another"):
            successor = Producer(broker, transactional_id, version=self.producer.version)
            assert successor.init() is E.none
            assert successor.send("orders", f"of {transactional_id}") is E.none
            assert successor.end(commit=True) is E.none
            ids.append(successor.producer_id)
        assert read_committed(broker, "orders")[-2:] == ["of billing-1", "of another"]
        assert ids[2] not in ids[:2]
