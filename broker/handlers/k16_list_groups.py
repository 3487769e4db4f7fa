"""ListGroups (key 16).

v1 throttle_time · v3 flexible · v4 states_filter, group_state (KIP-518) · v5 types_filter,
group_type (KIP-848).
"""

from typing import NamedTuple

from ...coordinator.commands import ListGroups, ListResult
from ..cluster import Node
from ..request import Message, RequestContext


class GroupResponse(NamedTuple):
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    command = ListGroups(
        getattr(request, "states_filter", ()), getattr(request, "types_filter", ())
    )
    node.coordinators.submit_to_all(command, _respond, context)


def _respond(context: RequestContext, result: ListResult) -> None:
    groups = [GroupResponse(*group) for group in result.groups]
    context.respond(Message(error_code=result.error, groups=groups))
