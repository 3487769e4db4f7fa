"""DescribeConfigs (key 32).

v1 include_synonyms, config_source (KIP-226) · v3 include_documentation, config_type (KIP-569) ·
v4 flexible.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.alter_configs import UNSUPPORTED_RESOURCES, ResourceType, unsupported_resource
from ...topics.config_def import (
    ConfigDef,
    ConfigSource,
    ConfigType,
    format_value,
    parse_integer,
)
from ...topics.config_keys import TOPIC_KEYS
from ...topics.configs import EVERY_BROKER, ConfigSynonym
from ...topics.group_configs import GROUP_KEYS
from ...topics.names import topic_name_error
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import config_denial
from .common import ERROR_MESSAGES

RESOURCE_TYPES: Final = {*ResourceType, *UNSUPPORTED_RESOURCES}


class ResourceResponse(NamedTuple):
    resource_type: int
    resource_name: str
    configs: Sequence[Message] = ()
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = ""  # not null, as in Kafka


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    resources = context.request.resources
    # An unknown resource type fails authorization in Kafka, and thus the whole request.
    are_valid = all(resource.resource_type in RESOURCE_TYPES for resource in resources)
    responses = []
    # Cached, so that repeated resources take no additional memory.
    described: dict[Any, list[Message]] = {}
    for resource in resources:
        key = resource.resource_type, resource.resource_name
        with_keys = *key, resource.configuration_keys
        try:
            if not are_valid:
                error = ErrorCode.invalid_request
                raise ApiError(error, ERROR_MESSAGES[error])
            _authorize(context, node, *key)
            if with_keys not in described:
                described[with_keys] = _describe(context, node, resource)
            responses.append(ResourceResponse(*key, described[with_keys]))
        except ApiError as rejection:
            message = rejection.message or ""
            responses.append(ResourceResponse(*key, (), rejection.error, message))
        yield
    context.respond(Message(results=responses))


def _authorize(context: RequestContext, node: Node, type_: int, name: str) -> None:
    error = config_denial(context, node, AclOperation.DESCRIBE_CONFIGS, type_, name)
    if error is not None:
        raise ApiError(error, ERROR_MESSAGES[error])


def _describe(context: RequestContext, node: Node, resource: Any) -> list[Message]:
    name = resource.resource_name
    if resource.resource_type == ResourceType.TOPIC:
        return _describe_topic(context, node, resource)
    if resource.resource_type == ResourceType.GROUP:
        return _describe_group(context, node, resource)
    if resource.resource_type != ResourceType.BROKER:
        raise unsupported_resource(resource.resource_type)
    if name == EVERY_BROKER:
        return _describe_every_broker(context, node, resource)
    broker_id = parse_integer(name)
    if broker_id is None:
        message = f"Broker id must be an integer, but it is: {name}"
        raise ApiError(ErrorCode.invalid_request, message)
    if broker_id != node.node_id:
        raise ApiError(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {node.node_id} or empty string, but received {name}",
        )
    keys = node.config.config_def
    responses = []
    for key in _requested(resource, keys):
        synonyms = node.configs.broker_synonyms(key)
        value = format_value(node.configs.effective(synonyms[0])) if synonyms else None
        responses.append(_response(context, keys, key, value, synonyms))
    return responses


def _describe_topic(context: RequestContext, node: Node, resource: Any) -> list[Message]:
    name = resource.resource_name
    if message := topic_name_error(name):
        raise ApiError(ErrorCode.invalid_topic_exception, message)
    topic = node.view.get(name)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    responses = []
    for key in _requested(resource, TOPIC_KEYS):
        value = format_value(node.configs.value(key, topic.overrides))
        synonyms = node.configs.synonyms(key, topic.overrides)
        responses.append(_response(context, TOPIC_KEYS, key, value, synonyms))
    return responses


def _describe_group(context: RequestContext, node: Node, resource: Any) -> list[Message]:
    """Any group id is valid, whether the group exists or not."""
    group_id = resource.resource_name
    if not group_id:
        raise ApiError(ErrorCode.invalid_request, "Group name must not be empty")
    overrides = node.configs.groups.get(group_id, {})
    responses = []
    for key in _requested(resource, GROUP_KEYS):
        synonyms = node.configs.group_synonyms(key, overrides)
        value = format_value(node.configs.effective(synonyms[0]))
        responses.append(_response(context, GROUP_KEYS, key, value, synonyms))
    return responses


def _describe_every_broker(context: RequestContext, node: Node, resource: Any) -> list[Message]:
    """Return the cluster-wide dynamic defaults only; static values may differ per node."""
    keys = node.config.config_def
    values = node.configs.every_broker
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return [
        _response(context, keys, key, values[key], [ConfigSynonym(key, values[key], source)])
        for key in _requested(resource, keys)
        if key in values
    ]


def _requested(resource: Any, keys: ConfigDef) -> list[str]:
    """Null and an empty list both request all keys; unknown ones are ignored."""
    requested = resource.configuration_keys or keys
    return [name for name, key in keys.items() if name in requested and not key.internal]


def _response(
    context: RequestContext,
    keys: ConfigDef,
    name: str,
    value: str | None,
    synonyms: list[ConfigSynonym],
) -> Message:
    request = context.request
    key = keys[name]
    is_sensitive = key.type is ConfigType.PASSWORD
    shown = synonyms if request.include_synonyms else []
    return Message(
        name=name,
        value=None if is_sensitive else value,
        read_only=key.read_only,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        synonyms=[
            Message(
                name=each.name,
                value=None if is_sensitive else format_value(each.value),
                source=each.source,
            )
            for each in shown
        ],
        config_type=key.type,
        documentation=key.doc if getattr(request, "include_documentation", False) else None,
        is_sensitive=is_sensitive,
    )
