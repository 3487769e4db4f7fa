"""What transactions guarantee to consumers with read_committed, and to producers.

Kafka does not isolate writes. The batches of two transactions may alternate in a partition, so
cycles of writes (G0) are normal, as Jepsen's notes say. Reads with read_committed are isolated from
aborted and uncommitted records.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping

from ..history import EndTransaction, InitProducer, Operation, Poll, Send
from .facts import Anomaly, Facts


def aborted_reads(facts: Facts) -> Iterator[Anomaly]:
    """A read_committed consumer got a record of an aborted transaction, or any consumer got a
    record that the broker had rejected."""
    for poll in facts.irregular:
        for offset, value in zip(poll.offsets, poll.values, strict=True):
            written = facts.written.get(value)
            if written is None:
                continue
            send = written.send
            if send.outcome == "fail" or (poll.is_committed and facts.fate(send) == "fail"):
                state = "was rejected" if send.outcome == "fail" else "was aborted"
                yield Anomaly(
                    f"{value}, which {state}, was read at offset {offset} of partition "
                    f"{poll.partition}",
                    (send, *_ends(facts, send.transaction), poll),
                )
                break


def precommitted_reads(facts: Facts) -> Iterator[Anomaly]:
    """A read_committed consumer got a record before the record's producer sent the commit."""
    commits = {
        key: [_commit_began(facts, value) for value in log.values]
        for key, log in facts.final_logs.items()
    }
    for poll in facts.polls:
        if not poll.is_committed or not poll.offsets:
            continue
        place = facts.place(poll)
        if place is not None and max(commits[poll.partition, True][place]) < (poll.ended or 0):
            continue
        for offset, value in zip(poll.offsets, poll.values, strict=True):
            if _commit_began(facts, value) > (poll.ended or 0):
                send = facts.written[value].send
                commit = facts.commit_of(send.transaction or "")
                yield Anomaly(
                    f"{value} at offset {offset} of partition {poll.partition} was read before "
                    f"transaction {send.transaction} was committed",
                    (send, poll, *(() if commit is None else (commit,))),
                )
                break


def _commit_began(facts: Facts, value: str) -> int:
    """Return the position at which the commit of a record's transaction began, or 0 if there is no
    transaction or no commit."""
    written = facts.written.get(value)
    if written is None or written.send.transaction is None:
        return 0
    commit = facts.commit_of(written.send.transaction)
    return 0 if commit is None else commit.began


def torn_transactions(facts: Facts) -> Iterator[Anomaly]:
    """Some records of a transaction are visible with read_committed at the end, and others are
    not."""
    sends: dict[str, list[Send]] = defaultdict(list)
    for send in facts.sends:
        if send.transaction is not None and send.is_ok:
            sends[send.transaction].append(send)
    read = {key: set(found.values()) for key, found in facts.final.items()}
    for transaction, parts in sends.items():
        if facts.transaction_fate(transaction) != "info":
            continue  # the checks lost-write and G1a find the others
        seen = [
            each for each in parts if set(each.values) & read.get((each.partition, True), set())
        ]
        if seen and len(seen) < len(parts):
            missing = next(each for each in parts if each not in seen)
            yield Anomaly(
                f"transaction {transaction} is partly visible: {seen[0].values[0]} is visible, "
                f"{missing.values[0]} is not",
                (seen[0], missing, *_ends(facts, transaction)),
            )


def write_read_cycles(facts: Facts) -> Iterator[Anomaly]:
    """A cycle of transactions, each of which was read by the next one with read_committed."""
    edges: dict[str, dict[str, tuple[Send, Poll]]] = defaultdict(dict)
    for poll in facts.polls:
        if poll.transaction is None or not poll.is_committed:
            continue
        for value in poll.values:
            written = facts.written.get(value)
            source = None if written is None else written.send.transaction
            if written is not None and source is not None and source != poll.transaction:
                edges[source].setdefault(poll.transaction, (written.send, poll))
    done: set[str] = set()
    for start in list(edges):
        if start not in done and (cycle := _cycle(edges, start)):
            done |= set(cycle)
            steps = [edges[a][b] for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True)]
            text = " → ".join((*cycle, cycle[0]))
            yield Anomaly(
                f"each of these transactions was read by the next one: {text}",
                tuple(each for step in steps for each in step),
            )


def _cycle(edges: Mapping[str, Mapping[str, object]], start: str) -> tuple[str, ...]:
    """Return the shortest cycle through a node."""
    came_from: dict[str, str] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for following in edges.get(node, ()):
            if following == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return tuple(reversed(path))
            if following not in came_from:
                came_from[following] = node
                queue.append(following)
    return ()


def fenced_producers(facts: Facts) -> Iterator[Anomaly]:
    """A producer was fenced by another producer with the same transactional id, but could still
    write or end a transaction."""
    inits = [each for each in facts.of(InitProducer) if each.is_ok and each.transactional_id]
    own = {each.client: each for each in inits}  # a client has one producer
    by_name: dict[str | None, list[InitProducer]] = defaultdict(list)
    for init in inits:
        by_name[init.transactional_id].append(init)
    for operation in facts.operations:
        if not isinstance(operation, Send | EndTransaction) or not operation.is_ok:
            continue
        mine = own.get(operation.client)
        if mine is None:
            continue
        # The successor is found by transactional id, because a broker that does not fence may give
        # it another producer id.
        for init in by_name[mine.transactional_id]:
            if init.client != mine.client and mine.precedes(init) and init.precedes(operation):
                yield Anomaly(
                    f"{operation.client} was fenced by {init.client}, which has the same "
                    f"transactional id {init.transactional_id}, but its request was executed",
                    (mine, init, operation),
                )
                break


def producer_epochs(facts: Facts) -> Iterator[Anomaly]:
    """The same producer id and epoch were returned twice, or an epoch moved backwards."""
    seen: dict[tuple[int, int], InitProducer] = {}
    last: dict[int, InitProducer] = {}
    for init in facts.of(InitProducer):
        if not init.is_ok:
            continue
        key = init.producer_id, init.epoch
        if key in seen:
            yield Anomaly(
                f"producer id {key[0]} with epoch {key[1]} was returned twice", (seen[key], init)
            )
        seen[key] = init
        before = last.get(init.producer_id)
        if before is not None and before.precedes(init) and init.epoch < before.epoch:
            yield Anomaly(
                f"the epoch of producer id {key[0]} moved backwards from {before.epoch} to "
                f"{init.epoch}",
                (before, init),
            )
        last[init.producer_id] = init


def _ends(facts: Facts, transaction: str | None) -> tuple[Operation, ...]:
    return () if transaction is None else tuple(facts.ends[transaction])
