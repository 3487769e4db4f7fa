"""The encoding of Kafka's IncrementalCooperativeConnectProtocol: worker metadata and assignments.

Version 0 is for the eager protocol `default`, 1 for `compatible`, 2 for `sessioned`. Workers that
support all three vote for `sessioned`. Since version 1, metadata contains the worker's current
assignment, and assignments contain revocations and the delay. Versions 1 and 2 have the same
fields. All numbers are big-endian; a string is an int16 length and UTF-8.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

PROTOCOL_TYPE: Final = "connect"
PROTOCOLS: Final = {"sessioned": 2, "compatible": 1, "default": 0}
"""The encoding version of each protocol, in order of preference."""

NO_ERROR: Final = 0
CONFIG_MISMATCH: Final = 1
"""A worker has read a newer configuration than the leader, so all workers rejoin."""

CONNECTOR_TASK: Final = -1
"""The task number of the connector itself (ConnectProtocol.CONNECTOR_TASK)."""
WorkItem: TypeAlias = tuple[str, int]
"""A connector's name and a task number, or CONNECTOR_TASK."""

_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")


class UndecodableConnectMetadata(ValueError):
    """Bytes that are neither valid metadata nor a valid assignment."""


@dataclass(frozen=True, slots=True)
class WorkerAssignment:
    """The assignment of one worker (ExtendedAssignment). In metadata, it is the worker's current
    assignment."""

    leader: str
    leader_url: str
    config_offset: int
    """The config offset on which the assignment is based."""
    assigned: tuple[WorkItem, ...] = ()
    revoked: tuple[WorkItem, ...] = ()
    delay_ms: int = 0
    error: int = NO_ERROR


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The metadata of one worker (ExtendedWorkerState)."""

    url: str
    config_offset: int
    """The offset of the newest configuration that the worker has read."""
    allocation: WorkerAssignment | None = None
    """The worker's current assignment, or None. Always None in v0."""


def write_metadata(state: WorkerState, version: int = 2) -> bytes:
    data = _INT16.pack(version) + _string(state.url) + _INT64.pack(state.config_offset)
    if version == 0:
        return data
    if state.allocation is None:
        return data + _INT32.pack(-1)
    allocation = write_assignment(state.allocation, version)
    return data + _INT32.pack(len(allocation)) + allocation


def read_metadata(blob: bytes) -> WorkerState:
    """Decode a worker's metadata. Raises UndecodableConnectMetadata."""
    reader = _Reader(blob)
    version = reader.version()
    state = WorkerState(reader.string(), reader.number(_INT64))
    if version == 0:
        return state
    size = reader.number(_INT32)
    if size < 0:
        return state
    return WorkerState(state.url, state.config_offset, read_assignment(reader.take(size)))


def write_assignment(assignment: WorkerAssignment, version: int = 2) -> bytes:
    data = _INT16.pack(version) + _INT16.pack(assignment.error)
    data += _string(assignment.leader) + _string(assignment.leader_url)
    data += _INT64.pack(assignment.config_offset) + _work(assignment.assigned)
    if version == 0:
        return data
    return data + _work(assignment.revoked) + _INT32.pack(assignment.delay_ms)


def read_assignment(blob: bytes) -> WorkerAssignment:
    """Decode an assignment. Raises UndecodableConnectMetadata."""
    reader = _Reader(blob)
    version = reader.version()
    error = reader.number(_INT16)
    leader, url, offset = reader.string(), reader.string(), reader.number(_INT64)
    assigned = reader.work()
    revoked = reader.work() if version else ()
    delay_ms = reader.number(_INT32) if version else 0
    return WorkerAssignment(leader, url, offset, assigned, revoked, delay_ms, error)


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _work(items: Iterable[WorkItem]) -> bytes:
    """Encode items by connector. Connectors whose own item is included come first."""
    by_connector: dict[str, list[int]] = {}
    for name, task in sorted(items, key=lambda item: item[1] != CONNECTOR_TASK):
        by_connector.setdefault(name, []).append(task)
    data = _INT32.pack(len(by_connector))
    for name, tasks in by_connector.items():
        data += _string(name) + _INT32.pack(len(tasks)) + b"".join(map(_INT32.pack, tasks))
    return data


class _Reader:
    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self._position = 0

    def version(self) -> int:
        """Read the version. Newer versions are decoded like the newest known version, because they
        only append fields."""
        version = self.number(_INT16)
        if version < 0:
            raise UndecodableConnectMetadata(f"invalid version {version}")
        return version

    def number(self, kind: Struct) -> int:
        number: int
        (number,) = kind.unpack(self.take(kind.size))
        return number

    def take(self, size: int) -> bytes:
        start, end, total = self._position, self._position + size, len(self._blob)
        if size < 0 or end > total:
            raise UndecodableConnectMetadata(f"cannot read {size} bytes at byte {start} of {total}")
        self._position = end
        return self._blob[start:end]

    def string(self) -> str:
        data = self.take(self.number(_INT16))
        try:
            return data.decode()
        except UnicodeDecodeError:
            position = self._position - len(data)
            raise UndecodableConnectMetadata(f"invalid UTF-8 at position {position}") from None

    def work(self) -> tuple[WorkItem, ...]:
        """Read an array of work items. A null array is read as empty."""
        items: list[WorkItem] = []
        for _ in range(self.number(_INT32)):
            name = self.string()
            items += [(name, self.number(_INT32)) for _ in range(self.number(_INT32))]
        return tuple(items)
