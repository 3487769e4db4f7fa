"""What a partition guarantees: an acknowledged record stays at its offset, once and in order."""

from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter

from ..history import Operation, Poll, ReadEnd, Send, TopicMissing
from .facts import Anomaly, Facts, highest_before


def lost_topics(facts: Facts) -> Iterator[Anomaly]:
    """The topic of the run is gone, with all its records. After the run, the broker responds that
    the topic does not exist, until the final reads time out."""
    acknowledged = [each for each in facts.sends if each.is_ok][-1:]
    for missing in facts.of(TopicMissing):
        yield Anomaly(f"topic {missing.topic} no longer exists", (*acknowledged, missing))


def lost_writes(facts: Facts) -> Iterator[Anomaly]:
    """An acknowledged record is missing from the final read, although later offsets were read."""
    for send, value, offset, final in _missing(facts):
        end = facts.final_end[send.partition, True]
        if offset is None or offset < end:
            at = "" if offset is None else f" at offset {offset}"
            yield Anomaly(
                f"{value} was acknowledged{at} of partition {send.partition}, but the "
                f"final read of offsets 0 to {end - 1} does not contain it",
                (send, final),
            )


def unseen(facts: Facts) -> Iterator[Anomaly]:
    """The final read ended too early: before an acknowledged record, or before the end of the
    partition as reported by the broker."""
    last = {(each.partition, each.is_committed): each for each in facts.final_polls()}
    for read in facts.of(ReadEnd):
        key = read.partition, read.is_committed
        reached = facts.final_end.get(key, 0)
        if reached < read.offset:
            yield Anomaly(
                f"partition {read.partition} ends at offset {read.offset}, but cannot be read "
                f"beyond {reached}",
                (read, *((last[key],) if key in last else ())),
            )
    for send, value, offset, final in _missing(facts):
        end = facts.final_end[send.partition, True]
        if offset is not None and offset >= end:
            yield Anomaly(
                f"{value} was acknowledged at offset {offset} of partition {send.partition}, but "
                f"the final read ended at offset {end}",
                (send, final),
            )


def _missing(facts: Facts) -> Iterator[tuple[Send, str, int | None, Poll]]:
    last = {each.partition: each for each in facts.final_polls() if each.is_committed}
    read = {key: set(found.values()) for key, found in facts.final.items()}
    for send in facts.sends:
        if send.partition not in last or facts.fate(send) != "ok":
            continue
        for index, value in enumerate(send.values):
            if value not in read[send.partition, True]:
                offset = None if send.offset is None else send.offset + index
                yield send, value, offset, last[send.partition]


def duplicates(facts: Facts) -> Iterator[Anomaly]:
    """A record appears at two offsets."""
    for partition, offsets in facts.first_reads.items():
        seen: dict[str, tuple[int, Poll]] = {}
        for offset in sorted(offsets):
            for value, poll in offsets[offset].items():
                if value not in seen:
                    seen[value] = offset, poll
                    continue
                earlier, other = seen[value]
                writers = (facts.written[value].send,) if value in facts.written else ()
                yield Anomaly(
                    f"{value} is at offsets {earlier} and {offset} of partition {partition}",
                    tuple(dict.fromkeys((*writers, other, poll))),
                )


def inconsistent_offsets(facts: Facts) -> Iterator[Anomaly]:
    """Two records were acknowledged or read at the same offset."""
    acknowledged: dict[tuple[int, int], list[tuple[str, Send]]] = defaultdict(list)
    for value, written in facts.written.items():
        if written.offset is not None:
            key = written.send.partition, written.offset
            acknowledged[key].append((value, written.send))
    # An aborted record keeps its offset, so the outcome of the transactions does not matter.
    for (partition, offset), found in acknowledged.items():
        if len(found) > 1:
            values = " and ".join(value for value, _ in found)
            yield Anomaly(
                f"{values} were acknowledged at the same offset {offset} of partition {partition}",
                tuple(send for _, send in found),
            )
    for partition, offsets in facts.first_reads.items():
        for offset, reads in offsets.items():
            sent = acknowledged.get((partition, offset), [])
            there: dict[str, Operation] = {**dict(sent), **reads}
            if reads and len(there) > 1:
                yield Anomaly(
                    f"{' and '.join(there)} are at the same offset {offset} of partition "
                    f"{partition}",
                    tuple(dict.fromkeys(there.values())),
                )


