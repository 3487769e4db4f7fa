"""Tiny histories: operations with defaults, one after the other unless they are concurrent."""

from itertools import count
from typing import Any

from kohort.check.analysis import analyze
from kohort.check.history import (
    Assigned,
    Commit,
    EndTransaction,
    Heartbeat,
    InitProducer,
    Joined,
    Left,
    Operation,
    Outcome,
    OutOfRange,
    Poll,
    ReadCommitted,
    ReadEnd,
    Send,
)

GROUP = "g"


def anomalies(*steps: Operation | tuple[Operation, ...]) -> set[str]:
    """Return the names of the anomalies in a history. The operations of a tuple are concurrent."""
    events = count(1)
    operations: list[Operation] = []
    for step in steps:
        group = step if isinstance(step, tuple) else (step,)
        for each in group:
            each.began = next(events)
        for each in group:
            each.ended = next(events)
        operations += group
    return {finding.check.name for finding in analyze(operations)}


def send(
    values: str,
    offset: int | None = None,
    *,
    partition: int = 0,
    outcome: Outcome = "ok",
    client: str = "producer",
    transaction: str | None = None,
    producer: tuple[int, int] | None = (1, 0),
) -> Send:
    return Send(
        client=client,
        partition=partition,
        values=tuple(values.split()),
        offset=offset,
        outcome=outcome,
        transaction=transaction,
        producer=producer,
    )


def poll(
    *records: tuple[int, str],
    position: int = 0,
    next_position: int | None = None,
    high_watermark: int = 10,
    partition: int = 0,
    client: str = "reader",
    is_committed: bool = True,
    **more: Any,
) -> Poll:
    last = records[-1][0] + 1 if records else position
    return Poll(
        client=client,
        partition=partition,
        position=position,
        next_position=last if next_position is None else next_position,
        offsets=tuple(offset for offset, _ in records),
        values=tuple(value for _, value in records),
        high_watermark=high_watermark,
        node=more.pop("node", 1),
        leader_epoch=more.pop("leader_epoch", 0),
        mode=more.pop("mode", "assign"),
        is_committed=is_committed,
        outcome="ok",
        **more,
    )


def out_of_range(position: int) -> OutOfRange:
    return OutOfRange(
        client="reader",
        partition=0,
        position=position,
        outcome="fail",
        error="OFFSET_OUT_OF_RANGE",
    )


def final(*records: tuple[int, str], **more: Any) -> Poll:
    return poll(*records, client="final", mode="final", **more)


def read_end(offset: int) -> ReadEnd:
    return ReadEnd(client="final", partition=0, is_committed=True, offset=offset, outcome="ok")


def end(
    transaction: str,
    *,
    commit: bool = True,
    outcome: Outcome = "ok",
    producer: tuple[int, int] = (1, 0),
) -> EndTransaction:
    return EndTransaction(
        client="producer",
        transaction=transaction,
        is_commit=commit,
        outcome=outcome,
        producer=producer,
    )


def init(producer_id: int, epoch: int, client: str = "producer") -> InitProducer:
    return InitProducer(
        client=client,
        transactional_id="t",
        producer_id=producer_id,
        epoch=epoch,
        outcome="ok",
    )


def _of(member: str, outcome: Outcome = "ok") -> dict[str, Any]:
    """The fields that all operations of a member have."""
    return {"client": member, "group": GROUP, "member": member, "outcome": outcome}


def assigned(member: str, generation: int, *partitions: int, leader: str = "") -> Assigned:
    """An assignment; with a leader, in a classic group."""
    return Assigned(**_of(member), generation=generation, partitions=partitions, leader=leader)


def joined(member: str, generation: int) -> Joined:
    return Joined(**_of(member), generation=generation, leader=member)


def heartbeat(
    member: str, generation: int, *partitions: int, epoch: int = -1, error: str = ""
) -> Heartbeat:
    return Heartbeat(
        **_of(member, "fail" if error else "ok"),
        generation=generation,
        partitions=partitions,
        epoch=epoch,
        error=error,
    )


def left(member: str) -> Left:
    return Left(**_of(member))


def commit(
    metadata: str,
    offset: int,
    *,
    member: str = "m",
    generation: int = 1,
    outcome: Outcome = "ok",
    transaction: str | None = None,
    is_classic: bool = True,
    begin: int = -1,
) -> Commit:
    return Commit(
        **_of(member, outcome),
        partition=0,
        offset=offset,
        metadata=metadata,
        generation=generation,
        is_classic=is_classic,
        transaction=transaction,
        begin=begin,
    )


def read(metadata: str = "", offset: int = -1) -> ReadCommitted:
    return ReadCommitted(
        client="reader", group=GROUP, partition=0, offset=offset, metadata=metadata, outcome="ok"
    )


def delivered(next_position: int) -> Poll:
    """A poll with which a member of the group reached this offset."""
    return poll(next_position=next_position, group=GROUP, mode="subscribe")
