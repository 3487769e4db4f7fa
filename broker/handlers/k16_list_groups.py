"""ListGroups (key 16).

v1 throttle_time · v3 flexible · v4 states_filter, group_state (KIP-518) · v5 types_filter,
group_type (KIP-848).
"""

from ...coordinator.commands import ListGroups
from ..cluster import Node
from ..request import RequestContext


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    command = ListGroups.filtered(
        getattr(request, "states_filter", ()), getattr(request, "types_filter", ())
    )
    node.coordinators.submit_to_all(command, RequestContext.respond, context)
