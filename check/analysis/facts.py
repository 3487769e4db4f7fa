"""The facts of a history about each record, transaction and commit, which all analyses use."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from ..history import (
    EndTransaction,
    Operation,
    Outcome,
    Poll,
    Send,
)

Kind = TypeVar("Kind", bound=Operation)
Earlier = TypeVar("Earlier", bound=Operation)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A counter-example. `what`: one sentence, with offsets and values. `operations`: the
    operations that prove it."""

    what: str
    operations: tuple[Operation, ...]


class Written(NamedTuple):
    """The send that contained a value, and the value's index in the batch."""

    send: Send
    number: int

    @property
    def offset(self) -> int | None:
        """The acknowledged offset of the value, if it is known."""
        return None if self.send.offset is None else self.send.offset + self.number


class Log(NamedTuple):
    """The records of a partition, in the order of their offsets."""

    offsets: tuple[int, ...]
    values: tuple[str, ...]


NO_LOG = Log((), ())


class Facts:
    """The operations of a history, and facts derived from them."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = sorted(operations, key=lambda each: each.began)
        self.sends = self.of(Send)
        self.polls = self.of(Poll)
        self.written = {
            value: Written(send, number)
            for send in self.sends
            for number, value in enumerate(send.values)
        }
        self.ends: dict[str, list[EndTransaction]] = defaultdict(list)
        """The attempts to end each transaction."""
        for end in self.of(EndTransaction):
            self.ends[end.transaction].append(end)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Return the operations of a type, in the order in which they began."""
        return [each for each in self.operations if type(each) is kind]

    def commit_of(self, transaction: str) -> EndTransaction | None:
        """Return the attempt to commit a transaction, if there was one."""
        return next((each for each in self.ends[transaction] if each.is_commit), None)

    def transaction_fate(self, transaction: str | None) -> Outcome:
        """Return whether a transaction was committed. Without a commit, it is aborted by its
        client, by the next client with its transactional id, or after its timeout."""
        if transaction is None:
            return "ok"
        commit = self.commit_of(transaction)
        return "fail" if commit is None else commit.outcome

    def fate(self, send: Send) -> Outcome:
        """Return whether the records of a send must (`ok`), must not (`fail`) or may (`info`) be
        visible to consumers with read_committed."""
        fates = {send.outcome, self.transaction_fate(send.transaction)}
        if "fail" in fates:
            return "fail"
        return "info" if "info" in fates else "ok"

    @cached_property
    def final(self) -> dict[tuple[int, bool], dict[int, str]]:
        """The values that the final reads returned, by partition and is_committed, then by
        offset."""
        found: dict[tuple[int, bool], dict[int, str]] = {}
        for poll in self.final_polls():
            known = found.setdefault((poll.partition, poll.is_committed), {})
            for offset, value in zip(poll.offsets, poll.values, strict=True):
                known.setdefault(offset, value)
        return found

    @cached_property
    def final_end(self) -> dict[tuple[int, bool], int]:
        """The offset that the final read reached, by partition and is_committed."""
        found: dict[tuple[int, bool], int] = {}
        for poll in self.final_polls():
            key = poll.partition, poll.is_committed
            found[key] = max(found.get(key, 0), poll.next_position)
        return found

    def final_polls(self) -> Iterator[Poll]:
        return (each for each in self.polls if each.mode == "final")

    @cached_property
    def final_logs(self) -> dict[tuple[int, bool], Log]:
        """The records of the final read, by partition and is_committed."""
        return {
            key: Log(tuple(sorted(found)), tuple(found[each] for each in sorted(found)))
            for key, found in self.final.items()
        }

    @cached_property
    def irregular(self) -> list[Poll]:
        """The final polls, and the polls whose records differ from the final read's records at the
        same offsets. No check examines the other polls, which are the majority, because they only
        repeat what the final polls show."""
        return [each for each in self.polls if each.mode == "final" or self.place(each) is None]

    def place(self, poll: Poll) -> slice | None:
        """Return the records of a poll as a slice of the final log; None if they differ."""
        log = self.final_logs.get((poll.partition, poll.is_committed), NO_LOG)
        begin = bisect_left(log.offsets, poll.position)
        end = bisect_left(log.offsets, poll.next_position)
        if log.offsets[begin:end] != poll.offsets or log.values[begin:end] != poll.values:
            return None
        return slice(begin, end)

    @cached_property
    def first_reads(self) -> dict[int, dict[int, dict[str, Poll]]]:
        """The first irregular poll that returned a value at an offset: by partition, offset and
        value."""
        found: dict[int, dict[int, dict[str, Poll]]] = defaultdict(dict)
        for poll in self.irregular:
            offsets = found[poll.partition]
            for offset, value in zip(poll.offsets, poll.values, strict=True):
                offsets.setdefault(offset, {}).setdefault(value, poll)
        return found


def highest_before(
    operations: Iterable[Kind],
    earlier: Sequence[Earlier],
    number: Callable[[Earlier], int],
    subject: Callable[[Any], object],
) -> Iterator[tuple[Kind, Earlier]]:
    """Yield pairs of an operation and an `earlier` operation on the same subject that ended before
    the operation began. Of several earlier operations, the one with the highest number is used.
    `operations` are in the order in which they began."""
    ended = sorted((each for each in earlier if each.ended is not None), key=attrgetter("ended"))
    highest: dict[object, Earlier] = {}
    at = 0
    for operation in operations:
        while at < len(ended) and ended[at].precedes(operation):
            known = highest.setdefault(subject(ended[at]), ended[at])
            if number(ended[at]) > number(known):
                highest[subject(known)] = ended[at]
            at += 1
        if (found := highest.get(subject(operation))) is not None:
            yield operation, found
