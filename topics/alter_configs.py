"""AlterConfigs and IncrementalAlterConfigs, for every type of resource.

Upstream: ConfigurationControlManager, DynamicBrokerConfig. Each function raises ApiError.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum

from ..protocol.errors import ApiError, ErrorCode
from .broker_configs import configure_broker
from .configs.broker_loggers import alter_loggers
from .configs.changes import ConfigChange, changed, check_changes, check_operations
from .configs.client_metrics import validate_subscription
from .configs.config_def import InvalidConfigValue, parse_integer
from .configs.effective import EVERY_BROKER, validate_overrides
from .configs.group_configs import GROUP_KEYS, validate_group_overrides
from .configs.topic_keys import TOPIC_KEYS
from .names import topic_name_error
from .registry import TopicRegistry
from .registry_log import ClientMetricsRecord, GroupConfigRecord


class ResourceType(IntEnum):
    """Resource types, with their protocol ids."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def alter_configs(
    topics: TopicRegistry,
    node_id: int,
    resource: tuple[int, str],
    changes: Iterable[ConfigChange],
    *,
    replace: bool,
    validate_only: bool,
    authorize: Callable[[], None] = lambda: None,
) -> None:
    """Change some keys of the resource. If `replace`, reset all other keys. `node_id` is the node
    that received the request. `authorize` raises ApiError if the client is not authorized. It is
    called after the checks that a Kafka broker makes before it forwards the request to the
    controller, which authorizes the client."""
    changes = list(changes)
    check_changes(changes)
    kind, name = resource
    if kind == ResourceType.TOPIC:
        authorize()
        check_operations(changes, "Unknown operation {} for config {}")
        topic = topics.get(name)
        before = {} if replace or topic is None else topic.overrides
        overrides = changed(TOPIC_KEYS, before, changes)
        _check_topic_name(name)
        _configure_topic(topics, name, overrides, validate_only)
    elif kind == ResourceType.GROUP:
        authorize()
        check_operations(changes, "Unknown operation {} for config {}")
        before = {} if replace else topics.configs.groups.get(name, {})
        _configure_group(topics, name, changed(GROUP_KEYS, before, changes), validate_only)
    elif kind == ResourceType.CLIENT_METRICS:
        authorize()
        check_operations(changes, "Unknown operation {} for config {}")
        before = {} if replace else topics.configs.client_metrics.get(name, {})
        # Kafka's controller does not know the types of these keys, so it treats no key as a list.
        _configure_client_metrics(topics, name, changed({}, before, changes), validate_only)
    elif kind == ResourceType.BROKER_LOGGER and not replace:
        authorize()
        _check_node(node_id, name, "Unexpected node id. Expected {}, but received {}")
        check_operations(changes, "Unknown operation {} for config {}")
        alter_loggers(changes, validate_only=validate_only)
    elif kind == ResourceType.BROKER:
        _alter_broker(
            topics, node_id, name, changes, authorize, replace=replace, validate_only=validate_only
        )
    else:
        raise ApiError(ErrorCode.invalid_request, f"Unknown resource type {kind}")


def _alter_broker(
    topics: TopicRegistry,
    node_id: int,
    name: str,
    changes: list[ConfigChange],
    authorize: Callable[[], None],
    *,
    replace: bool,
    validate_only: bool,
) -> None:
    target = EVERY_BROKER if name == EVERY_BROKER else str(node_id)
    if target:
        _check_node(node_id, name, "Unexpected broker id, expected {}, but received {}")
    check_operations(changes, "Unknown operations type {}")
    configs = topics.configs
    stored = configs.dynamic.get(target, {}) if target else configs.every_broker
    overrides = changed(configs.broker.config_def, {} if replace else stored, changes)
    named = [each.key for each in changes]
    configure_broker(
        topics, node_id, target, overrides, named, authorize, validate_only=validate_only
    )


def _check_topic_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    if message := topic_name_error(name):
        raise ApiError(ErrorCode.invalid_topic_exception, message)


def _configure_topic(
    topics: TopicRegistry, name: str, overrides: Mapping[str, str], validate_only: bool
) -> None:
    try:
        valid = validate_overrides(topics.configs, overrides)
    except InvalidConfigValue as error:
        raise ApiError(ErrorCode.invalid_config, str(error)) from error
    topic = topics.get(name)
    if topic is None:
        message = f"The topic '{name}' does not exist."
        raise ApiError(ErrorCode.unknown_topic_or_partition, message)
    if not validate_only and valid != topic.overrides:
        topics.configure(topic, valid)


def _configure_group(
    topics: TopicRegistry, group_id: str, overrides: Mapping[str, str], validate_only: bool
) -> None:
    """Configure a group, which need not exist. Deleting the group does not delete its
    configuration."""
    if not group_id:
        raise ApiError(ErrorCode.invalid_request, "Default group resources are not allowed.")
    try:
        validate_group_overrides(topics.configs.broker, overrides)
    except InvalidConfigValue as error:
        raise ApiError(ErrorCode.invalid_config, str(error)) from error
    if not validate_only and overrides != topics.configs.groups.get(group_id, {}):
        topics.change(GroupConfigRecord(group_id, overrides))


def _configure_client_metrics(
    topics: TopicRegistry, name: str, overrides: Mapping[str, str], validate_only: bool
) -> None:
    if not name:
        raise ApiError(ErrorCode.invalid_request, "Subscription name can't be empty")
    try:
        validate_subscription(overrides)
    except InvalidConfigValue as error:
        raise ApiError(ErrorCode.invalid_config, str(error)) from error
    if not validate_only and overrides != topics.configs.client_metrics.get(name, {}):
        topics.change(ClientMetricsRecord(name, overrides))


def _check_node(node_id: int, name: str, message: str) -> None:
    number = parse_integer(name)
    if number is None:
        problem = f"Node id must be an integer, but it is: {name}"
        raise ApiError(ErrorCode.invalid_request, problem)
    if number != node_id:
        raise ApiError(ErrorCode.invalid_request, message.format(node_id, name))