def misplaced(facts: Facts) -> Iterator[Anomaly]:
    """A record is in a partition other than the one it was sent to, or no client sent it, or its
    batch is corrupt."""
    for partition, offsets in facts.first_reads.items():
        for offset, reads in offsets.items():
            for value, poll in reads.items():
                written = facts.written.get(value)
                if written is None:
                    what = f"{value!r} at offset {offset} of partition {partition} was never sent"
                    yield Anomaly(what, (poll,))
                elif written.send.partition != partition:
                    yield Anomaly(
                        f"{value} was sent to partition {written.send.partition}, but is at offset "
                        f"{offset} of partition {partition}",
                        (written.send, poll),
                    )


def offset_gaps(facts: Facts) -> Iterator[Anomaly]:
    """The offsets of successive batches, control batches included, are not contiguous: some offsets
    belong to no batch, or to two batches."""
    ends: dict[int, tuple[int, Poll]] = {}
    for poll in facts.final_polls():
        if poll.is_committed:  # the client may skip control batches and aborted batches
            continue
        for batch in poll.batches:
            if batch.last < poll.position:
                continue  # see reads.nonmonotonic_polls
            end, before = ends.get(poll.partition, (0, poll))
            if batch.first > end:
                missing = f"{end}" if batch.first == end + 1 else f"{end} to {batch.first - 1}"
                yield Anomaly(
                    f"partition {poll.partition} has no batch for offset {missing}: a batch ends "
                    f"at {end - 1} and the next one begins at {batch.first}",
                    tuple(dict.fromkeys((before, poll))),
                )
            elif batch.first < end and batch.first >= poll.position:
                yield Anomaly(
                    f"two batches of partition {poll.partition} contain offset {batch.first}",
                    tuple(dict.fromkeys((before, poll))),
                )
            ends[poll.partition] = max(end, batch.last + 1), poll


def nonmonotonic_sends(facts: Facts) -> Iterator[Anomaly]:
    """A batch was sent after another one had been acknowledged, but has a lower offset."""
    sends = [each for each in facts.sends if each.is_ok and each.offset is not None]

    def offset(send: Send) -> int:
        return send.offset or 0

    for send, highest in highest_before(sends, sends, offset, attrgetter("partition")):
        if offset(send) < offset(highest):
            yield Anomaly(
                f"in partition {send.partition}, {send.values[0]} at offset {send.offset} was sent "
                f"after {highest.values[0]} was acknowledged at offset {highest.offset}",
                (highest, send),
            )


def reordered_sends(facts: Facts) -> Iterator[Anomaly]:
    """The records of one producer are not in the order in which it sent them: within a batch,
    within a transaction or between batches (Jepsen: int-nonmonotonic-send)."""
    offsets: dict[tuple[int, str], tuple[int, Poll]] = {}
    for partition, found in facts.first_reads.items():
        for offset, reads in found.items():
            for value, poll in reads.items():
                offsets.setdefault((partition, value), (offset, poll))
    last: dict[tuple[str, int], tuple[str, int, Poll, Send]] = {}
    for send in facts.sends:
        # A plain producer does not number its batches, so a batch may overtake an earlier one that
        # the producer considers lost.
        is_ordered = send.producer is not None or send.is_ok
        for value in send.values if is_ordered else ():
            if (send.partition, value) not in offsets:
                continue
            offset, poll = offsets[send.partition, value]
            key = send.client, send.partition
            if key in last:
                before, earlier, other, sender = last[key]
                if offset < earlier:
                    yield Anomaly(
                        f"{sender.client} sent {before} before {value}, but they are at offsets "
                        f"{earlier} and {offset} of partition {send.partition}",
                        tuple(dict.fromkeys((sender, send, other, poll))),
                    )
            last[key] = value, offset, poll, send
