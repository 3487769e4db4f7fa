"""DescribeConfigs (key 32).

v1 include_synonyms, config_source (KIP-226) · v3 include_documentation, config_type (KIP-569) ·
v4 flexible.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.alter import ELSEWHERE, Resource, not_kept
from ...topics.config_def import ConfigDef, ConfigSource, integer_of, text_of
from ...topics.config_keys import TOPIC_KEYS
from ...topics.configs import EVERY_BROKER, Synonym
from ...topics.errors import Refused
from ...topics.names import invalid_name
from ..node import Node
from ..request import ERROR_MESSAGES, NO_THROTTLE, RequestContext

KINDS: Final = {*Resource, *ELSEWHERE}


class SynonymResponse(NamedTuple):
    name: str
    value: str | None
    source: int


class ConfigResponse(NamedTuple):
    name: str
    value: str | None
    read_only: bool
    config_source: int
    synonyms: list[SynonymResponse]
    config_type: int
    documentation: str | None
    is_sensitive: bool = False


class ResourceResponse(NamedTuple):
    resource_type: int
    resource_name: str
    configs: Sequence[ConfigResponse] = ()
    error_code: ErrorCode = ErrorCode.none
    # Kafka says nothing in an empty string here, not in null.
    error_message: str | None = ""


class DescribeConfigsResponse(NamedTuple):
    results: list[ResourceResponse]
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    resources = context.request.resources
    # Of a kind that there is not Kafka cannot say who may see it, and answers nothing else either.
    are_known = all(resource.resource_type in KINDS for resource in resources)
    replies = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        try:
            if not are_known:
                raise Refused(ErrorCode.invalid_request, ERROR_MESSAGES[ErrorCode.invalid_request])
            replies.append(ResourceResponse(kind, name, _describe(context, node, resource)))
        except Refused as refused:
            message = refused.message or ""
            replies.append(ResourceResponse(kind, name, (), refused.error, message))
    context.respond(DescribeConfigsResponse(replies))


def _describe(context: RequestContext, node: Node, resource: Any) -> list[ConfigResponse]:
    name = resource.resource_name
    if resource.resource_type == Resource.TOPIC:
        return _describe_topic(context, node, resource)
    if resource.resource_type != Resource.BROKER:
        raise not_kept(resource.resource_type)
    if name == EVERY_BROKER:
        return _describe_every_broker(context, node, resource)
    number = integer_of(name)
    if number != node.node_id:
        if number is None:
            complaint = f"Broker id must be an integer, but it is: {name}"
        else:
            complaint = (
                f"Unexpected broker id, expected {node.node_id} or empty string, "
                f"but received {name}"
            )
        raise Refused(ErrorCode.invalid_request, complaint)
    keys = node.config.keys_known
    return [
        _reply(context, keys, key, _first(synonyms), synonyms)
        for key in _keys(resource, keys)
        for synonyms in [node.configs.broker_synonyms(key)]
    ]


def _describe_topic(context: RequestContext, node: Node, resource: Any) -> list[ConfigResponse]:
    name = resource.resource_name
    if complaint := invalid_name(name):
        raise Refused(ErrorCode.invalid_topic_exception, complaint)
    topic = node.readable.get(name)
    if topic is None:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    replies = []
    for key in _keys(resource, TOPIC_KEYS):
        text = text_of(node.configs.value(key, topic.overrides))
        synonyms = node.configs.synonyms(key, topic.overrides)
        replies.append(_reply(context, TOPIC_KEYS, key, text, synonyms))
    return replies


def _describe_every_broker(
    context: RequestContext, node: Node, resource: Any
) -> list[ConfigResponse]:
    """Only what was set for every broker: nobody knows here what each of them was started with."""
    keys = node.config.keys_known
    given = node.configs.every_broker
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        _reply(context, keys, key, given[key], [Synonym(key, given[key], source)])
        for key in _keys(resource, keys)
        if key in given
    ]


def _keys(resource: Any, keys: ConfigDef) -> list[str]:
    # No list and an empty one both ask for all; unknown keys are passed over.
    wanted = resource.configuration_keys
    return [key for key in keys if key in wanted] if wanted else list(keys)


def _first(synonyms: list[Synonym]) -> str | None:
    return text_of(synonyms[0].value) if synonyms else None


def _reply(
    context: RequestContext, keys: ConfigDef, name: str, text: str | None, synonyms: list[Synonym]
) -> ConfigResponse:
    request = context.request
    key = keys[name]
    return ConfigResponse(
        name=name,
        value=text,
        read_only=key.read_only,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        synonyms=[SynonymResponse(each.name, text_of(each.value), each.source) for each in synonyms]
        if request.include_synonyms
        else [],
        config_type=key.type,
        documentation=key.doc if getattr(request, "include_documentation", False) else None,
    )
