"""An incremental Fetch (KIP-227) names only what has changed since the one before. A test means all
that it fetches: what it looks at, filters and refuses is the request with every partition."""

from dataclasses import replace
from itertools import groupby
from typing import Any

from ..broker.cluster import Node
from ..broker.handlers.k01_fetch import forgotten_partitions, is_by_id, requested_partitions
from ..broker.request import RequestContext
from ..protocol.messages import request_module

FETCH = 1


def spelled_out(call: RequestContext, node: Node) -> Any:
    """kio's request as it came, or as a full one would have said it."""
    request = call.request
    session = node.fetch_sessions.get(getattr(request, "session_id", 0))
    if session is None or session.epoch != request.session_epoch:
        return request
    asked = {place: each.request for place, each in session.partitions.items()}
    asked |= {place: each.request for place, each in requested_partitions(call).items()}
    for place in forgotten_partitions(call):
        asked.pop(place, None)
    part = request_module(FETCH, call.version).FetchTopic
    key = "topic_id" if is_by_id(call) else "topic"
    topics = [
        part(partitions=tuple(each for _, each in of_topic), **{key: topic})
        for topic, of_topic in groupby(asked.items(), key=lambda item: item[0][0])
    ]
    return replace(request, topics=tuple(topics))
