"""AlterConfigs (key 33), which replaces all of a resource's keys. v2 flexible."""

from collections.abc import Callable
from functools import partial

from ...topics.alter import Change, Operation, replace
from ..node import Node
from ..request import RequestContext
from .altered import answer


def handle(context: RequestContext, node: Node) -> None:
    work: list[tuple[tuple[int, str], Callable[[], None]]] = []
    change = partial(
        replace, node.topics, node.node_id, validate_only=context.request.validate_only
    )
    for each in context.request.resources:
        resource = (each.resource_type, each.resource_name)
        changes = [Change(c.name, Operation.SET, c.value) for c in each.configs]
        work.append((resource, partial(change, resource, changes)))
    answer(context, node, work)
