"""Explains what a transaction is waiting for, which consumers wait for it, and which producers are
fenced: `kafka.transactions.explain()`, and the messages of waits that time out. Runs on the
broker's loop."""

from collections.abc import Iterable, Iterator, Sequence

from ...broker.config.broker_config import BrokerConfig
from ...coordinator.transactions.states import COMPLETE_COMMIT, DEAD, EMPTY, PREPARED
from ...suggestions import did_you_mean
from ...topics.fetch import READ_COMMITTED
from ...topics.names import OFFSETS_TOPIC
from ..group_view import coordinator_of
from ..history import History, TransactionChange
from ..lifecycle import BrokerHost
from ..recorded_request import RecordedRequest, TopicPartition
from ..timeline.timeline import deduplicate, format_duration, join_partitions
from ..transaction_view import Transaction, open_producers, transactions_of

_MAX_TIMEOUT = "transaction.max.timeout.ms"
_FENCED = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"})
# Number of requests in an explanation: enough for two or three transactions.
LAST_REQUESTS = 12
_NOTHING_SENT = " (a transaction without records or offsets sends nothing to the broker)"
_PREPARED = tuple(state.text for state in PREPARED)


def explain_transaction(host: BrokerHost, transactional_id: str) -> str:
    """Describe the transaction, what it is waiting for, and its last requests."""
    transactions = transactions_of(host)
    requests = [each for each in host.history.requests if each.transactional_id == transactional_id]
    found = transactions.get(transactional_id)
    if found is None:
        text = _no_transaction(host, transactional_id, transactions)
    else:
        text = f"{_sentence(host, found)}."
    sentences = [
        text,
        *fenced_producers(host.history, requests),
        *rejected_timeouts(host.config, requests),
    ]
    wall_s = host.history.wall_s
    lines = deduplicate((each, str(each)) for each in requests)[-LAST_REQUESTS:]
    last = [f"    {line.first.wall_s - wall_s:+.3f} s  {line}" for line in lines]
    heading = "  last requests:" if last else "  no request has mentioned this transactional id"
    return "\n".join([" ".join(sentences), heading, *last])


def is_held_back(host: BrokerHost, transactional_id: str) -> bool:
    """Whether the test holds back the markers of the transaction."""
    return any(transactional_id in each.transactional_ids for each in host.marker_holds)


def _no_transaction(host: BrokerHost, transactional_id: str, others: Iterable[str]) -> str:
    last = next(reversed(host.history.transaction_changes(transactional_id)), None)
    if last is not None and last.after == DEAD.text:
        ago = format_duration(host.clock.now_ms() - last.at_ms)
        return (
            f"Transactional id {transactional_id} expired {ago} ago, and requests of its "
            "producer fail with INVALID_PRODUCER_ID_MAPPING: initialize a new producer."
        )
    text = f"Transactional id {transactional_id} does not exist"
    similar = did_you_mean(transactional_id, others)
    return text + (similar or ": no producer has initialized it (InitProducerId).")


def _sentence(host: BrokerHost, transaction: Transaction) -> str:
    """Return `Transaction billing-1 has been open for 12 s (timeout 1 min): producer 7 in …`."""
    name, state = transaction.transactional_id, transaction.state
    producer = f"producer {transaction.producer_id} in epoch {transaction.producer_epoch}"
    if transaction.age_ms is not None:
        partitions = join_partitions(transaction.partitions)
        return f"Transaction {_reason(host, transaction)}: {producer}, {partitions}"
    if state == EMPTY.text:
        return f"Transaction {name} is Empty: {producer} has not begun it{_NOTHING_SENT}"
    outcome = "committed" if state == COMPLETE_COMMIT.text else "aborted"
    ago = format_duration(host.clock.now_ms() - transaction.updated_ms)
    why = _cause_of_end(host.history, transaction)
    return (
        f"The last transaction of {name} was {outcome} {ago} ago{why}; {producer} has not begun "
        f"another{_NOTHING_SENT}"
    )


def _cause_of_end(history: History, transaction: Transaction) -> str:
    """Return the cause, such as ` (timed out after 1 min)`; "" if the history does not contain
    it."""
    changes = history.transaction_changes(transaction.transactional_id)
    decided = next((each for each in reversed(changes) if each.after in _PREPARED), None)
    if decided is None:
        return ""
    if decided.cause == "ended":
        return " by its producer"
    timeout = format_duration(transaction.timeout_ms)
    return f" ({decided.cause}{f' after {timeout}' if decided.cause == 'timed out' else ''})"


