"""Why a consumer got no records, or a producer cannot start: facts of the history that a failed
wait or the report of a failed test mentions."""

from collections.abc import Iterator

from ..coordinator.classic.group import Group
from ..protocol.consumer_protocol import decode_subscription
from ..protocol.errors import ProtocolError
from ..suggestions import did_you_mean
from ..topics.registry import TopicRegistry
from .history import History
from .lifecycle import BrokerHost
from .recorded_request import RecordedRequest, TopicPartition

LATEST_TIMESTAMP = -1  # of ListOffsets
# Metadata is requested again and again for a topic that does not exist.
METADATA_REQUESTS_MAX = 1000
# A consumer joins within this time after it has found its coordinator.
JOIN_SECONDS = 0.5


def hints(host: BrokerHost, group: Group | None = None, group_id: str | None = None) -> list[str]:
    """Return sentences about the clients of a group, or about all clients. On the broker's loop."""
    history, topics = host.history, host.broker.node.topics
    if not history.requests:
        addresses = ", ".join(f"{name}:{port}" for name, port in host.broker.addresses.values())
        return [f"No client has sent a request to {addresses}."]
    clients = None
    if group_id is not None:
        clients = {each.client_id for each in history.requests if group_id in each.groups}
    return [
        *_unknown_topics(history, topics, group, clients),
        *_started_at_end(history, topics, clients),
    ]


def _unknown_topics(
    history: History,
    topics: TopicRegistry,
    group: Group | None,
    clients: set[str | None] | None,
) -> Iterator[str]:
    """Topics that members are subscribed to or that clients have requested, which do not exist; or
    are empty, because their name is similar to that of one with records."""
    wanted: dict[str, str] = {}
    for request in history.requests_of("Metadata")[-METADATA_REQUESTS_MAX:]:
        if request.response is None or (clients is not None and request.client_id not in clients):
            continue
        for topic in request.response.topics:
            if topic.error_code and topic.name:
                wanted[topic.name] = f"requested by {request.client_id}"
    for member in () if group is None else group.members.values():
        for topic in _subscription(member.protocols[0][1]):
            wanted[topic] = f"to which {member.member_id} is subscribed"
    names = [each.name for each in topics]
    filled = [each.name for each in topics if any(p.high_watermark for p in each.partitions)]
    for topic, by in wanted.items():
        if topic not in names:
            yield f"Topic {topic}, {by}, does not exist{did_you_mean(topic, names) or '.'}"
        elif topic not in filled and (hint := did_you_mean(topic, filled)):
            yield f"Topic {topic}, {by}, has no records{hint}"


def _subscription(metadata: bytes) -> tuple[str, ...]:
    try:
        return tuple(decode_subscription(metadata).topics)
    except ProtocolError:  # not the consumer protocol
        return ()


def _started_at_end(
    history: History, topics: TopicRegistry, clients: set[str | None] | None
) -> Iterator[str]:
    """Consumers whose first Fetch of a partition was at its end, although it had records."""
    latest: dict[tuple[str | None, TopicPartition], int] = {}
    fetched: set[tuple[str | None, TopicPartition]] = set()
    seen: set[int] = set()  # of repeated requests, one is decoded
    for request in history.requests:
        if clients is not None and request.client_id not in clients:
            continue
        if request.api == "ListOffsets":
            latest |= {(request.client_id, each): n for each, n in _latest_offsets(request).items()}
        elif request.api == "Fetch" and id(request.cached_message) not in seen:
            seen.add(id(request.cached_message))
            for topic, index, each in request.by_partition(request.message):
                key = request.client_id, (topic, index)
                if key in fetched:
                    continue
                fetched.add(key)
                found = topics.get(topic)
                partition = None if found is None else found.partition(index)
                if partition is None or latest.get(key) != each.fetch_offset:
                    continue
                if before := each.fetch_offset - partition.start_offset:
                    records = "1 record is" if before == 1 else f"{before} records are"
                    yield (
                        f"Consumer {request.client_id} started at the end of {topic}-{index} "
                        f"(auto.offset.reset=latest): {records} before it."
                    )


def _latest_offsets(request: RecordedRequest) -> dict[TopicPartition, int]:
    """Return the log end offsets in the response to a ListOffsets."""
    if request.response is None:
        return {}
    asked = {
        (topic, index)
        for topic, index, each in request.by_partition(request.message)
        if each.timestamp == LATEST_TIMESTAMP
    }
    return {
        (topic, index): each.offset
        for topic, index, each in request.by_partition(request.response)
        if (topic, index) in asked and hasattr(each, "offset")
    }


def unsupported_features(history: History, since_s: float = 0) -> list[str]:
    """Return sentences about clients that use what the broker does not support, and that get a
    misleading error or none."""
    requests = [each for each in history.requests if each.wall_s >= since_s]
    lines = [
        f"Producer {each.client_id} has the transactional id {each.message.transactional_id}: "
        "transactions are not supported, so it gets TRANSACTIONAL_ID_AUTHORIZATION_FAILED."
        for each in requests
        if each.api == "InitProducerId" and each.message.transactional_id
    ]
    lines += [
        f"Consumer {each.client_id} looked up the coordinator of group {each.group}, and then sent "
        "nothing: it has not subscribed, or it has group.protocol=consumer (KIP-848), which is not "
        "supported. librdkafka then polls without an error; use group.protocol=classic, its "
        "default."
        for each in _lookups_without_join(requests, history.wall_s)
    ]
    return list(dict.fromkeys(lines))


def _lookups_without_join(
    requests: list[RecordedRequest], now_s: float
) -> Iterator[RecordedRequest]:
    """Yield the first FindCoordinator of each group with which a librdkafka consumer does what it
    does with KIP-848's protocol if ApiVersions lacks ConsumerGroupHeartbeat: it sends nothing more
    for the group, and requests no topic. Not by client id: that of most clients is the default."""
    of_group: dict[str, list[RecordedRequest]] = {}
    of_connection: dict[int, list[RecordedRequest]] = {}
    for each in requests:
        of_connection.setdefault(each.connection, []).append(each)
        for group in each.groups:
            of_group.setdefault(group, []).append(each)
    for first, *more in of_group.values():
        if {each.api for each in (first, *more)} != {"FindCoordinator"}:
            continue
        if now_s - first.wall_s < JOIN_SECONDS:
            continue
        connections = {each.connection for each in (first, *more)}
        sent = [each for number in connections for each in of_connection[number]]
        if all(map(_is_lookup, sent)) and any(map(_is_librdkafka, sent)):
            yield first


def _is_lookup(request: RecordedRequest) -> bool:
    if request.api == "Metadata":
        return not request.message.topics
    return request.api in ("ApiVersions", "FindCoordinator")


def _is_librdkafka(request: RecordedRequest) -> bool:
    """Whether it is an ApiVersions that names librdkafka, or its bindings and its version."""
    message = request.message
    names = (getattr(message, f"client_software_{each}", "") for each in ("name", "version"))
    return any("rdkafka" in name for name in names)
