"""CreateTopics (key 19).

v4 -1 for partitions and replicas (KIP-464) · v5 flexible, the topic's configuration (KIP-525) ·
v6 THROTTLING_QUOTA_EXCEEDED may be answered · v7 topic ids.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ...protocol.errors import ErrorCode
from ...topics.admin import NewTopic, PlannedTopic, check_partitions_in_request, plan_topic
from ...topics.config_keys import TOPIC_KEYS
from ...topics.configs import Configs, described
from ...topics.errors import Refused
from ..node import Node
from ..request import NO_THROTTLE, RequestContext, milliseconds


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


class CreateTopicsResponse(NamedTuple):
    topics: list[TopicResponse]
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    times = Counter(wanted.name for wanted in request.topics)
    if milliseconds(request.timeout) <= 0 and 1 in times.values():
        # Kafka's controller begins nothing whose time is up; it is not asked about duplicates.
        late = [TopicResponse(each.name, ErrorCode.request_timed_out) for each in request.topics]
        context.respond(CreateTopicsResponse(late))
        return
    replies = []
    partitions = 0
    for wanted in {each.name: each for each in request.topics}.values():
        try:
            if times[wanted.name] > 1:
                raise Refused(ErrorCode.invalid_request, "Duplicate topic name.")
            node.readable.check_new_topic(wanted.name)
            planned = plan_topic(node.topics, _new_topic(wanted))
            check_partitions_in_request(partitions + planned.partitions)
            replies.append(_make(node, wanted.name, planned, request.validate_only))
            partitions += planned.partitions
        except Refused as refused:
            replies.append(TopicResponse(wanted.name, refused.error, refused.message))
    node.topics.on_durable(partial(_settled, context, replies))


def _new_topic(wanted: Any) -> NewTopic:
    return NewTopic(
        name=wanted.name,
        partitions=wanted.num_partitions,
        replication_factor=wanted.replication_factor,
        assignments=[(each.partition_index, each.broker_ids) for each in wanted.assignments],
        # Of a key that is named twice the last counts, as in Kafka.
        configs={each.name: each.value for each in wanted.configs},
    )


def _make(node: Node, name: str, planned: PlannedTopic, validate_only: bool) -> TopicResponse:
    if validate_only:
        topic_id = node.topics.fresh_id()  # of nothing, as from Kafka
    else:
        try:
            topic_id = node.topics.create(name, planned.partitions, planned.overrides).id
        except OSError as error:
            raise Refused(ErrorCode.kafka_storage_error, str(error)) from error
    return TopicResponse(
        name,
        topic_id=topic_id,
        num_partitions=planned.partitions,
        replication_factor=len(node.topics.nodes.ids),
        configs=_config_replies(node.topics.configs, planned),
    )


def _config_replies(configs: Configs, planned: PlannedTopic) -> list[ConfigResponse]:
    given = planned.overrides
    shown = [described(configs, key, given) for key in sorted(TOPIC_KEYS)]
    # What was given is told in its own words.
    return [ConfigResponse(key, given.get(key, text), source) for key, text, source, _ in shown]


def _settled(context: RequestContext, replies: list[TopicResponse], error: OSError | None) -> None:
    if error is not None:
        replies = [
            TopicResponse(each.name, ErrorCode.kafka_storage_error, str(error))
            if each.error_code is ErrorCode.none
            else each
            for each in replies
        ]
    context.respond(CreateTopicsResponse(replies))
