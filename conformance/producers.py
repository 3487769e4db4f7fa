"""The transactional and idempotent producers of scripts."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

from ..log.batch import TRANSACTIONAL
from .recorder import Recorder
from .records import NewRecord, build

# Earlier than STARTED_MS, so that transcripts show these timestamps and not NOW.
RECORD_TIMESTAMP_MS = 1_600_000_000_000
NONE_ID = NONE_EPOCH = -1
UNKNOWN_ID = 999_999_999
OWN = "own"  # the transactional id of the producer
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
Partitions = Mapping[str, Iterable[int]]
"""Partitions by topic name."""


class Producer:
    """A producer that stores its id, its epoch and its sequence numbers, as clients do. `name` is
    also its client id. `transactional_id`: None for an idempotent producer; by default it consists
    of the script's group and the name.

    The methods that send requests return the response. Keyword arguments replace fields of the
    request by name: `p.end(producer_epoch=7)`. After a request that ends a transaction, the methods
    wait for its markers.
    """

    def __init__(
        self,
        script: Recorder,
        name: str = "P",
        *,
        transactional_id: str | None = "",
        timeout_ms: int = 60_000,
    ) -> None:
        self.name = name
        self.transactional_id = (
            f"{script.group}.{name}" if transactional_id == "" else transactional_id
        )
        self.timeout_ms = timeout_ms
        self.id, self.epoch = NONE_ID, NONE_EPOCH
        self._sequences: dict[tuple[str, int], int] = {}
        self._script = script

    async def init(self, version: int = 5, **fields: Any) -> Any:
        """Initialize the producer as a new producer."""
        await self._script.transactions_ready()
        values = {
            "transactional_id": self.transactional_id,
            "transaction_timeout": self.timeout_ms,
            "producer_id": NONE_ID,
            "producer_epoch": NONE_EPOCH,
        }
        response = await self._send("InitProducerId", version, values | fields, self._received)
        await self.wait_until_completed()
        return response

    async def initialized(self) -> Self:
        """Initialize this producer, and return it."""
        await self.init()
        return self

    async def bump(self, version: int = 5, **fields: Any) -> Any:
        """Initialize the producer again, with its current id and epoch (KIP-360)."""
        return await self.init(version, **{**self._identity(), **fields})

    async def add(self, version: int = 3, *, topics: Partitions, **fields: Any) -> Any:
        """Send AddPartitionsToTxn: up to v3 with the fields that clients send, and from v4 on with
        the fields that brokers send."""
        values = self.adding(topics, **fields)
        if version < 4:
            values = {f"v3_and_below_{name}": value for name, value in values.items()}
            return await self._send("AddPartitionsToTxn", version, values)
        return await self._send("AddPartitionsToTxn", version, {"transactions": [values]})

    def adding(self, partitions: Partitions, **fields: Any) -> dict[str, Any]:
        """Return the producer's part of AddPartitionsToTxn."""
        topics = [{"name": name, "partitions": tuple(each)} for name, each in partitions.items()]
        own = {"transactional_id": self.transactional_id, **self._identity()}
        return {**own, **fields, "topics": topics}

    async def add_offsets(self, version: int = 3, **fields: Any) -> Any:
        values = {
            "transactional_id": self.transactional_id,
            **self._identity(),
            "group_id": self._script.group,
        }
        return await self._send("AddOffsetsToTxn", version, values | fields)

    async def produce(
        self,
        topic: str,
        index: int = 0,
        version: int = 12,
        *,
        count: int = 1,
        sequence: int | None = None,
        attributes: int = TRANSACTIONAL,
        transactional_id: str | None = OWN,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        timestamp_ms: int = RECORD_TIMESTAMP_MS,
    ) -> Any:
        """Produce `count` records. Up to v11, call `add` before producing in a transaction."""
        next_sequence = self._sequences.get((topic, index), 0)
        first = next_sequence if sequence is None else sequence
        records = build(
            [
                NewRecord(b"key", f"{self.name} {n}".encode(), timestamp_ms + n)
                for n in range(count)
            ],
            attributes=attributes,
            producer_id=self.id if producer_id is None else producer_id,
            producer_epoch=self.epoch if producer_epoch is None else producer_epoch,
            base_sequence=first,
        )
        partitions = [{"index": index, "records": records}]
        topic_id = self._script.topic_ids.get(topic)
        data = {"name": topic, "topic_id": topic_id, "partition_data": partitions}
        is_own = transactional_id == OWN
        own_or_other = self.transactional_id if is_own else transactional_id
        values = {
            "transactional_id": own_or_other,
            "acks": -1,
            "timeout": 30_000,
            "topic_data": [data],
        }
        shown = f"{topic}-{index}, {count} records, attributes {attributes:#x}, sequence {first}"
        if producer_epoch is not None or producer_id is not None:
            shown += f", epoch {producer_epoch}, {'another' if producer_id else 'the same'} id"
        if not is_own:
            shown += f", transactional_id {transactional_id!r}"
        response = await self._script.send(
            "Produce", version, values, client_id=self.name, text=shown
        )
        (partition,) = response["responses"][0]["partition_responses"]
        if partition["error_code"] == "none" and sequence is None:
            self._sequences[topic, index] = next_sequence + count
        return response

    async def commit_offsets(self, offset: int = 5, version: int = 5, **fields: Any) -> Any:
        """Send TxnOffsetCommit for partition 0 of `orders`; `topics` are (name, partition,
        metadata). Up to v4, `add_offsets` has to be called first."""
        values = {
            "transactional_id": self.transactional_id,
            "group_id": self._script.group,
            **self._identity(),
            "topics": self._script.commit_topics(offset, fields.pop("topics", None)),
        }
        return await self._send("TxnOffsetCommit", version, values | fields)

    async def end(self, version: int = 5, *, commit: bool = True, **fields: Any) -> Any:
        values = {
            "transactional_id": self.transactional_id,
            **self._identity(),
            "committed": commit,
        }
        response = await self._send("EndTxn", version, values | fields, self._received)
        await self.wait_until_completed()
        return response

    async def commit(self, version: int = 5, **fields: Any) -> Any:
        return await self.end(version, commit=True, **fields)

    async def abort(self, version: int = 5, **fields: Any) -> Any:
        return await self.end(version, commit=False, **fields)

    async def describe(self) -> Any:
        values = {"transactional_ids": (self.transactional_id,)}
        return await self._send("DescribeTransactions", 0, values)

    async def wait_until_completed(self) -> None:
        """Wait until the producer's transaction is no longer being completed."""
        if self.transactional_id:
            await self._script.until_transaction(
                self.transactional_id, lambda state: not state.startswith("Prepare")
            )

    async def timed_out(self) -> None:
        """Let time pass until the producer's transaction is aborted."""
        assert self.transactional_id
        await self._script.until_transaction(
            self.transactional_id, "CompleteAbort".__eq__, text="until the transaction is aborted"
        )

    def _identity(self) -> dict[str, Any]:
        return {"producer_id": self.id, "producer_epoch": self.epoch}

    def _received(self, response: Any) -> None:
        if response["error_code"] != "none" or response.get("producer_id", NONE_ID) == NONE_ID:
            return
        identity = response["producer_id"], response["producer_epoch"]
        if identity != (self.id, self.epoch):
            self._sequences.clear()
        self.id, self.epoch = identity

    async def _send(
        self, api: str, version: int, values: Mapping[str, Any], on_response: Any = None
    ) -> Any:
        return await self._script.send(
            api, version, values, client_id=self.name, on_response=on_response
        )


