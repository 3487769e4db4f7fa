"""Helpers for handlers: leaders and brokers, failed responses, failed authentication."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from ...protocol.apis import STRING_BYTES_MAX
from ...protocol.errors import ApiError, ErrorCode
from ...topics.topic import Partition
from ..cluster import Node
from ..network.request import Message, RequestContext
from ..security.sasl import unexpected

ERROR_MESSAGES: Final = {
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.group_authorization_failed: "Group authorization failed.",
    ErrorCode.invalid_request: (
        "This most likely occurs because of a request being malformed by the client library or "
        "the message was sent to an incompatible broker. See the broker logs for more details."
    ),
    ErrorCode.topic_authorization_failed: "Topic authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "Transactional Id authorization failed.",
    ErrorCode.unknown_server_error: (
        "The server experienced an unexpected error when processing the request."
    ),
    ErrorCode.unknown_topic_id: "This server does not host this topic ID.",
    ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
}
"""The default messages in upstream's Errors."""


def default_rejection(error: ErrorCode) -> ApiError:
    return ApiError(error, ERROR_MESSAGES[error])


def fits(message: str | None) -> bool:
    """Return whether the message, which repeats text from the client, is short enough for a
    response. If not, Kafka fails to encode the response, and responds with UNKNOWN_SERVER_ERROR."""
    return message is None or len(message.encode()) <= STRING_BYTES_MAX


Response = TypeVar("Response", bound=tuple[Any, ...])


class BrokerResponse(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionResponse(NamedTuple):
    """The response for one partition, shared by several APIs."""

    partition_index: int
    error_code: ErrorCode


class TopicResponse(NamedTuple):
    """The response for one topic, shared by several APIs."""

    name: str
    partitions: Sequence[Any]


class CurrentLeader(NamedTuple):
    """The current leader, for the response to a client that contacted the wrong node (KIP-951). The
    id is NO_LEADER if the partition has no leader."""

    leader_id: int
    leader_epoch: int


def current_leader(partition: Partition) -> CurrentLeader:
    return CurrentLeader(partition.leader_id, partition.leader_epoch)


def brokers(context: RequestContext, nodes: Iterable[Node]) -> list[BrokerResponse]:
    """Return the nodes with their addresses for clients of the same listener. The list is empty if
    the listener is not advertised."""
    listener = context.client.listener.name
    return [
        BrokerResponse(
            each.node_id, *each.addresses[listener], each.config.str("broker.rack") or None
        )
        for each in nodes
        if listener in each.addresses
    ]


def node_endpoints(
    context: RequestContext, node: Node, leaders: Iterable[CurrentLeader]
) -> list[BrokerResponse]:
    """Return the addresses of these leaders without duplicates (upstream:
    KafkaApis.getCurrentLeader)."""
    ids = {leader.leader_id for leader in leaders}
    return brokers(context, (each for each in node.cluster.up if each.node_id in ids))


def fail_unless_durable(
    responses: list[Response], error: OSError | None, *, keys: int = 1
) -> list[Response]:
    """Return `responses`, with successes replaced by a storage error if the change did not become
    durable. In a response, the error code and message follow the first `keys` fields."""
    if error is None:
        return responses
    new: Any = type(responses[0]) if responses else None
    return [
        new(*each[:keys], ErrorCode.kafka_storage_error, str(error))
        if each[keys] is ErrorCode.none
        else each
        for each in responses
    ]


def respond_when_durable(
    context: RequestContext,
    node: Node,
    field: str,
    responses: list[Response],
    *,
    keys: int = 1,
) -> None:
    """Respond with a message whose `field` contains `responses`, once all changes of the registry
    are durable; see `fail_unless_durable`."""

    def respond(error: OSError | None) -> None:
        context.respond(Message(**{field: fail_unless_durable(responses, error, keys=keys)}))

    node.topics.on_durable(respond)


def is_illegal_in_exchange(context: RequestContext, node: Node, response: Any) -> bool:
    """Return whether the client is in the middle of a SASL exchange and must not send this request.
    If so, the client gets the response, and the connection is closed."""
    sasl = context.client.sasl
    if sasl is None or not sasl.is_exchanging:
        return False
    fail_authentication(context, node, unexpected(context.route.api.key), response)
    return True


def fail_authentication(context: RequestContext, node: Node, reason: str, response: Any) -> None:
    """Close the connection after the response, which is delayed so that passwords cannot be guessed
    quickly (`connection.failed.authentication.delay.ms`)."""
    sasl = context.client.sasl
    assert sasl is not None
    context.channel.close_after_responses(str(sasl.failure(reason)))
    timers = node.client_timers
    fails_ms = timers.now_ms() + sasl.listener.failure_delay_ms
    timers.call_at(fails_ms, partial(context.respond, response))
