"""What workers say when they join and what they are given, in the bytes of Kafka's
IncrementalCooperativeConnectProtocol. Big-endian; a string has two bytes of length, -1 for null.

Version 0 belongs to the eager protocol `default`, 1 to `compatible`, 2 to `sessioned`: workers
that offer all three vote for `sessioned`. From 1 on a worker says what it runs, and its answer
says what to stop and how long to wait; 2 has no other bytes than 1.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from .model import CONNECTOR_TASK, Piece

PROTOCOL_TYPE: Final = "connect"
PROTOCOLS: Final = {"sessioned": 2, "compatible": 1, "default": 0}
"""Names by preference, with the version that their bytes begin with."""

NO_ERROR: Final = 0
CONFIG_MISMATCH: Final = 1
"""A worker knows a newer configuration than the leader: all join again."""

_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")


class UndecodableConnectBlob(ValueError):
    """Bytes that no worker and no leader of Connect could have meant."""


@dataclass(frozen=True, slots=True)
class WorkerAssignment:
    """What one worker is given (ExtendedAssignment); in its metadata, what it runs."""

    leader: str
    leader_url: str
    config_offset: int
    """Of the configuration that it was decided on."""
    assigned: tuple[Piece, ...] = ()
    revoked: tuple[Piece, ...] = ()
    delay_ms: int = 0
    error: int = NO_ERROR


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What one worker says (ExtendedWorkerState)."""

    url: str
    config_offset: int
    """Of the newest configuration that it has read."""
    allocation: WorkerAssignment | None = None
    """What it runs now; None for nothing, or from a worker that cannot say."""


def write_metadata(state: WorkerState, version: int = 2) -> bytes:
    said = _INT16.pack(version) + _string(state.url) + _INT64.pack(state.config_offset)
    if version == 0:
        return said
    if state.allocation is None:
        return said + _INT32.pack(-1)
    allocation = write_assignment(state.allocation, version)
    return said + _INT32.pack(len(allocation)) + allocation


def read_metadata(blob: bytes) -> WorkerState:
    """Raises UndecodableConnectBlob."""
    reader = _Reader(blob)
    version = reader.version()
    state = WorkerState(reader.string(), reader.int64())
    if version == 0:
        return state
    size = reader.int32()
    if size < 0:
        return state
    return WorkerState(state.url, state.config_offset, read_assignment(reader.take(size)))


def write_assignment(given: WorkerAssignment, version: int = 2) -> bytes:
    said = _INT16.pack(version) + _INT16.pack(given.error)
    said += _string(given.leader) + _string(given.leader_url) + _INT64.pack(given.config_offset)
    said += _work(given.assigned)
    if version == 0:
        return said
    return said + _work(given.revoked) + _INT32.pack(given.delay_ms)


def read_assignment(blob: bytes) -> WorkerAssignment:
    """Raises UndecodableConnectBlob."""
    reader = _Reader(blob)
    version = reader.version()
    error = reader.int16()
    leader, url, offset = reader.string(), reader.string(), reader.int64()
    assigned = reader.work()
    revoked = reader.work() if version else ()
    delay_ms = reader.int32() if version else 0
    return WorkerAssignment(leader, url, offset, assigned, revoked, delay_ms, error)


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _work(work: Iterable[Piece]) -> bytes:
    """By connector, in the order in which each comes first: connectors, then tasks."""
    by_connector: dict[str, list[int]] = {}
    for name, task in sorted(work, key=lambda piece: piece[1] != CONNECTOR_TASK):
        by_connector.setdefault(name, []).append(task)
    said = _INT32.pack(len(by_connector))
    for name, tasks in by_connector.items():
        said += _string(name) + _INT32.pack(len(tasks)) + b"".join(map(_INT32.pack, tasks))
    return said


@dataclass(slots=True)
class _Reader:
    _blob: bytes
    _at: int = field(default=0)

    def version(self) -> int:
        """Newer ones are read as the newest that is known: bodies only grow."""
        version = self.int16()
        if version < 0:
            raise UndecodableConnectBlob(f"there is no version {version}")
        return version

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def _number(self, kind: Struct) -> int:
        number: int
        (number,) = kind.unpack(self.take(kind.size))
        return number

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._blob):
            raise UndecodableConnectBlob(f"{size} bytes at {self._at} of {len(self._blob)}")
        data = self._blob[self._at : end]
        self._at = end
        return data

    def string(self) -> str:
        data = self.take(self.int16())
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise UndecodableConnectBlob(f"no UTF-8 at {self._at - len(data)}") from None

    def work(self) -> tuple[Piece, ...]:
        """Null and an empty array both mean none."""
        work: list[Piece] = []
        for _ in range(self.int32()):
            name = self.string()
            work += [(name, self.int32()) for _ in range(self.int32())]
        return tuple(work)
