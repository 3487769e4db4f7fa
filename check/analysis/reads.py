"""What a consumer can rely on: each fetch continues at its position, and skips nothing.

Under both `assign` and `subscribe`, the client determines its position, and may go back between two
assignments (Jepsen allows this under subscribe). So these analyses compare each response with the
position of its request.
"""

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter

from ..history import Operation, OutOfRange, Poll, ReadEnd, Send
from .facts import NO_LOG, Anomaly, Facts, highest_before


def nonmonotonic_polls(facts: Facts) -> Iterator[Anomaly]:
    """A poll returned records before its position, which the consumer had passed."""
    for poll in facts.irregular:
        if poll.offsets and min(poll.offsets) < poll.position:
            yield Anomaly(
                f"{poll.client} polled partition {poll.partition} from offset {poll.position}, but "
                f"got offset {min(poll.offsets)}",
                (*_previous(facts, poll), poll),
            )


def internal_nonmonotonic_polls(facts: Facts) -> Iterator[Anomaly]:
    """The records of one poll are not in the order of their offsets."""
    for poll in facts.irregular:
        for earlier, later in zip(poll.offsets, poll.offsets[1:], strict=False):
            if later <= earlier:
                yield Anomaly(
                    f"one poll of partition {poll.partition} returned offset {later} after "
                    f"{earlier}",
                    (poll,),
                )
                break


def poll_skips(facts: Facts) -> Iterator[Anomaly]:
    """A poll skipped visible records between its position and the first record that it returned."""
    return _skips(facts, is_internal=False)


def internal_poll_skips(facts: Facts) -> Iterator[Anomaly]:
    """A poll skipped visible records between the records that it returned."""
    return _skips(facts, is_internal=True)


def _skips(facts: Facts, *, is_internal: bool) -> Iterator[Anomaly]:
    # Records that exist at the end existed when a poll passed their offset. A record that is
    # missing at the end is a lost write, not a skip.
    for poll in facts.irregular:
        log = facts.final_logs.get((poll.partition, poll.is_committed), NO_LOG)
        first = bisect_left(log.offsets, poll.position)
        last = bisect_left(log.offsets, poll.next_position)
        returned = set(poll.offsets)
        begin = min(returned, default=poll.next_position)
        for offset, value in zip(log.offsets[first:last], log.values[first:last], strict=True):
            if offset not in returned and (offset > begin) is is_internal:
                yield Anomaly(
                    f"{poll.client} polled partition {poll.partition} from offset {poll.position} "
                    f"and continued at {poll.next_position}, but did not get {value} at {offset}",
                    tuple(dict.fromkeys((*_writer(facts, value), poll))),
                )
                break


def stale_reads(facts: Facts) -> Iterator[Anomaly]:
    """The high watermark of a partition's leader moves backwards within its leader epoch, so a
    consumer no longer sees records that were visible."""
    # A new leader may receive the high watermark later than clients did (KIP-207), even if it led
    # the partition before, because after a restart it reads the high watermark from a checkpoint.
    polls = [each for each in facts.polls if each.leader_epoch >= 0]
    watermark = attrgetter("high_watermark")
    leader = attrgetter("partition", "node", "leader_epoch")
    for poll, highest in highest_before(polls, polls, watermark, leader):
        if poll.high_watermark < highest.high_watermark:
            yield Anomaly(
                f"the high watermark of partition {poll.partition} on node {poll.node} moved "
                f"backwards from {highest.high_watermark} to {poll.high_watermark} in leader epoch "
                f"{poll.leader_epoch}",
                (highest, poll),
            )


def vanished(facts: Facts) -> Iterator[Anomaly]:
    """A record that was read is missing from the final read with the same isolation level."""
    ends = {(each.partition, each.is_committed): each.offset for each in facts.of(ReadEnd)}
    for poll in facts.irregular:
        key = poll.partition, poll.is_committed
        if poll.mode == "final" or not (key in facts.final or key in ends):
            continue
        final, reached = facts.final.get(key, {}), facts.final_end.get(key, 0)
        # The check `unseen` finds records that the final read did not reach.
        until = reached if reached < ends.get(key, 0) else None
        for offset, value in zip(poll.offsets, poll.values, strict=True):
            if offset in final or (until is not None and offset >= until):
                continue  # two records at one offset: see log.inconsistent_offsets
            if not (poll.is_committed and _is_aborted(facts, value)):
                yield Anomaly(
                    f"{value} was read at offset {offset} of partition {poll.partition}, but the "
                    "final read does not contain it",
                    tuple(dict.fromkeys((*_writer(facts, value), poll))),
                )
                break


def out_of_range(facts: Facts) -> Iterator[Anomaly]:
    """A fetch was rejected with OFFSET_OUT_OF_RANGE, although an earlier acknowledgement, the final
    read or the log end after the run shows that its position was not past the end of the
    partition."""
    for rejected in facts.of(OutOfRange):
        proof = _reaching(facts, rejected)
        if proof is not None:
            yield Anomaly(
                f"{rejected.client} could not poll partition {rejected.partition} from offset "
                f"{rejected.position}, which is not past its end",
                (proof, rejected),
            )


def _reaching(facts: Facts, refused: OutOfRange) -> Operation | None:
    """Return an operation, if any, that proves that the position of a rejected fetch exists."""
    for send in facts.sends:
        is_before = send.is_ok and send.offset is not None and send.precedes(refused)
        end = (send.offset or 0) + len(send.values)
        if is_before and send.partition == refused.partition and end >= refused.position:
            return send
    for poll in facts.final_polls():
        if poll.partition == refused.partition and poll.next_position >= refused.position:
            return poll
    for read in facts.of(ReadEnd):
        if read.partition == refused.partition and read.offset >= refused.position:
            return read
    return None


def _previous(facts: Facts, poll: Poll) -> tuple[Poll, ...]:
    """Return the poll that brought the client to its position, if there is one."""
    found = [
        each
        for each in facts.polls
        if each.client == poll.client
        and each.partition == poll.partition
        and each.next_position == poll.position
        and each.precedes(poll)
    ]
    return tuple(found[-1:])


def _is_aborted(facts: Facts, value: str) -> bool:
    """Return whether the record was aborted (transactions.aborted_reads checks reads of it)."""
    return value in facts.written and facts.fate(facts.written[value].send) == "fail"


def _writer(facts: Facts, value: str) -> tuple[Send, ...]:
    return (facts.written[value].send,) if value in facts.written else ()
