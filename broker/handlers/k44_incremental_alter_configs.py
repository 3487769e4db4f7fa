"""IncrementalAlterConfigs (key 44, KIP-339): changes single configurations. v1 flexible."""

from functools import partial

from ...topics.alter_configs import ConfigChange, incremental_alter_configs
from ..cluster import Node
from ..request import RequestContext
from .k33_alter_configs import change_each


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    change = partial(
        incremental_alter_configs, node.topics, node.node_id, validate_only=request.validate_only
    )
    changes = []
    for each in request.resources:
        resource = (each.resource_type, each.resource_name)
        values = [ConfigChange(c.name, c.config_operation, c.value) for c in each.configs]
        changes.append((resource, partial(change, resource, values)))
    change_each(context, node, changes)
