"""ListGroups (key 16).

v1 throttle_time · v3 flexible · v4 states_filter, group_state (KIP-518) · v5 types_filter,
group_type (KIP-848).
"""

from collections.abc import Iterator
from functools import partial

from ...coordinator.commands import ListGroups, ListResult
from ...topics.acls import AclOperation
from ..cluster import Node
from ..network.request import RequestContext, run_in_slices
from .authorization import allows_cluster, allows_group


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    command = ListGroups.filtered(
        getattr(request, "states_filter", ()), getattr(request, "types_filter", ())
    )
    if allows_cluster(context, node, AclOperation.DESCRIBE, reports=False):
        respond = RequestContext.respond
    else:
        respond = partial(_respond_with_described, node)
    run_in_slices(context, node, node.coordinators.submit_to_all(command, respond, context))


def _respond_with_described(node: Node, context: RequestContext, result: ListResult) -> None:
    def steps() -> Iterator[None]:
        groups = []
        for group in result.groups:
            if allows_group(context, node, AclOperation.DESCRIBE, group.group_id, reports=False):
                groups.append(group)
            yield
        context.respond(result._replace(groups=tuple(groups)))

    run_in_slices(context, node, steps())
