"""What AlterConfigs and IncrementalAlterConfigs share: one answer per resource, when durable."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.alter import check_distinct
from ...topics.errors import Refused
from ..node import Node
from ..request import NO_THROTTLE, RequestContext


class ResourceResponse(NamedTuple):
    resource_type: int
    resource_name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class AlterConfigsResponse(NamedTuple):
    responses: list[ResourceResponse]
    throttle_time: timedelta = NO_THROTTLE


def answer(
    context: RequestContext, node: Node, work: Iterable[tuple[tuple[int, str], Callable[[], None]]]
) -> None:
    """Change each (type, name) resource by its function, which raises Refused, and answer."""
    work = list(work)
    times = Counter(resource for resource, _ in work)
    replies = []
    for resource, change in work:
        try:
            check_distinct(resource, times)
            change()
        except Refused as refused:
            replies.append(ResourceResponse(*resource, refused.error, refused.message))
        else:
            replies.append(ResourceResponse(*resource))
    node.topics.on_durable(partial(_settled, context, replies))


def _settled(
    context: RequestContext, replies: list[ResourceResponse], error: OSError | None
) -> None:
    if error is not None:
        replies = [
            ResourceResponse(*each[:2], ErrorCode.kafka_storage_error, str(error))
            if each.error_code is ErrorCode.none
            else each
            for each in replies
        ]
    context.respond(AlterConfigsResponse(replies))