async def read(
    script: Recorder,
    topic: str,
    offset: int = 0,
    index: int = 0,
    *,
    version: int = 12,
    isolation: int = READ_COMMITTED,
    **fields: Any,
) -> Any:
    """Fetch one partition."""
    partition = {
        "partition": index,
        "fetch_offset": offset,
        "partition_max_bytes": 1_000_000,
        "current_leader_epoch": -1,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
    }
    values = {
        "replica_id": -1,
        "replica_state": {"replica_id": -1, "replica_epoch": -1},
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "session_epoch": -1,
        "isolation_level": isolation,
        "topics": [
            {"topic": topic, "topic_id": script.topic_ids[topic], "partitions": [partition]}
        ],
        **fields,
    }
    level = "read_committed" if isolation else "read_uncommitted"
    limits = "".join(f", {key} {value}" for key, value in fields.items())
    text = f"{topic}-{index} at {offset}, {level}{limits}"
    return await script.send("Fetch", version, values, client_id="reader", text=text)


async def list_offset(
    script: Recorder, topic: str, timestamp: int, isolation: int, version: int = 9
) -> Any:
    """Send ListOffsets for partition 0."""
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    values = {
        "replica_id": -1,
        "isolation_level": isolation,
        "topics": [{"name": topic, "partitions": [partition]}],
    }
    return await script.send("ListOffsets", version, values, client_id="reader")


async def describe_producers(
    script: Recorder, topic: str, *indexes: int, client_id: str = "admin"
) -> Any:
    values = {"topics": [{"name": topic, "partition_indexes": indexes or (0,)}]}
    return await script.send("DescribeProducers", 0, values, client_id=client_id)


async def list_transactions(script: Recorder, version: int = 2, **filters: Any) -> Any:
    return await script.send("ListTransactions", version, filters)


async def write_marker(
    script: Recorder,
    producer: Producer,
    topic: str,
    *indexes: int,
    version: int = 1,
    commit: bool = False,
    client_id: str = "admin",
    **fields: Any,
) -> Any:
    """Send WriteTxnMarkers, as a coordinator does."""
    marker = {
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "transaction_result": commit,
        "topics": [{"name": topic, "partition_indexes": indexes or (0,)}],
        "coordinator_epoch": 0,
        **fields,
    }
    values = {"markers": [marker]}
    return await script.send("WriteTxnMarkers", version, values, client_id=client_id)
