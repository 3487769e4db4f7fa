"""Endpoints of what happened since the broker was started: requests, and what groups told."""

from typing import Final

from ..testing.asked import api_named
from ..testing.history import matches
from ..testing.waiting import TIMEOUT_SECONDS
from .control import Control
from .endpoint import Endpoint
from .fields import Count, Limit, Name, Offset, Timeout
from .words import Json, of_event, of_request


def requests(
    control: Control,
    *,
    api: Name | None = None,
    group: Name | None = None,
    client_id: Name | None = None,
    after: Offset = 0,
    limit: Limit = 100,
) -> Json:
    """The last `limit` requests, in the order of their arrival: of one `api` (OffsetCommit), about
    one group, by one client, after the request of this number."""
    name = None if api is None else api_named(api)
    fitting = [
        each
        for each in control.kafka.history.requests
        if each.number > after and matches(each, name or each.api, group, client_id)
    ]
    return {"requests": [of_request(each) for each in fitting[-limit:]]}


def wait_request(
    control: Control,
    *,
    api: Name,
    group: Name | None = None,
    client_id: Name | None = None,
    after: Offset = 0,
    count: Count = 1,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Json:
    """Until `count` requests of this API have arrived since the start, or after the request of this
    number; answers with the last of them."""
    arrived = control.kafka.wait_request(
        api, group=group, client_id=client_id, after=after, count=count, timeout=timeout
    )
    return of_request(arrived)


def events(control: Control, *, group: Name | None = None, limit: Limit = 100) -> Json:
    """The last `limit` things that coordinators told, of one group or of all, with the columns of
    the event log (docs/events.md)."""
    kafka = control.kafka
    told = [
        (number, heard)
        for number, heard in enumerate(kafka.history.events)
        if group in (None, heard.event.group_id)
    ]
    cluster_id = kafka.ask(lambda broker: broker.cluster.id)
    return {"events": [of_event(cluster_id, number, heard) for number, heard in told[-limit:]]}


ENDPOINTS: Final = (
    Endpoint("GET", "/requests", requests),
    Endpoint("POST", "/requests/wait", wait_request),
    Endpoint("GET", "/events", events),
)
