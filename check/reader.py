"""A consumer's fetches: one request per leader, from its positions. Successful responses and
OFFSET_OUT_OF_RANGE are recorded."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, Literal

from ..log.batch import HEADER_BYTES, BatchHeader, check_crc, read_header
from ..log.errors import CorruptBatch, InvalidRecord
from ..log.producer_state import ABORT, marker_type
from ..log.records import Record, records
from ..protocol.errors import ErrorCode
from .cluster import MOVED, Cluster, Leader
from .connection import Connection, Disconnected, Fields
from .history import Batch, OutOfRange, Poll
from .recorder import History

Mode = Literal["assign", "subscribe", "final"]

# With a longer wait, a client notices a rebalance later. Without a wait, most requests would be
# polls.
WAIT: Final = timedelta(milliseconds=100)
# About fifty records, so that polls begin at many positions, and a history fits into memory.
PARTITION_BYTES: Final = 4 * 1024
LATEST: Final = -1
"""The timestamp of ListOffsets that selects the log end."""


class Reader:
    """The fetching part of a consumer. `positions`: the offset of the next fetch, by partition."""

    def __init__(
        self, cluster: Cluster, history: History, name: str, *, mode: Mode, is_committed: bool
    ) -> None:
        self.name = name
        self.positions: dict[int, int] = {}
        self.group: str | None = None
        self._cluster, self._history = cluster, history
        self._mode: Mode = mode
        self.is_committed = is_committed

    async def poll(self, transaction: str | None = None) -> list[Poll]:
        """Fetch all partitions once, and advance. Raises Disconnected."""
        found: list[Poll] = []
        by_node: dict[int, tuple[Connection, dict[int, Leader]]] = {}
        for partition in self.positions:
            leader, connection = await self._cluster.leader(partition)
            by_node.setdefault(leader.node, (connection, {}))[1][partition] = leader
        for connection, leaders in by_node.values():
            began = self._history.now()
            response = await connection.request(
                "Fetch",
                max_wait=WAIT if len(by_node) == 1 else timedelta(0),
                min_bytes=1,
                isolation_level=int(self.is_committed),
                topics=[Fields(topic=self._cluster.topic, partitions=self._wanted(leaders))],
                forgotten_topics_data=(),
            )
            for topic in response.responses:
                for part in topic.partitions:
                    leader = leaders[part.partition_index]
                    if (poll := self._received(part, leader, began, transaction)) is not None:
                        found.append(poll)
        return found

    async def end_offset(self, partition: int) -> int:
        """Return the end of the partition for the reader's isolation level (ListOffsets)."""
        _, connection = await self._cluster.leader(partition)
        wanted = Fields(partition_index=partition, timestamp=LATEST)
        response = await connection.request(
            "ListOffsets",
            replica_id=-1,
            isolation_level=int(self.is_committed),
            topics=[Fields(name=self._cluster.topic, partitions=[wanted])],
        )
        found = response.topics[0].partitions[0]
        if found.error_code is not ErrorCode.none:
            self._cluster.forget()
            raise Disconnected(f"ListOffsets: {found.error_code.name.upper()}")
        return int(found.offset)

    def _wanted(self, leaders: Mapping[int, Leader]) -> list[Fields]:
        """Return the partitions for a Fetch request. With leader epochs, the broker can reject a
        fetch in an epoch other than the current one (KIP-320)."""
        return [
            Fields(
                partition=partition,
                current_leader_epoch=leader.epoch,
                fetch_offset=self.positions[partition],
                partition_max_bytes=PARTITION_BYTES,
            )
            for partition, leader in leaders.items()
        ]

    def _received(
        self, part: Any, leader: Leader, began: tuple[int, float], transaction: str | None
    ) -> Poll | None:
        error = ErrorCode(part.error_code)
        partition = part.partition_index
        if error is not ErrorCode.none:
            if error in MOVED:
                self._cluster.forget()
            elif error is ErrorCode.offset_out_of_range:
                self._out_of_range(partition, began)
            return None
        position = self.positions[partition]
        batches = list(_batches(bytes(part.records or b"")))
        if self.is_committed:
            visible = _committed(batches, part.aborted_transactions or ())
        else:
            visible = [each for each in batches if not each[1].is_control]
        read = [
            (record.offset, self._history.text(record.value or b""))
            for whole, header in visible
            for record in _records(whole, header)
            # The first batch may begin before the position. The records of a batch that ends before
            # the position are kept as evidence, because no correct response contains such a batch.
            if record.offset >= position or header.last_offset < position
        ]
        last = batches[-1][1].last_offset if batches else position - 1
        self.positions[partition] = max(position, last + 1)
        poll = Poll(
            client=self.name,
            partition=partition,
            position=position,
            next_position=self.positions[partition],
            offsets=tuple(offset for offset, _ in read),
            values=tuple(value for _, value in read),
            high_watermark=part.high_watermark,
            node=leader.node,
            leader_epoch=leader.epoch,
            mode=self._mode,
            is_committed=self.is_committed,
            group=self.group,
            transaction=transaction,
        )
        if self._mode == "final":
            poll.batches = tuple(Batch(each.base_offset, each.last_offset) for _, each in batches)
        return self._history.add(poll, began)

    def _out_of_range(self, partition: int, began: tuple[int, float]) -> None:
        rejected = OutOfRange(
            client=self.name, partition=partition, position=self.positions[partition]
        )
        self._history.add(rejected, began)
        rejected.outcome, rejected.error = "fail", ErrorCode.offset_out_of_range.name.upper()
        # A final read already has the records before its position.
        if self._mode != "final":
            self.positions[partition] = 0


def _batches(data: bytes) -> Iterator[tuple[bytes, BatchHeader]]:
    """Yield the complete batches; the last one may be cut off."""
    position = 0
    while len(data) - position >= HEADER_BYTES:
        header = read_header(data, position)
        size = max(header.size, HEADER_BYTES)
        if size > len(data) - position:
            return
        yield data[position : position + size], header
        position += size


def _records(batch: bytes, header: BatchHeader) -> list[Record]:
    """Return the records of a batch. For a corrupt batch, return a record with a value that no
    client has sent, so that the analysis reports it."""
    if _is_intact(batch):
        with suppress(InvalidRecord):  # the checksum is valid, but the records are corrupt
            return list(records(batch))
    return [Record(header.base_offset, 0, None, b"(corrupt batch)")]


def _is_intact(batch: bytes) -> bool:
    try:
        check_crc(batch, 0, len(batch))
    except CorruptBatch:
        return False
    return True


def _committed(
    batches: list[tuple[bytes, BatchHeader]], aborted_transactions: Any
) -> list[tuple[bytes, BatchHeader]]:
    """Return the batches that a read_committed consumer sees. The batches of an aborted transaction
    lie between its first offset and its marker (upstream: CompletedFetch)."""
    upcoming = sorted((each.first_offset, each.producer_id) for each in aborted_transactions)
    aborted: set[int] = set()
    visible = []
    for whole, header in batches:
        while upcoming and upcoming[0][0] <= header.last_offset:
            aborted.add(upcoming.pop(0)[1])
        if not _is_intact(whole):
            visible.append((whole, header))
        elif header.is_control:
            if marker_type(whole) == ABORT:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            visible.append((whole, header))
    return visible
