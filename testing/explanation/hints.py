"""Explains why a consumer got no records, or why a producer cannot start.

The history shows failed connections, brokers that received no request, topics that do not exist,
clients that stopped early or could not join, consumers that started at the end of the log or wait
for a transaction, and fenced producers.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import starmap

from ...broker.handlers.k02_list_offsets import LATEST
from ...protocol.errors import ErrorCode
from ...protocol.framing import address
from ...suggestions import did_you_mean
from ...topics.registry import TopicRegistry
from ...topics.topic import Partition
from ..group_view import ClassicView, ConsumerView
from ..lifecycle import BrokerHost
from ..recorded_request import RecordedRequest, TopicPartition
from ..timeline.timeline import format_duration, join_partitions
from .conditions import conditions
from .failed_connections import failed_connections
from .rejected_joins import profile_problem, rejected_joins
from .transactions import is_read_committed, transaction_hints

# The APIs that clients use before they join a group, fetch or produce. InitProducerId is not among
# them, because an idempotent producer sends it when it starts, and may then be idle.
_PREPARATIONS = frozenset(
    {"ApiVersions", "SaslHandshake", "SaslAuthenticate", "Metadata", "FindCoordinator"}
)
# A consumer that leaves so soon after its assignment may not have polled for long enough.
EARLY_SECONDS = 1.0


def hints(
    host: BrokerHost, group: ClassicView | ConsumerView | None = None, group_id: str | None = None
) -> list[str]:
    """Return sentences about the clients of a group or, if it has none, about clients that use no
    group. Without a `group_id`, they are about all clients. Failed connections and denied
    operations are always reported for all clients. Runs on the broker's loop."""
    requests, topics = host.history.requests, host.broker.node.topics
    if group_id is not None:
        clients = {each.client_id for each in requests if group_id in each.groups}
        others = {each.client_id for each in requests if each.groups}
        requests = [
            each
            for each in requests
            if (each.client_id in clients if clients else each.client_id not in others)
        ]
    missing = list(_missing_topics(requests, topics, group))
    named = _named_by_test(host) if group_id is None else ()
    at_end = list(_started_at_end(requests, topics))
    fake = host.fake_members.client_ids
    requests = [each for each in requests if each.client_id not in fake]
    insecure = [*failed_connections(host), *_not_authenticated(requests), *host.denials]
    rejected = rejected_joins(host, requests)
    problem = profile_problem(host.config)
    prepared = [] if missing or insecure else list(_only_prepared(requests, problem))
    early = [] if at_end else _left_early(requests, topics)
    waiting = [*transaction_hints(host, requests), *_throttled(requests, host.clock.now_ms())]
    reasons = [*insecure, *rejected, *missing, *at_end, *prepared, *early, *waiting]
    return [*conditions(host), *named, *reasons]


def no_client(host: BrokerHost) -> list[str]:
    """Return a sentence if no client has sent a request, perhaps because of wrong bootstrap
    servers. Runs on the broker's loop."""
    fake = host.fake_members.client_ids
    history = host.history
    was_stopped = any(each.what.endswith(" stopped") for each in history.lifecycle_events)
    if history.failed_connections or any(each.client_id not in fake for each in history.requests):
        return []
    addresses = ", ".join(starmap(address, host.broker.addresses.values()))
    but = ", only fake members" if fake else ""
    stopped = "; the test has stopped a node" if was_stopped else ""
    return [f"No client has sent a request to {addresses} (bootstrap_servers{stopped}){but}."]


def _not_authenticated(requests: Sequence[RecordedRequest]) -> Iterator[str]:
    """Yield a sentence for each client whose last attempt to authenticate failed because of a
    fault. `failed_connections` explains other failures."""
    last: dict[str | None, RecordedRequest] = {}
    for request in requests:
        if request.api == "SaslAuthenticate" and request.response is not None:
            last[request.client_id] = request
    for client_id, request in last.items():
        response = request.response
        if request.faults and response.error_code != ErrorCode.none:
            reason = response.error_message or response.error_code.name.upper()
            yield f"Client {client_id} could not authenticate: {reason}."


