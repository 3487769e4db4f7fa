"""AlterConfigs (key 33): replaces all configurations of a resource. v2 flexible."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.alter_configs import alter_configs
from ...topics.configs.changes import ConfigChange, Operation
from ..cluster import Node
from ..network.request import RequestContext, in_slices
from .authorization import authorize_config
from .common import respond_when_durable


class ResourceResponse(NamedTuple):
    resource_type: int
    resource_name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    return apply_changes(context, node, replace=True)


def apply_changes(context: RequestContext, node: Node, *, replace: bool) -> Iterator[None]:
    """Change each resource, and respond when all changes are durable. If `replace`, reset all other
    keys. Otherwise, the request is an IncrementalAlterConfigs, which specifies an operation for
    each key."""
    request = context.request
    authorize = partial(authorize_config, context, node, AclOperation.ALTER_CONFIGS)
    counts = Counter((each.resource_type, each.resource_name) for each in request.resources)
    responses = []
    for each in request.resources:
        resource = each.resource_type, each.resource_name
        changes = [
            ConfigChange(c.name, Operation.SET if replace else c.config_operation, c.value)
            for c in each.configs
        ]
        try:
            if counts[resource] > 1:
                raise ApiError(ErrorCode.invalid_request, "Each resource must appear at most once.")
            alter_configs(
                node.topics,
                node.node_id,
                resource,
                changes,
                replace=replace,
                validate_only=request.validate_only,
                authorize=partial(authorize, *resource),
            )
        except ApiError as rejection:
            responses.append(ResourceResponse(*resource, rejection.error, rejection.message))
        else:
            responses.append(ResourceResponse(*resource))
        yield
    respond_when_durable(context, node, "responses", responses, keys=2)
