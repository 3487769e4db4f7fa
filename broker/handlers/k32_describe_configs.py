"""DescribeConfigs (key 32).

v1 include_synonyms, config_source (KIP-226) · v3 include_documentation, config_type (KIP-569) ·
v4 flexible.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.alter_configs import ResourceType
from ...topics.broker_configs import key_of
from ...topics.configs.broker_loggers import logger_levels
from ...topics.configs.client_metrics import CLIENT_METRICS_KEYS
from ...topics.configs.config_def import (
    ConfigDef,
    ConfigKey,
    ConfigSource,
    ConfigType,
    format_value,
    parse_integer,
)
from ...topics.configs.effective import EVERY_BROKER, ConfigSynonym
from ...topics.configs.group_configs import GROUP_KEYS
from ...topics.configs.topic_keys import TOPIC_KEYS
from ...topics.names import topic_name_error
from ..cluster import Node
from ..config.keys import AUTHORIZER
from ..network.request import Message, RequestContext, in_slices
from .authorization import authorize_config
from .common import default_rejection

RESOURCE_TYPES: Final = frozenset(ResourceType)

Described: TypeAlias = tuple[ConfigKey, str | None, list[ConfigSynonym]]
"""A key, its value, and the values in all sources in order of precedence."""


class ResourceResponse(NamedTuple):
    resource_type: int
    resource_name: str
    configs: Sequence[Message] = ()
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = ""  # not null, as in Kafka


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    resources = context.request.resources
    # In Kafka, an unknown resource type fails authorization, so the whole request fails.
    are_valid = all(resource.resource_type in RESOURCE_TYPES for resource in resources)
    responses = []
    # Cached, so that repeated resources take no additional memory.
    described: dict[Any, list[Message]] = {}
    for resource in resources:
        key = resource.resource_type, resource.resource_name
        with_keys = *key, resource.configuration_keys
        try:
            if not are_valid:
                raise default_rejection(ErrorCode.invalid_request)
            authorize_config(context, node, AclOperation.DESCRIBE_CONFIGS, *key)
            if with_keys not in described:
                described[with_keys] = _describe(context, node, resource)
            responses.append(ResourceResponse(*key, described[with_keys]))
        except ApiError as rejection:
            message = rejection.message or ""
            responses.append(ResourceResponse(*key, (), rejection.error, message))
        yield
    context.respond(Message(results=responses))


def _describe(context: RequestContext, node: Node, resource: Any) -> list[Message]:
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        return _describe_loggers(node, resource)
    if resource.resource_type == ResourceType.TOPIC:
        found = _of_topic(node, resource)
    elif resource.resource_type == ResourceType.GROUP:
        found = _of_group(node, resource)
    elif resource.resource_type == ResourceType.CLIENT_METRICS:
        found = _of_client_metrics(node, resource)
    elif resource.resource_name == EVERY_BROKER:
        found = _of_every_broker(node, resource)
    else:
        found = _of_broker(node, resource)
    return [_response(context, *each) for each in found]


def _of_broker(node: Node, resource: Any) -> Iterator[Described]:
    _check_broker_id(node, resource.resource_name, "expected {} or empty string, but received {}")
    keys, configs = node.config.config_def, node.configs
    for key in _requested(resource, keys, lambda key: _is_set(node, key)):
        synonyms = configs.broker_synonyms(key)
        value = format_value(configs.effective(synonyms[0])) if synonyms else None
        yield _as_in_kafka(keys[key]), value, synonyms
    own, every = configs.dynamic.get(str(node.node_id), {}), configs.every_broker
    for key in _others(resource, keys, {**own, **every, **node.config.of_listeners}):
        yield _other(node, key)


def _check_broker_id(node: Node, name: str, unexpected: str) -> None:
    broker_id = parse_integer(name)
    message = f"Unexpected broker id, {unexpected.format(node.node_id, name)}"
    if broker_id is None:
        message = f"Broker id must be an integer, but it is: {name}"
    if broker_id != node.node_id:
        raise ApiError(ErrorCode.invalid_request, message)


def _describe_loggers(node: Node, resource: Any) -> list[Message]:
    name, requested = resource.resource_name, frozenset(resource.configuration_keys or ())
    if not name:
        raise ApiError(ErrorCode.invalid_request, "Broker id must not be empty")
    _check_broker_id(node, name, "expected {} but received {}")
    return [
        Message(
            name=logger,
            value=level,
            read_only=False,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            synonyms=[],
            config_type=ConfigType.UNKNOWN,
            documentation="",  # even if it is not requested, as in Kafka
            is_sensitive=False,
        )
        for logger, level in logger_levels().items()
        if not requested or logger in requested
    ]


def _is_set(node: Node, key: str) -> bool:
    is_static = node.config.source(key) is not ConfigSource.DEFAULT
    return is_static or bool(node.configs.dynamic_texts(key))


def _as_in_kafka(key: ConfigKey) -> ConfigKey:
    """Return the key as Kafka describes it. Kafka's broker does not know its authorizer's keys."""
    return replace(key, type=ConfigType.UNKNOWN, read_only=True) if key.name in AUTHORIZER else key


def _others(resource: Any, keys: ConfigDef, stored: Iterable[str]) -> list[str]:
    """Return the keys that are set for a single listener, or that do not exist in Kafka."""
    requested = frozenset(resource.configuration_keys or ())
    return [key for key in stored if key not in keys and (not requested or key in requested)]


def _other(
    node: Node, name: str, sources: Container[ConfigSource] = frozenset(ConfigSource)
) -> Described:
    """Describe one of `_others`, with its values from these sources."""
    configs, base = node.configs, key_of(node.config.config_def, name)
    key = ConfigKey(name, ConfigType.UNKNOWN, None, read_only=True)
    found = [ConfigSynonym(name, text, source) for text, source in configs.dynamic_texts(name)]
    if name in (static := node.config.of_listeners):
        found.append(ConfigSynonym(name, static[name], ConfigSource.STATIC_BROKER))
    if base is not None:
        key = replace(base, name=name, read_only=True)
        found += configs.broker_synonyms(base.name)
    synonyms = [each for each in found if each.source in sources]
    return key, format_value(synonyms[0].value), synonyms


def _of_topic(node: Node, resource: Any) -> Iterator[Described]:
    name = resource.resource_name
    if message := topic_name_error(name):
        raise ApiError(ErrorCode.invalid_topic_exception, message)
    topic = node.view.get(name)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    for key in _requested(resource, TOPIC_KEYS, topic.overrides.__contains__):
        value = format_value(node.configs.value(key, topic.overrides))
        yield TOPIC_KEYS[key], value, node.configs.synonyms(key, topic.overrides)


def _of_group(node: Node, resource: Any) -> Iterator[Described]:
    """Any group id is valid, whether the group exists or not."""
    group_id = resource.resource_name
    if not group_id:
        raise ApiError(ErrorCode.invalid_request, "Group name must not be empty")
    overrides = node.configs.groups.get(group_id, {})
    for key in _requested(resource, GROUP_KEYS):
        synonyms = node.configs.group_synonyms(key, overrides)
        yield GROUP_KEYS[key], format_value(node.configs.effective(synonyms[0])), synonyms


def _of_client_metrics(node: Node, resource: Any) -> Iterator[Described]:
    """Any name of a client metrics subscription is valid, whether it is in use or not."""
    name = resource.resource_name
    if not name:
        message = "Client metrics subscription name must not be empty"
        raise ApiError(ErrorCode.invalid_request, message)
    overrides = node.configs.client_metrics.get(name, {})
    for key in _requested(resource, CLIENT_METRICS_KEYS):
        defined = CLIENT_METRICS_KEYS[key]
        value, synonyms = defined.default, []
        if key in overrides:
            value = defined.parse(overrides[key])
            synonyms = [ConfigSynonym(key, value, ConfigSource.DYNAMIC_CLIENT_METRICS)]
        yield defined, format_value(value), synonyms


def _of_every_broker(node: Node, resource: Any) -> Iterator[Described]:
    """Yield only the cluster-wide dynamic defaults, because static values may differ per node."""
    keys, values = node.config.config_def, node.configs.every_broker
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    for key in _requested(resource, keys, values.__contains__):
        if key in values:
            yield keys[key], values[key], [ConfigSynonym(key, values[key], source)]
    for key in _others(resource, keys, values):
        yield _other(node, key, {source})


def _requested(
    resource: Any, keys: ConfigDef, is_set: Callable[[str], bool] = lambda _key: False
) -> list[str]:
    """Return the names of the requested keys. Null and an empty list both request all keys. Unknown
    keys, and internal keys that are not set, are ignored."""
    requested = frozenset(resource.configuration_keys or keys)
    return [
        name
        for name, key in keys.items()
        if name in requested and (not key.internal or is_set(name))
    ]


def _response(
    context: RequestContext, key: ConfigKey, value: str | None, synonyms: list[ConfigSynonym]
) -> Message:
    request = context.request
    # Kafka also hides the values of keys that it does not know.
    is_sensitive = key.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)
    shown = synonyms if request.include_synonyms else []
    return Message(
        name=key.name,
        value=None if is_sensitive else value,
        read_only=key.read_only,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        synonyms=[
            Message(
                name=each.name,
                value=None if is_sensitive else each.text or format_value(each.value),
                source=each.source,
            )
            for each in shown
        ],
        config_type=key.type,
        documentation=key.doc if getattr(request, "include_documentation", False) else None,
        is_sensitive=is_sensitive,
    )