def _missing_topics(
    requests: Sequence[RecordedRequest],
    topics: TopicRegistry,
    group: ClassicView | ConsumerView | None,
) -> Iterator[str]:
    """Yield a sentence for each requested topic that does not exist, and for each topic that a
    client's Metadata request created, if it or a similar topic is empty."""
    requested: dict[str, str] = {}
    created: dict[str, str] = {}
    for name, client_id in ({} if group is None else group.subscriptions).items():
        requested[name] = f"to which {client_id} is subscribed"
    for request in requests:
        if request.api == "Metadata" and request.missing_topics and request.response is not None:
            errors = {each.name: each.error_code for each in request.response.topics}
            for name in request.missing_topics:
                if errors.get(name) == ErrorCode.none:
                    created[name] = request.client_id or "a client"
                elif errors.get(name) == ErrorCode.unknown_topic_or_partition:
                    requested[name] = f"requested by {request.client_id}"
    empty = {each.name for each in topics if not any(p.high_watermark for p in each.partitions)}
    names = [each.name for each in topics if each.name not in created.keys() & empty]
    for name, by in requested.items():
        if topics.get(name) is None:
            remedy = did_you_mean(name, names) or ": create it first."
            yield f"Topic {name}, {by}, does not exist{remedy}"
    for name, client in created.items():
        if name in empty:
            yield (
                f"Topic {name} did not exist until {client} requested it "
                f"(auto.create.topics.enable), and has no records{did_you_mean(name, names) or '.'}"
            )
        elif topics.get(name) is not None and (similar := did_you_mean(name, empty)):
            yield (
                f"Topic {name} did not exist until {client} requested it "
                "(auto.create.topics.enable). It has records, but a similar topic has "
                f"none{similar}"
            )


def _named_by_test(host: BrokerHost) -> Iterator[str]:
    """Yield a sentence for each group id of the test that looks misspelled, and for each topic that
    `kafka.topic` created and the test has read, if no client has requested it and it is empty."""
    requests, topics = host.history.requests, host.broker.node.topics
    groups = {group_id for each in requests for group_id in each.groups}
    for group_id in sorted(host.named_groups - groups):
        if similar := did_you_mean(group_id, groups):
            yield f"Group {group_id} does not exist{similar}"
    requested = {topic for each in requests for topic in each.topics}
    filled = [each.name for each in topics if any(p.high_watermark for p in each.partitions)]
    for name, was_read_empty in host.implicit_topics.items():
        if was_read_empty and name not in requested and topics.get(name) and name not in filled:
            yield (
                f"Topic {name} did not exist until the test called kafka.topic({name!r}), and has "
                f"no records{did_you_mean(name, filled) or '.'}"
            )


def _only_prepared(requests: Sequence[RecordedRequest], profile_problem: str) -> Iterator[str]:
    """Yield a sentence for each client that sent only preparatory requests. Its poll may have been
    too short, a producer may be buffering its records (linger.ms, no flush), or a consumer may need
    an API that the broker does not serve."""
    of_client: dict[str | None, list[RecordedRequest]] = {}
    for each in requests:
        of_client.setdefault(each.client_id, []).append(each)
    others_work = any(each.api not in _PREPARATIONS for each in requests)
    for client_id, sent in of_client.items():
        apis = list(dict.fromkeys(each.api for each in sent))
        # A client that has named no topic or group is probably an idle producer, if other clients
        # have joined, fetched or produced.
        is_idle = others_work and not any(each.topics or each.groups for each in sent)
        if _PREPARATIONS.issuperset(apis) and not is_idle:
            has_group = "FindCoordinator" in apis
            remedy = "A consumer needs a longer poll; a producer has to call flush()."
            if faults := {fault for each in sent for fault in each.faults}:
                remedy = f"Faults of this test apply to its requests: {', '.join(sorted(faults))}."
            elif has_group:
                remedy = "A consumer has to call subscribe(), and then needs a longer poll."
            sentence = (
                f"Client {client_id} has sent only {_listed(apis)}. It has not joined a group, "
                f"fetched or produced. {remedy}"
            )
            yield " ".join(filter(None, (sentence, profile_problem if has_group else "")))


