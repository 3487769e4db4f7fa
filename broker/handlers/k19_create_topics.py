"""CreateTopics (key 19).

v4 -1 for partitions and replicas (KIP-464) · v5 flexible, the topic's configuration (KIP-525) ·
v6 THROTTLING_QUOTA_EXCEEDED is possible · v7 topic ids.
"""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.admin import (
    DEFAULT,
    NewTopic,
    PlannedTopic,
    check_partition_count,
    default_partitions,
    plan_topic,
)
from ...topics.configs.config_def import ConfigSource, format_value
from ...topics.configs.effective import Configs
from ...topics.configs.topic_keys import TOPIC_KEYS
from ...topics.names import KAFKA_METADATA_TOPIC
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices, milliseconds
from .authorization import allows_cluster, allows_topic
from .common import respond_when_durable


class ConfigResponse(NamedTuple):
    name: str
    value: str | None
    config_source: int
    read_only: bool = False
    is_sensitive: bool = False


class TopicResponse(NamedTuple):
    name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    topic_id: UUID | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Sequence[ConfigResponse] | None = ()


class HiddenTopicResponse(TopicResponse):
    """A topic whose configuration the client may not describe. A separate type, so that the encoder
    skips the tagged-field comparison for all other responses."""

    topic_config_error_code: int = ErrorCode.topic_authorization_failed


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    counts = Counter(topic.name for topic in request.topics)
    denied = _denied(context, node, counts)
    # In Kafka, the controller receives only these topics, because the broker rejects the others.
    handled = [
        each
        for each in request.topics
        if counts[each.name] == 1 and each.name not in denied and each.name != KAFKA_METADATA_TOPIC
    ]
    try:
        _check_request(node, handled, milliseconds(request.timeout))
    except ApiError as failure:
        failed = [TopicResponse(t.name, failure.error, failure.message) for t in request.topics]
        context.respond(Message(topics=failed))
        return
    responses: list[TopicResponse] = []
    # Topics with the same overrides share one configuration.
    configs: dict[tuple[tuple[str, str], ...], list[ConfigResponse]] = {}
    created = set[str]()
    for topic in {each.name: each for each in request.topics}.values():
        try:
            _check_name(topic.name, counts, denied)
            node.view.check_new_topic(topic.name)
            planned = plan_topic(node.topics, _new_topic(topic), created)
            if context.meter is not None:
                context.meter.record_mutations(planned.partitions, is_strict=context.version >= 6)
            topic_id = _create(node, topic.name, planned, request.validate_only)
            created.add(topic.name)
            if not allows_topic(
                context, node, AclOperation.DESCRIBE_CONFIGS, topic.name, reports=False
            ):
                responses.append(HiddenTopicResponse(topic.name, topic_id=topic_id))
                continue
            overrides = tuple(planned.overrides.items())
            if overrides not in configs:
                configs[overrides] = _configs(node.topics.configs, planned)
            responses.append(
                TopicResponse(
                    topic.name,
                    topic_id=topic_id,
                    num_partitions=planned.partitions,
                    replication_factor=planned.replication_factor,
                    configs=configs[overrides],
                )
            )
        except ApiError as rejection:
            responses.append(TopicResponse(topic.name, rejection.error, rejection.message))
        yield
    respond_when_durable(context, node, "topics", responses)


def _check_request(node: Node, topics: Sequence[Any], timeout_ms: int) -> None:
    """Raise ApiError if the whole request fails, so that no topic is created. Partitions of invalid
    topics count. Upstream: ReplicationControlManager.validateTotalNumberOfPartitions."""
    if topics and timeout_ms <= 0:
        raise ApiError(ErrorCode.request_timed_out)
    default = default_partitions(node.topics)
    check_partition_count(
        sum(
            len(topic.assignments)
            or (default if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0))
            for topic in topics
        )
    )


def _check_name(name: str, counts: Counter[str], denied: Container[str]) -> None:
    if counts[name] > 1:
        raise ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
    if name in denied:
        raise ApiError(ErrorCode.topic_authorization_failed, "Authorization failed.")


def _denied(context: RequestContext, node: Node, counts: Counter[str]) -> set[str]:
    """Return the topics that the client may not create. Duplicate topics are rejected first."""
    create = AclOperation.CREATE
    if allows_cluster(context, node, create, reports=False):
        return set()
    return {
        name
        for name, count in counts.items()
        if count == 1 and not allows_topic(context, node, create, name)
    }


def _new_topic(requested: Any) -> NewTopic:
    return NewTopic(
        name=requested.name,
        partitions=requested.num_partitions,
        replication_factor=requested.replication_factor,
        assignments=[(each.partition_index, each.broker_ids) for each in requested.assignments],
        # The last value of a duplicate key wins, as in Kafka.
        configs={each.name: each.value for each in requested.configs},
    )


def _create(node: Node, name: str, planned: PlannedTopic, validate_only: bool) -> UUID:
    if validate_only:
        return node.topics.new_topic_id()  # a new id that belongs to no topic, as in Kafka
    try:
        partitions, overrides, assignment, _ = planned
        return node.topics.create(name, partitions, overrides, assignment).id
    except OSError as error:
        raise ApiError(ErrorCode.kafka_storage_error, str(error)) from error


def _configs(configs: Configs, planned: PlannedTopic) -> list[ConfigResponse]:
    """Return the configs of a new topic. Every node returns the defaults of the first node, as
    every node of Kafka returns those of the controller."""
    responses = []
    for key in sorted(TOPIC_KEYS):
        if TOPIC_KEYS[key].internal and key not in planned.overrides:
            continue
        text = format_value(configs.value(key, planned.overrides))
        synonyms = configs.synonyms(key, planned.overrides)
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        # An override is returned as the client wrote it.
        responses.append(ConfigResponse(key, planned.overrides.get(key, text), source))
    return responses
