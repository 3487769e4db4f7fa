"""AlterConfigs (key 33): replaces all configurations of a resource. v2 flexible."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from ...protocol.errors import ApiError, ErrorCode
from ...topics.alter_configs import ConfigChange, Operation, check_distinct, legacy_alter_configs
from ..cluster import Node
from ..request import Message, RequestContext
from .common import or_storage_error


class ResourceResponse(NamedTuple):
    resource_type: int
    resource_name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    change = partial(
        legacy_alter_configs, node.topics, node.node_id, validate_only=request.validate_only
    )
    changes = []
    for each in request.resources:
        resource = (each.resource_type, each.resource_name)
        values = [ConfigChange(c.name, Operation.SET, c.value) for c in each.configs]
        changes.append((resource, partial(change, resource, values)))
    change_each(context, node, changes)


def change_each(
    context: RequestContext,
    node: Node,
    changes: Iterable[tuple[tuple[int, str], Callable[[], None]]],
) -> None:
    """Change each (type, name) resource by its function, which raises ApiError; respond when all
    changes are durable. IncrementalAlterConfigs does the same."""
    changes = list(changes)
    counts = Counter(resource for resource, _ in changes)
    responses = []
    for resource, change in changes:
        try:
            check_distinct(resource, counts)
            change()
        except ApiError as rejection:
            responses.append(ResourceResponse(*resource, rejection.error, rejection.message))
        else:
            responses.append(ResourceResponse(*resource))
    node.topics.on_durable(partial(_respond, context, responses))


def _respond(
    context: RequestContext, responses: list[ResourceResponse], error: OSError | None
) -> None:
    context.respond(Message(responses=or_storage_error(responses, error, keys=2)))