def _reason(host: BrokerHost, transaction: Transaction) -> str:
    """Return why consumers have to wait for the transaction."""
    return f"{transaction.transactional_id} {_status(host, transaction)}"


def _status(host: BrokerHost, transaction: Transaction) -> str:
    """Return text such as `has been open for 12 s (timeout 1 min)`."""
    if transaction.state in _PREPARED:
        is_held = is_held_back(host, transaction.transactional_id)
        by_test = " (the test holds them back)" if is_held else ""
        return f"is in state {transaction.state}: its markers have not been written{by_test}"
    age, timeout = map(format_duration, (transaction.age_ms or 0, transaction.timeout_ms))
    return f"has been open for {age} (timeout {timeout}){_disconnected(host, transaction)}"


def _disconnected(host: BrokerHost, transaction: Transaction) -> str:
    """Return `, and its client payments has disconnected`; "" if the client may be connected."""
    requests, open_connections = host.history.requests, host.interception.open_connections
    own = [each for each in requests if _is_of(each, transaction)]
    if not own:
        return ""
    client_id = own[-1].client_id
    # Another connection with this client id may be the same client, reconnected after a crash of
    # the broker.
    own += [
        each for each in host.history.requests_after(own[-1].number) if each.client_id == client_id
    ]
    if any(each.connection in open_connections for each in own):
        return ""
    return f", and its client {client_id} has disconnected"


def _is_of(request: RecordedRequest, transaction: Transaction) -> bool:
    """Whether the producer of the transaction sent the request."""
    return (
        request.transactional_id == transaction.transactional_id
        and request.producer_id == transaction.producer_id
    )


# --- consumers that wait for a transaction


def transaction_hints(host: BrokerHost, requests: Sequence[RecordedRequest]) -> list[str]:
    """Return sentences about the clients that sent these requests: consumers that wait for
    transactions, and producers that are fenced or could not be initialized."""
    return [
        *_waiting_fetches(host, requests),
        *_unstable_offsets(host, requests),
        *fenced_producers(host.history, requests),
        *rejected_timeouts(host.config, requests),
    ]


def _waiting_fetches(host: BrokerHost, requests: Iterable[RecordedRequest]) -> Iterator[str]:
    """Yield a sentence for each read_committed consumer at a last stable offset that is below the
    high watermark."""
    positions: dict[tuple[str | None, TopicPartition], int] = {}
    for request in requests:
        if request.api == "Fetch":
            is_committed = is_read_committed(request)
            for topic, index, each in request.by_partition(request.message):
                positions.pop((request.client_id, (topic, index)), None)
                if is_committed:
                    positions[request.client_id, (topic, index)] = each.fetch_offset
    for (client_id, partition), offset in positions.items():
        found = host.broker.node.topics.partition(*partition)
        if found is None or found.opened_log is None:
            continue
        stable = found.last_stable_offset
        if stable <= offset and stable < found.high_watermark:
            yield (
                f"Consumer {client_id} (read_committed) waits at offset {stable} of "
                f"{join_partitions([partition])}: {_first_open(host, partition)}."
            )


def is_read_committed(request: RecordedRequest) -> bool:
    """Whether the request is a Fetch with isolation level read_committed."""
    if request.api != "Fetch":
        return False
    return bool(getattr(request.message, "isolation_level", 0) == READ_COMMITTED)


def _first_open(host: BrokerHost, partition: TopicPartition) -> str:
    """Return which transaction holds back the last stable offset of a partition."""
    producer_id, offset = next(open_producers(host.broker, partition), (None, 0))
    if producer_id is None:
        return "the marker of a transaction that has ended is not replicated yet"
    for each in transactions_of(host).values():
        if each.producer_id == producer_id and partition in each.partitions:
            return f"transaction {_reason(host, each)}"
    topic, index = partition
    return (
        f"producer {producer_id} has a hanging transaction, which no coordinator will end; to "
        f"abort it, run `kohort transactions abort --topic {topic} --partition {index} "
        f"--start-offset {offset}`"
    )


