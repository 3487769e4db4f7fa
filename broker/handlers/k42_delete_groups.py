"""DeleteGroups (key 42). v1 nothing new · v2 flexible."""

from collections.abc import Iterator
from functools import partial

from ...coordinator.commands import DeleteGroup, DeleteGroupResult
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..gather import Gather
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_group


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    """Delete groups. Duplicate group ids get one response. Responses are in request order
    (upstream: hash order)."""
    groups = list(dict.fromkeys(context.request.groups_names))
    results = Gather(len(groups), partial(_respond, context, groups))
    for index, group_id in enumerate(groups):
        if allows_group(context, node, AclOperation.DELETE, group_id):
            node.coordinators.submit(DeleteGroup(group_id), results.put, index)
        else:
            results.put(index, DeleteGroupResult(ErrorCode.group_authorization_failed))
        yield


def _respond(context: RequestContext, groups: list[str], results: list[DeleteGroupResult]) -> None:
    responses = [
        Message(group_id=group_id, error_code=result.error_code)
        for group_id, result in zip(groups, results, strict=True)
    ]
    context.respond(Message(results=responses))
