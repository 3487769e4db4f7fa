"""DeleteGroups (key 42). v1 nothing new · v2 flexible."""

from datetime import timedelta
from functools import partial
from typing import NamedTuple

from ...coordinator.commands import DeleteGroup
from ...coordinator.results import GroupDeleted
from ...protocol.errors import ErrorCode
from ..gather import Gather
from ..node import Node
from ..request import NO_THROTTLE, RequestContext


class GroupResponse(NamedTuple):
    group_id: str
    error_code: ErrorCode


class DeleteGroupsResponse(NamedTuple):
    results: list[GroupResponse]
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    """A group that is named twice is deleted, and answered, once. Upstream answers in the order
    of a hash set, we in that of the request."""
    groups = list(dict.fromkeys(context.request.groups_names))
    deleted = Gather(len(groups), partial(_respond, context, groups))
    for place, group_id in enumerate(groups):
        node.groups.submit(DeleteGroup(group_id), deleted.put, place)


def _respond(context: RequestContext, groups: list[str], deleted: list[GroupDeleted]) -> None:
    context.respond(
        DeleteGroupsResponse(
            [
                GroupResponse(group_id, result.error)
                for group_id, result in zip(groups, deleted, strict=True)
            ]
        )
    )
