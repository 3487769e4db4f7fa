"""The history of a run as data: what each client did, and how the broker responded.

An operation has two positions in the order of all events: `began` (the request was sent) and
`ended` (the response arrived, or the client gave up). One operation happened before another one
only if it ended before the other began; otherwise they are concurrent, and the broker may have
executed them in either order. The outcome is `ok`, `fail` (the broker guarantees that it had no
effect) or `info` (unknown: a lost connection, a timeout). Jepsen's histories use the same types.

A run has one topic, so a number identifies a partition. Values and the metadata of commits are
unique, so every read shows which operation wrote the value.
"""

from dataclasses import dataclass, fields
from typing import Any, Final, Literal, NamedTuple

Outcome = Literal["ok", "fail", "info"]

# The description of an operation lists at most this many records.
_TEXT_VALUES_MAX: Final = 4

SUCCESSOR: Final = "-successor"
"""The suffix of the name of a client's second producer, which fences the first."""


@dataclass(kw_only=True, slots=True, eq=False)
class Operation:
    """What a client did. `client`: the name of one client instance; the next instance after a crash
    gets another name. `ended`: None if the operation was pending at the end of the run."""

    client: str
    began: int = 0
    ended: int | None = None
    began_s: float = 0
    ended_s: float | None = None
    outcome: Outcome = "info"
    error: str = ""
    """Kafka's name for the broker's error, or why there is no response."""

    @property
    def is_ok(self) -> bool:
        return self.outcome == "ok"

    def precedes(self, other: "Operation") -> bool:
        """Return whether this operation ended before the other one began."""
        return self.ended is not None and self.ended < other.began

    def to_json(self) -> dict[str, Any]:
        return {
            "operation": type(self).__name__,
            **{field.name: getattr(self, field.name) for field in fields(self)},
        }

    def describe(self) -> str:
        """Return one sentence in plain English, without its subject."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.began_s:9.3f} s  {self.client} {self.describe()}"

    def _result(self, ok: str = "acknowledged") -> str:
        if self.outcome == "ok":
            return ok
        if self.outcome == "fail":
            return f"rejected with {self.error}"
        return f"outcome unknown ({self.error or 'no response'})"


@dataclass(kw_only=True, slots=True, eq=False)
class Send(Operation):
    """A batch of records was sent. `offset`: the offset of the first record, None if unknown.
    `transaction`: None outside of a transaction. `producer`: the producer id and epoch, None
    without idempotence."""

    partition: int
    values: tuple[str, ...]
    offset: int | None = None
    transaction: str | None = None
    producer: tuple[int, int] | None = None

    def describe(self) -> str:
        where = f" in transaction {self.transaction}" if self.transaction else ""
        at = "" if self.offset is None else f" at offset {self.offset}"
        values = _shorten(self.values)
        return f"sent {values} to partition {self.partition}{where}: " + self._result(
            f"acknowledged{at}"
        )


class Batch(NamedTuple):
    """The first and last offset of a batch as fetched."""

    first: int
    last: int


@dataclass(kw_only=True, slots=True, eq=False)
class Poll(Operation):
    """One partition was fetched from `position`; the client continues at `next_position`. `node`:
    the leader of the partition, in `leader_epoch` (-1 if the broker returns none). `mode`: how the
    client got the partition; `final` is a read of everything after the run. `batches`: recorded for
    final reads only."""

    partition: int
    position: int
    next_position: int
    offsets: tuple[int, ...]
    values: tuple[str, ...]
    high_watermark: int
    node: int
    leader_epoch: int
    mode: Literal["assign", "subscribe", "final"]
    is_committed: bool
    """Whether the isolation level is read_committed; otherwise it is read_uncommitted."""
    batches: tuple[Batch, ...] = ()
    group: str | None = None
    transaction: str | None = None

    def describe(self) -> str:
        level = "read_committed" if self.is_committed else "read_uncommitted"
        read = ", ".join(
            f"{value} at {offset}"
            for offset, value in zip(
                self.offsets[:_TEXT_VALUES_MAX], self.values[:_TEXT_VALUES_MAX], strict=True
            )
        )
        more = len(self.offsets) - _TEXT_VALUES_MAX
        read += f", … ({len(self.offsets)} records up to {self.offsets[-1]})" if more > 0 else ""
        return (
            f"polled partition {self.partition} from offset {self.position} ({self.mode}, {level}):"
            f" {read or 'nothing'}; next {self.next_position}, high watermark {self.high_watermark}"
        )


@dataclass(kw_only=True, slots=True, eq=False)
class OutOfRange(Operation):
    """The broker rejected a fetch from `position` with OFFSET_OUT_OF_RANGE."""

    partition: int
    position: int

    def describe(self) -> str:
        return (
            f"polled partition {self.partition} from offset {self.position}: rejected with "
            f"{self.error}"
        )


@dataclass(kw_only=True, slots=True, eq=False)
class ReadEnd(Operation):
    """ListOffsets returned the end of a partition after the run (with read_committed, the last
    stable offset)."""

    partition: int
    is_committed: bool
    offset: int

    def describe(self) -> str:
        level = "read_committed" if self.is_committed else "read_uncommitted"
        return f"read the end of partition {self.partition} ({level}): offset {self.offset}"


@dataclass(kw_only=True, slots=True, eq=False)
class TopicMissing(Operation):
    """After the run, the broker responded until `ended` that the topic does not exist."""

    topic: str

    def describe(self) -> str:
        return f"read the metadata of {self.topic}: UNKNOWN_TOPIC_OR_PARTITION"


@dataclass(kw_only=True, slots=True, eq=False)
class InitProducer(Operation):
    """A producer was initialized (InitProducerId)."""

    transactional_id: str | None
    producer_id: int = -1
    epoch: int = -1

    def describe(self) -> str:
        what = f" {self.transactional_id}" if self.transactional_id else ""
        result = self._result(f"producer id {self.producer_id}, epoch {self.epoch}")
        return f"initialized producer{what}: {result}"


@dataclass(kw_only=True, slots=True, eq=False)
class EndTransaction(Operation):
    """A transaction was committed or aborted (EndTxn)."""

    transaction: str
    is_commit: bool
    producer: tuple[int, int]

    def describe(self) -> str:
        verb = "committed" if self.is_commit else "aborted"
        return f"{verb} transaction {self.transaction}: {self._result()}"


@dataclass(kw_only=True, slots=True, eq=False)
class Assigned(Operation):
    """A member received its assignment, in the response to a SyncGroup or ConsumerGroupHeartbeat.
    `generation`: the generation or member epoch. `leader`: the leader of the generation, "" with
    the consumer protocol."""

    group: str
    member: str
    generation: int
    partitions: tuple[int, ...]
    leader: str = ""

    def describe(self) -> str:
        number = "generation" if self.leader else "member epoch"
        return (
            f"(member {_short(self.member)} of {self.group}) was assigned partitions "
            f"{list(self.partitions)} in {number} {self.generation}"
        )


@dataclass(kw_only=True, slots=True, eq=False)
class Joined(Operation):
    """A member joined a classic group (JoinGroup); its assignment follows."""

    group: str
    member: str
    generation: int = -1
    leader: str = ""

    def describe(self) -> str:
        result = self._result(f"generation {self.generation}, leader {_short(self.leader)}")
        return f"joined group {self.group}: {result}"


@dataclass(kw_only=True, slots=True, eq=False)
class Heartbeat(Operation):
    """A member sent a heartbeat while it owned `partitions`. `epoch`: the member epoch in the
    response, -1 with the classic protocol."""

    group: str
    member: str
    generation: int
    partitions: tuple[int, ...]
    epoch: int = -1

    def describe(self) -> str:
        owned = f"generation {self.generation} owning partitions {list(self.partitions)}"
        epoch = f", member epoch {self.epoch}" if self.epoch >= 0 else ""
        result = self._result(f"accepted{epoch}")
        return (
            f"(member {_short(self.member)} of {self.group}) sent a heartbeat in {owned}: {result}"
        )


@dataclass(kw_only=True, slots=True, eq=False)
class Left(Operation):
    """A member left its group (LeaveGroup, or a heartbeat with epoch -1)."""

    group: str
    member: str

    def describe(self) -> str:
        return f"(member {_short(self.member)}) left group {self.group}: {self._result()}"


@dataclass(kw_only=True, slots=True, eq=False)
class Commit(Operation):
    """An offset of one partition was committed. With a `transaction`, the commit takes effect when
    the transaction is committed, and the records from `begin` on were consumed in the transaction.
    `is_classic`: false if `generation` is a member epoch."""

    group: str
    partition: int
    offset: int
    metadata: str
    member: str
    generation: int
    is_classic: bool
    transaction: str | None = None
    begin: int = -1

    def describe(self) -> str:
        where = f" in transaction {self.transaction}" if self.transaction else ""
        return (
            f"(member {_short(self.member)}, generation {self.generation}) committed offset "
            f"{self.offset} of partition {self.partition} for {self.group} as {self.metadata}"
            f"{where}: {self._result()}"
        )


@dataclass(kw_only=True, slots=True, eq=False)
class ReadCommitted(Operation):
    """OffsetFetch returned the committed offset of a partition, -1 if there is none. `metadata`:
    the metadata of the commit."""

    group: str
    partition: int
    offset: int = -1
    metadata: str = ""
    is_final: bool = False

    def describe(self) -> str:
        found = f"{self.offset}, by commit {self.metadata}" if self.offset >= 0 else "none"
        return f"read the committed offset of partition {self.partition} for {self.group}: {found}"


@dataclass(kw_only=True, slots=True, eq=False)
class Event(Operation):
    """A nemesis disturbed the broker, or a client crashed. `what`: what happened; `crashed` for a
    client. `nemesis`: the name of the nemesis, "" for a client."""

    what: str
    nemesis: str = ""

    def describe(self) -> str:
        return self.what


def _shorten(values: tuple[str, ...]) -> str:
    text = ", ".join(values[:_TEXT_VALUES_MAX])
    return text if len(values) <= _TEXT_VALUES_MAX else f"{text}, … ({len(values)})"


def _short(member: str) -> str:
    """Return the end of a member id, which is unique within a run."""
    return member if len(member) <= 16 else f"…{member[-8:]}"
