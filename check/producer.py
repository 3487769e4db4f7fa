"""A producer: plain, idempotent or transactional, with the protocol of KIP-890 or the earlier one.

It has at most one request in flight, so the broker must keep the order of its requests. An
idempotent producer repeats a request with an unknown outcome until the outcome is known. A plain
producer never repeats a request, because the broker could not recognize the duplicate.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from ..log.batch import TRANSACTIONAL, BatchHeader, assemble, encode_record
from ..protocol.errors import ErrorCode
from .cluster import GROUP, MOVED, TRANSACTION, Cluster, back_off
from .connection import Disconnected, Fields, NotSent
from .history import Commit, EndTransaction, InitProducer, Operation, Send
from .recorder import History

# A broker may need this long to restart, or to move a leader.
RETRY_SECONDS: Final = 20.0
PRODUCE_TIMEOUT: Final = timedelta(seconds=5)
# Longer than any pause of a nemesis: unless the nemesis advances the clock, the transaction of a
# crashed client ends with the next InitProducerId, not with this timeout.
TRANSACTION_TIMEOUT: Final = timedelta(seconds=60)

# Errors after which the broker may have executed the request (upstream:
# ReplicaManager.appendRecords writes before it responds with these errors, and coordinators map
# errors of their writes to COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR).
_UNKNOWN: Final = frozenset(
    {
        ErrorCode.unknown_server_error,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
    }
)
_RETRIABLE: Final = MOVED | frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_server_error,
    }
)

Attempt = Callable[[], Awaitable[ErrorCode]]


class Producer:
    """A producer. `name`: the name of the client in the history. `transactional_id`: None if the
    producer is not transactional."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        name: str,
        *,
        transactional_id: str | None = None,
        is_idempotent: bool = False,
        implicit: bool = False,
    ) -> None:
        """`implicit`: partitions join a transaction with their first batch (KIP-890)."""
        self.name = name
        self.transactional_id = transactional_id
        self.transaction: str | None = None
        """The id of the current transaction, in the history."""
        self.producer_id = self.epoch = -1
        self._cluster, self._history = cluster, history
        self._has_id = is_idempotent or transactional_id is not None
        self._implicit = implicit
        self._sequences: dict[int, int] = {}
        self._parts: set[int | str] = set()
        self._transactions = 0

    @property
    def version(self) -> int:
        """The version of EndTxn, which determines the transaction's protocol."""
        return 5 if self._implicit else 4

    async def init(self) -> None:
        """Get a producer id if the producer needs one; this ends an earlier transaction of the same
        transactional id. Raises Disconnected, even if the broker responded with an error."""
        if not self._has_id:
            return
        operation = self._history.begin(
            InitProducer(client=self.name, transactional_id=self.transactional_id)
        )

        async def attempt() -> ErrorCode:
            if self.transactional_id is None:
                connection = await self._cluster.any_node()
            else:
                connection = await self._coordinator()
            response = await connection.request(
                "InitProducerId",
                transactional_id=self.transactional_id,
                transaction_timeout=TRANSACTION_TIMEOUT,
            )
            if response.error_code is ErrorCode.none:
                operation.producer_id = self.producer_id = response.producer_id
                operation.epoch = self.epoch = response.producer_epoch
                self._sequences.clear()
            return ErrorCode(response.error_code)

        if not await self._until_known(operation, attempt):
            raise Disconnected(f"InitProducerId: {operation.error}")

    def begin(self) -> None:
        """Begin a transaction, on the client only."""
        self._transactions += 1
        self.transaction = f"{self.name}/{self._transactions}"
        self._parts.clear()

    async def send(self, partition: int, values: Sequence[str]) -> Send:
        """Send one batch. Unless the outcome is `ok`, the producer must be replaced, or its
        transaction has to be aborted."""
        operation = Send(
            client=self.name,
            partition=partition,
            values=tuple(values),
            transaction=self.transaction,
            producer=(self.producer_id, self.epoch) if self._has_id else None,
        )
        self._history.begin(operation)
        batch = self._batch(partition, values)

        async def attempt() -> ErrorCode:
            if self.transaction is not None and not self._implicit and partition not in self._parts:
                error = await self._add_partition(partition)
                if error is not ErrorCode.none:
                    return error
            self._parts.add(partition)
            return await self._produce(operation, batch)

        # Without a producer id, a second attempt could append the records twice.
        if await self._until_known(operation, attempt, repeats=self._has_id):
            self._sequences[partition] = self._sequences.get(partition, 0) + len(values)
        return operation

    async def commit_offset(self, operation: Commit) -> bool:
        """Commit an offset with the transaction. Return whether the commit succeeded."""
        operation.transaction = self.transaction
        self._history.begin(operation)
        producer = self._producer()
        group = operation.group

        async def attempt() -> ErrorCode:
            if not self._implicit and group not in self._parts:
                response = await (await self._coordinator()).request(
                    "AddOffsetsToTxn", **producer, group_id=group
                )
                if response.error_code is not ErrorCode.none:
                    return ErrorCode(response.error_code)
            self._parts.add(group)
            partition = offset_of(operation)
            connection = await self._cluster.coordinator(GROUP, group)
            response = await connection.request(
                "TxnOffsetCommit",
                version_max=self.version,
                **producer,
                group_id=group,
                generation_id=operation.generation,
                member_id=operation.member,
                topics=[Fields(name=self._cluster.topic, partitions=[partition])],
            )
            return ErrorCode(response.topics[0].partitions[0].error_code)

        return await self._until_known(operation, attempt)

    async def end(self, *, commit: bool) -> bool:
        """End the transaction. Return whether its outcome is known; if not, the producer must be
        replaced."""
        assert self.transaction is not None
        operation = EndTransaction(
            client=self.name,
            transaction=self.transaction,
            is_commit=commit,
            producer=(self.producer_id, self.epoch),
        )
        self.transaction = None
        if not self._parts:  # the coordinator has no transaction to end (as in Java's client)
            return True
        self._history.begin(operation)
        producer = self._producer()

        async def attempt() -> ErrorCode:
            response = await (await self._coordinator()).request(
                "EndTxn", version_max=self.version, **producer, committed=commit
            )
            error = ErrorCode(response.error_code)
            if error is ErrorCode.none and self._implicit and response.producer_id >= 0:
                self.producer_id, self.epoch = response.producer_id, response.producer_epoch
                self._sequences.clear()
            return error

        return await self._until_known(operation, attempt)

    async def _until_known(
        self, operation: Operation, attempt: Attempt, *, repeats: bool = True
    ) -> bool:
        """Attempt an operation until it has succeeded or can no longer succeed, and record the
        outcome: `fail` only if the broker cannot have executed any attempt."""
        deadline = time.monotonic() + RETRY_SECONDS
        is_unknown, problem = False, "timeout"
        while time.monotonic() < deadline:
            retriable = True
            try:
                error = await attempt()
                if error is ErrorCode.none:
                    self._history.end(operation, "ok")
                    return True
                problem = error.name.upper()
                retriable = error in _RETRIABLE
                is_unknown |= error in _UNKNOWN
                if error in MOVED:
                    self._cluster.forget()
            except NotSent as error_:
                problem = str(error_)
                self._cluster.forget()
            except Disconnected as error_:
                problem, is_unknown = str(error_), True
                self._cluster.forget()
            if not retriable or (is_unknown and not repeats):
                break
            await back_off()
        self._history.end(operation, "info" if is_unknown else "fail", problem)
        return False

    async def _add_partition(self, partition: int) -> ErrorCode:
        producer = {f"v3_and_below_{key}": value for key, value in self._producer().items()}
        topics = [Fields(name=self._cluster.topic, partitions=[partition])]
        try:
            response = await (await self._coordinator()).request(
                "AddPartitionsToTxn", **producer, v3_and_below_topics=topics
            )
        except Disconnected as error:
            # A partition that is added without records does not change the outcome of the send.
            raise NotSent(str(error)) from error
        (result,) = response.results_by_topic_v3_and_below[0].results_by_partition
        return ErrorCode(result.partition_error_code)

    async def _produce(self, operation: Send, batch: bytes) -> ErrorCode:
        _, connection = await self._cluster.leader(operation.partition)
        part = Fields(index=operation.partition, records=batch)
        response = await connection.request(
            "Produce",
            # The broker adds partitions to a transaction by itself only from version 12 on.
            version_max=12 if self._implicit or self.transaction is None else 11,
            transactional_id=self.transactional_id,
            acks=-1,
            timeout=PRODUCE_TIMEOUT,
            topic_data=[Fields(name=self._cluster.topic, partition_data=[part])],
        )
        found = response.responses[0].partition_responses[0]
        error = ErrorCode(found.error_code)
        if error is ErrorCode.duplicate_sequence_number:
            return ErrorCode.none  # the batch was appended before, at an unknown offset
        if error is ErrorCode.none and found.base_offset >= 0:
            operation.offset = found.base_offset
        return error

    def _batch(self, partition: int, values: Sequence[str]) -> bytes:
        now_ms, count = round(time.time() * 1000), len(values)
        sequence = self._sequences.get(partition, 0) if self._has_id else -1
        attributes = 0 if self.transaction is None else TRANSACTIONAL
        producer = self.producer_id, self.epoch, sequence
        header = BatchHeader(
            0, 0, -1, 2, 0, attributes, count - 1, now_ms, now_ms, *producer, count
        )
        payload = b"".join(
            encode_record(number, 0, None, value.encode(), ())
            for number, value in enumerate(values)
        )
        return assemble(header, payload)

    def _producer(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    async def _coordinator(self) -> Any:
        assert self.transactional_id is not None
        return await self._cluster.coordinator(TRANSACTION, self.transactional_id)


def offset_of(operation: Commit) -> Fields:
    """Return a commit's partition and offset in the form that requests use."""
    return Fields(
        partition_index=operation.partition,
        committed_offset=operation.offset,
        committed_metadata=operation.metadata,
    )
