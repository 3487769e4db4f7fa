"""Idempotent producers: which batch is next, which was here already (KIP-98, KIP-679).

Per producer the last five batches are known, since a client has at most five in flight
(upstream: ProducerStateManager, ProducerStateEntry, ProducerAppendInfo).
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ..log.batch import BatchHeader
from ..protocol.errors import ErrorCode
from .errors import Refused

__all__ = ["BatchSeen", "Producers"]

BATCHES_REMEMBERED: Final = 5
SEQUENCE_MAX: Final = 2**31 - 1
NO_EPOCH: Final = -1


class BatchSeen(NamedTuple):
    """A batch in the log, as its producer would send it again."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp: int


class _Producer:
    __slots__ = ("batches", "epoch", "seen_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[BatchSeen] = deque(maxlen=BATCHES_REMEMBERED)
        self.seen_ms = 0


class Producers:
    """The producers of one partition. `note` is the only writer, live and when a log is read."""

    __slots__ = ("_expiration_ms", "_producers")

    def __init__(self, expiration_ms: Callable[[], int]) -> None:
        self._expiration_ms = expiration_ms
        # In the order of their last batch, so that the idle ones are in front.
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def active(self, now_ms: int) -> Iterator[tuple[int, int, BatchSeen]]:
        """(producer id, epoch, last batch) of each that is not idle for too long."""
        expiration_ms = self._expiration_ms()
        for producer_id, producer in self._producers.items():
            if now_ms - producer.seen_ms < expiration_ms:
                yield producer_id, producer.epoch, producer.batches[-1]

    def duplicate_of(self, header: BatchHeader) -> BatchSeen | None:
        """The batch in the log that `header` repeats, if it is one of the last five."""
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        for seen in producer.batches:
            if (
                seen.first_sequence == header.base_sequence
                and seen.last_sequence == header.last_sequence
            ):
                return seen
        return None

    def check(self, header: BatchHeader, partition: str) -> None:
        """Raises Refused when `header` is not what comes next from its producer."""
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch == NO_EPOCH:
            # Nothing is known here (new, expired, or its records are gone), so nothing is wrong.
            return
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch < producer.epoch:
            raise Refused(
                ErrorCode.invalid_producer_epoch,
                f"Epoch of producer {header.producer_id} in {partition} is {epoch}, "
                f"which is smaller than the last seen epoch {producer.epoch}",
            )
        last = producer.batches[-1].last_sequence if epoch == producer.epoch else SEQUENCE_MAX
        expected = 0 if last == SEQUENCE_MAX else last + 1
        if sequence != expected:
            raise Refused(
                ErrorCode.out_of_order_sequence_number,
                f"Out of order sequence number for producer {header.producer_id} in {partition}: "
                f"{sequence} (incoming seq. number), {expected} (expected)",
            )

    def note(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """`header`'s batch is in the log at `base_offset`."""
        producers = self._producers
        producer = producers.pop(header.producer_id, None)
        if producer is None:
            self._forget_idle(now_ms)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = _Producer(header.producer_epoch)
        producer.seen_ms = now_ms
        producer.batches.append(
            BatchSeen(header.base_sequence, header.last_sequence, base_offset, header.max_timestamp)
        )
        producers[header.producer_id] = producer

    def _forget_idle(self, now_ms: int) -> None:
        # Kafka sweeps by a timer; looking when a producer comes keeps the same bound.
        expiration_ms = self._expiration_ms()
        while self._producers:
            producer_id, oldest = next(iter(self._producers.items()))
            if now_ms - oldest.seen_ms < expiration_ms:
                return
            del self._producers[producer_id]