def _unstable_offsets(host: BrokerHost, requests: Iterable[RecordedRequest]) -> Iterator[str]:
    """Yield a sentence for each consumer that waits for the committed offsets of its group because
    they are pending in a transaction."""
    last = {
        (each.client_id, each.group): each
        for each in requests
        if each.api == "OffsetFetch" and each.response is not None
    }
    coordinators = host.broker.node.coordinators
    for (client_id, group), request in last.items():
        if "UNSTABLE_OFFSET_COMMIT" not in request.errors or request.faults or group is None:
            continue
        partition = OFFSETS_TOPIC, coordinators.partition_of(group)
        reasons = [
            _reason(host, each)
            for each in transactions_of(host).values()
            if partition in each.partitions
        ]
        if reasons:
            yield (
                f"Consumer {client_id} waits for the committed offsets of group {group}: "
                f"transaction {', '.join(reasons)}."
            )


def pending_commits(host: BrokerHost, group_id: str) -> Iterator[str]:
    """Yield sentences about the offsets of a group that transactions have not committed yet."""
    coordinator = coordinator_of(host.broker, group_id)
    if coordinator is None:
        return
    transactions = {each.producer_id: each for each in transactions_of(host).values()}
    for producer_id, keys in coordinator.pending_offsets.partitions_of(group_id).items():
        partitions = join_partitions(sorted((topic, index) for _, topic, index in keys))
        offsets = f"offset of {partitions} is"
        if len(keys) > 1:
            offsets = f"offsets of {partitions} are"
        found = transactions.get(producer_id)
        if found is None or found.age_ms is None:
            transaction = f"a transaction of producer {producer_id}"
        else:
            transaction = f"transaction {found.transactional_id}, which {_status(host, found)}"
        yield f"The {offsets} pending in {transaction}."


# --- fenced producers


def fenced_producers(history: History, requests: Iterable[RecordedRequest]) -> Iterator[str]:
    """Yield a sentence for each producer that used an old epoch (a zombie) and has not been
    initialized again."""
    fenced: dict[tuple[str | None, str], RecordedRequest] = {}
    for request in requests:
        key = request.client_id, request.transactional_id or ""
        if is_fenced(request):
            fenced[key] = request
        elif request.api == "InitProducerId" and request.response and not request.errors:
            fenced.pop(key, None)
    for (client_id, transactional_id), request in fenced.items():
        error = next(each for each in request.errors if each in _FENCED)
        by = superseding(history, request)
        why = "" if by is None else f" (fenced by epoch {by.producer_epoch}; cause: {by.cause})"
        yield (
            f"Producer {client_id} is fenced: its {request.api} for {transactional_id} with epoch "
            f"{request.producer_epoch} got {error}{why}."
        )


def rejected_timeouts(config: BrokerConfig, requests: Iterable[RecordedRequest]) -> Iterator[str]:
    """Yield a sentence for each producer whose transaction.timeout.ms was rejected and that has not
    been initialized since."""
    last = {
        (each.client_id, each.transactional_id): each
        for each in requests
        if each.api == "InitProducerId" and each.response is not None
    }
    for (client_id, transactional_id), request in last.items():
        if "INVALID_TRANSACTION_TIMEOUT" in request.errors and not request.faults:
            timeout_ms = round(request.message.transaction_timeout.total_seconds() * 1000)
            yield (
                f"Producer {client_id} could not initialize {transactional_id}: its "
                f"transaction.timeout.ms of {timeout_ms} is not between 1 and the broker's "
                f"{_MAX_TIMEOUT} of {config.int(_MAX_TIMEOUT)}. Set the client's timeout within "
                f"this range, or raise {_MAX_TIMEOUT} on the broker."
            )


def is_fenced(request: RecordedRequest) -> bool:
    """Whether the coordinator or a partition rejected the epoch of a transactional producer."""
    return (
        request.transactional_id is not None
        and request.response is not None
        and not request.faults
        and not _FENCED.isdisjoint(request.errors)
    )


def superseding(history: History, request: RecordedRequest) -> TransactionChange | None:
    """Return the change that fenced the producer of a request; None if it is unknown."""
    changes = history.transaction_changes(request.transactional_id)
    return next((each for each in changes if _supersedes(each, request)), None)


def _supersedes(change: TransactionChange, request: RecordedRequest) -> bool:
    if request.producer_epoch is None or change.wall_s > request.wall_s:
        return False
    is_newer = change.producer_epoch > request.producer_epoch
    return is_newer or change.producer_id > (request.producer_id or 0)


def open_transactions(host: BrokerHost) -> Iterator[str]:
    """Yield a sentence for each transaction that has not ended."""
    for each in transactions_of(host).values():
        if each.age_ms is not None:
            yield f"{_sentence(host, each)}."
