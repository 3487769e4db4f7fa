"""IncrementalAlterConfigs (key 44), which changes single keys (KIP-339). v1 flexible."""

from collections.abc import Callable
from functools import partial

from ...topics.alter import Change, alter
from ..node import Node
from ..request import RequestContext
from .altered import answer


def handle(context: RequestContext, node: Node) -> None:
    work: list[tuple[tuple[int, str], Callable[[], None]]] = []
    change = partial(alter, node.topics, node.node_id, validate_only=context.request.validate_only)
    for each in context.request.resources:
        resource = (each.resource_type, each.resource_name)
        changes = [Change(c.name, c.config_operation, c.value) for c in each.configs]
        work.append((resource, partial(change, resource, changes)))
    answer(context, node, work)