def _throttled(requests: Sequence[RecordedRequest], now_ms: int) -> Iterator[str]:
    """Yield a sentence for each client whose next request waits for a throttle time."""
    # The broker reads no request from a muted connection, so the throttle time is in the last
    # response.
    last = {each.connection: each for each in requests if each.response_at_ms is not None}
    longest: dict[str | None, tuple[int, str]] = {}
    for each in last.values():
        throttle_time = getattr(each.response, "throttle_time", timedelta())
        until_ms = (each.response_at_ms or 0) + throttle_time // timedelta(milliseconds=1)
        if until_ms > now_ms:
            why = "a fault of this test" if each.faults else "its quota"
            other = longest.get(each.client_id, (0, ""))
            longest[each.client_id] = max(other, (until_ms - now_ms, why))
    for client_id, (ms, why) in longest.items():
        yield f"Client {client_id} is throttled for another {format_duration(ms)} by {why}."


def _listed(names: Sequence[str]) -> str:
    """Return `a`, `a and b` or `a, b and c`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _left_early(requests: Sequence[RecordedRequest], topics: TopicRegistry) -> Iterator[str]:
    """Yield a sentence for each consumer that left within EARLY_SECONDS of its assignment, and
    received no records or committed only log start offsets. Partitions with an earlier committed
    offset are ignored, because they may have had no further records."""
    synced: dict[str | None, RecordedRequest] = {}
    assigned: dict[str, tuple[TopicPartition, ...]] = {}
    committed: set[TopicPartition] = set()
    for request in requests:
        if request.api == "OffsetFetch":
            committed.update(_committed(request))
        if request.api == "SyncGroup":
            synced[request.member_id] = request
            assigned |= request.assignments
        if request.api != "LeaveGroup":
            continue
        for member_id, _ in request.members:
            if member_id is None or (sync := synced.get(member_id)) is None:
                continue
            seconds = request.wall_s - (sync.response_wall_s or request.wall_s)
            later = [each for each in requests if each.number > sync.number]
            fetches = [each for each in later if each.client_id == sync.client_id]
            own = set(assigned.get(member_id, ())) - committed - _unstable(fetches, topics)
            filled = [each for each in sorted(own) if _has_records(topics.partition(*each))]
            if not filled or seconds >= EARLY_SECONDS:
                continue
            left = f"Consumer {sync.client_id} left {seconds:.3f} s after its assignment"
            at_start = _committed_at_start(later, member_id, topics)
            if not any(map(returned_records, fetches)):
                yield f"{left}, before it consumed a record of {join_partitions(filled)}."
            elif at_start:
                yield (
                    f"{left} and committed {', '.join(at_start)}, the log start: it consumed "
                    "nothing, or committed the record's offset instead of offset + 1."
                )


def _unstable(requests: Iterable[RecordedRequest], topics: TopicRegistry) -> set[TopicPartition]:
    """Return the partitions in which a read_committed consumer waited for a transaction, at the
    time of its Fetch or now. A longer poll would not help."""
    found: set[TopicPartition] = set()
    for request in filter(is_read_committed, requests):
        response = request.by_partition(request.response)
        then = {(name, index): each for name, index, each in response}
        for name, index, each in request.by_partition(request.message):
            now = topics.partition(name, index)
            for ends in filter(None, (now, then.get((name, index)))):
                if ends.last_stable_offset <= each.fetch_offset < ends.high_watermark:
                    found.add((name, index))
    return found


def _has_records(partition: Partition | None) -> bool:
    return partition is not None and partition.high_watermark > partition.start_offset


def _committed_at_start(
    requests: Sequence[RecordedRequest], member_id: str, topics: TopicRegistry
) -> list[str]:
    """Return the offsets that the member last committed (perhaps automatically, when it left), such
    as `orders-0 at 0`, if all of them are log start offsets; otherwise an empty list."""
    commits: dict[TopicPartition, int] = {}
    for each in requests:
        commits |= each.offsets if each.member_id == member_id else {}
    starts = {each: found.start_offset for each in commits if (found := topics.partition(*each))}
    texts = [f"{topic}-{index} at {offset}" for (topic, index), offset in sorted(commits.items())]
    return texts if commits == starts else []


def returned_records(request: RecordedRequest) -> bool:
    """Whether the request is a Fetch whose response contains records."""
    if request.api != "Fetch" or request.response is None:
        return False
    return any(entry.records for _, _, entry in request.by_partition(request.response))


def _started_at_end(requests: Sequence[RecordedRequest], topics: TopicRegistry) -> Iterator[str]:
    found: dict[str | None, dict[TopicPartition, int]] = {}
    lowest = _lowest_fetches(requests)
    for fetch, (name, index), offset in _first_fetches_at_end(requests):
        if lowest[fetch.connection, (name, index)] < offset:
            continue  # the client has since moved back to an earlier offset
        partition = topics.partition(name, index)
        if partition is not None and (before := _records_before(partition, offset)):
            found.setdefault(fetch.client_id, {})[name, index] = before
    for client_id, counts in found.items():
        before = sum(counts.values())
        yield (
            f"Consumer {client_id} started at the end of {join_partitions(counts)} (latest), after "
            f"{before} record{'s' * (before > 1)}. To read {'them' if before > 1 else 'it'}, set "
            "auto.offset.reset of the client to earliest, or produce after the assignment."
        )


def _first_fetches_at_end(
    requests: Sequence[RecordedRequest],
) -> Iterator[tuple[RecordedRequest, TopicPartition, int]]:
    """Yield the first Fetch, the partition and the offset of each consumer that had no committed
    offset and started at the log end offset in the response to its ListOffsets. A consumer that
    reconnects counts once. Consumers that fetch at the same time count separately, even if they
    have the same client id."""
    first: dict[int, int] = {}  # connection -> number of a request
    last: dict[int, int] = {}
    for request in requests:
        first.setdefault(request.connection, request.number)
        last[request.connection] = request.number
    ends: dict[tuple[int, TopicPartition], int] = {}
    committed: set[tuple[str | None, TopicPartition]] = set()
    fetching: dict[tuple[str | None, TopicPartition], set[int]] = {}  # -> connections
    for request in requests:
        client_id, connection = request.client_id, request.connection
        if request.api == "OffsetFetch":
            committed |= {(client_id, each) for each in _committed(request)}
        elif request.api == "ListOffsets":
            ends |= {(connection, each): end for each, end in _end_offsets(request).items()}
        elif request.api == "Fetch":
            for topic, index, each in request.by_partition(request.message):
                partition = topic, index
                connections = fetching.setdefault((client_id, partition), set())
                is_first = all(
                    before != connection and last[before] > first[connection]
                    for before in connections
                )
                connections.add(connection)
                is_at_end = ends.get((connection, partition)) == each.fetch_offset
                if is_first and is_at_end and (client_id, partition) not in committed:
                    yield request, partition, each.fetch_offset


def _lowest_fetches(
    requests: Sequence[RecordedRequest],
) -> dict[tuple[int, TopicPartition], int]:
    """Return the lowest fetch offset of each connection and partition."""
    lowest: dict[tuple[int, TopicPartition], int] = {}
    for request in requests:
        if request.api == "Fetch":
            for topic, index, each in request.by_partition(request.message):
                key = request.connection, (topic, index)
                lowest[key] = min(lowest.get(key, each.fetch_offset), each.fetch_offset)
    return lowest


def _committed(request: RecordedRequest) -> Iterator[TopicPartition]:
    """Yield the partitions of an OffsetFetch that have a committed offset."""
    if request.response is not None:
        for topic, index, each in request.by_partition(request.response):
            if each.committed_offset >= 0:
                yield topic, index


def _end_offsets(request: RecordedRequest) -> dict[TopicPartition, int]:
    """Return the log end offsets in the response to a ListOffsets."""
    if request.response is None:
        return {}
    requested = {
        (topic, index)
        for topic, index, each in request.by_partition(request.message)
        if each.timestamp == LATEST
    }
    return {
        (topic, index): each.offset
        for topic, index, each in request.by_partition(request.response)
        if (topic, index) in requested
    }


def _records_before(partition: Partition, offset: int) -> int:
    return sum(
        min(header.count, offset - header.base_offset)
        for header, _ in partition.log.batches()
        if header.base_offset < offset and not header.is_control
    )
