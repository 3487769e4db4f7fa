"""The largest request of every API version is handled in slices, and gets a response.

Slices are counted, not timed. Requests that are handled in one slice are listed here with the
reason.
"""

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from kohort.broker.network import request as request_module
from kohort.broker.network.request import RequestContext
from kohort.conformance.wire import message_of, message_type, shape
from kohort.protocol import messages
from kohort.protocol.apis import BY_KEY
from support.broker import BrokerHarness, PendingRequest
from support.kio_messages import version_id

from .conftest import FULL

ITEMS = 6_500 if FULL else 1_000
# In these tests, a slice is one step, which takes 1 or 2 µs per item, or 20 µs for one item.
ITEMS_PER_SLICE = 100
TOPIC = "t"
PARTITIONS = ITEMS

UNSLICED = {
    # The items are put into a set or a dict, and compared, which takes 0.3 µs per item.
    "Fetch": {"forgotten_topics_data", "forgotten_topics_data.partitions"},
    "DescribeConfigs": {"resources.configuration_keys"},
    "JoinGroup": {"protocols"},
    "SyncGroup": {"assignments", "group_assignments"},
    "ListGroups": {"states_filter", "types_filter"},
    "ListTransactions": {"state_filters", "producer_id_filters"},
    "ListConfigResources": {"resource_types"},
    # The items are not read, because no partition is being reassigned, no voter can be added, and
    # delegation tokens are disabled.
    "CreateDelegationToken": {"renewers"},
    "DescribeDelegationToken": {"owners"},
    "ListPartitionReassignments": {"topics", "topics.partition_indexes"},
    "AddRaftVoter": {"listeners"},
    # A single check rejects these requests: there are not as many keys, brokers or components.
    "AlterConfigs": {"resources.configs"},
    "IncrementalAlterConfigs": {"resources.configs"},
    "CreateTopics": {"topics.assignments", "topics.assignments.broker_ids", "topics.configs"},
    "CreatePartitions": {"topics.assignments", "topics.assignments.broker_ids"},
    "AlterPartitionReassignments": {"topics.partitions.replicas"},
    "CreateAcls": {"creations"},
    "DeleteAcls": {"filters"},
    "DescribeClientQuotas": {"components"},
    "AlterClientQuotas": {"entries.entity", "entries.ops"},
    # The request is one command of one group, which is decided in one step, with 2 µs per item.
    "OffsetFetch": {"topics", "topics.partition_indexes", "groups.topics"}
    | {"groups.topics.partition_indexes"},
    "OffsetDelete": {"topics.partitions"},
    "ConsumerGroupHeartbeat": {"subscribed_topic_names", "topic_partitions"}
    | {"topic_partitions.partitions"},
}


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run no steps immediately, and treat responses with more than 100 items as long."""
    monkeypatch.setattr(request_module, "FIRST_STEPS_MAX", 1)
    monkeypatch.setattr(messages, "INLINE_ITEMS_MAX", 100)
    for compiled in (messages.request_decoder, messages.response_encoder):
        compiled.cache_clear()
    yield
    for compiled in (messages.request_decoder, messages.response_encoder):
        compiled.cache_clear()


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness(durability="os")
    broker.create_topic(TOPIC, PARTITIONS)
    broker.node.cluster.leader_of = lambda _topic, _index: broker.node
    return broker


@pytest.mark.parametrize("api", BY_KEY.values(), ids=version_id)
async def test_the_largest_requests_are_handled_in_slices(broker: BrokerHarness, api: Any) -> None:
    topic = broker.topics.get(TOPIC)
    assert topic is not None
    requests = LargestRequests(ITEMS, TOPIC, topic.id)
    for version in range(api.min_version, api.max_version + 1):
        for array, items, request in requests.of(api.name, version):
            slices = await slices_of(broker, api, version, request)
            if array not in UNSLICED.get(api.name, ()):
                problem = f"v{version} {array}: handle it in_slices, or list it in UNSLICED"
                assert slices >= items // ITEMS_PER_SLICE - 1, problem


async def slices_of(broker: BrokerHarness, api: Any, version: int, request: Any) -> int:
    """Send the request, wait for the response, and return the number of slices."""
    pending = PendingRequest(message_type(api.name, version, "Response"))
    route = broker._routes.find(api.key, version)
    route.handle(RequestContext(pending, route, (7,), "tester", request), broker.node)
    slices = 0
    async with asyncio.timeout(60):
        while not pending.is_done:
            while broker.callbacks:
                callback = broker.callbacks.pop(0)
                slices += callback == broker.scheduler._turn
                callback()
            broker.advance(60_000)  # the end of a join
            await asyncio.sleep(0)  # the thread that encodes
    return slices


# --- the largest requests of an API version: for each array of its schema, a request in which that
# array has the maximum number of items

# Values of fields for which a request is accepted. Times are in milliseconds.
VALUES: dict[str, Any] = {
    "acks": 1,
    "committed_metadata": "",
    "current_leader_epoch": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "member_epoch": -1,
    "num_partitions": 1,
    "protocol_type": "consumer",
    "rebalance_timeout": 60_000,
    "replica_id": -1,
    "replication_factor": 1,
    "resource_type": 2,
    "response_partition_limit": 2000,
    "session_epoch": -1,
    "session_timeout": 60_000,
    "timeout": 60_000,
}
TOPIC_FIELDS = {"topic", "name", "topic_name", "topic_names", "resource_name", "topics"}
# The values of these fields are numbers from zero within their array.
INDEX_FIELDS = {
    "partition", "partition_index", "partition_indexes", "index", "partitions", "broker_ids",
    "replicas",
}  # fmt: skip


class Largest(NamedTuple):
    """`array`: the path of the long array, as in `topics.partitions`."""

    array: str
    items: int
    request: Any


class LargestRequests:
    """Creates requests. `items`: the number of items of all arrays of a request. `topic`: the name
    of topics outside of the long array."""

    def __init__(self, items: int, topic: str, topic_id: UUID) -> None:
        self._items = items
        self._topic = topic
        self._topic_id = topic_id

    def of(self, api: str, version: int) -> Iterator[Largest]:
        request_type = message_type(api, version, "Request")
        for path, inner in _arrays(request_type, ()):
            count = self._items // (1 + inner)
            values = self._fields(request_type, path, count)
            # Each request has its own group, because members of earlier ones have not left.
            values |= {"group_id": f"{version} {path}"}
            yield Largest(".".join(path), count, message_of(request_type, values))

    def _fields(
        self, entity: Any, path: tuple[str, ...], count: int, number: int | None = None
    ) -> dict[str, Any]:
        """Return the fields of a structure: item `number` of the long array, a part of this item,
        or a structure from which `path` leads to the array."""
        values = {}
        has_name = "name" in entity.__dataclass_fields__
        for field in dataclasses.fields(entity):
            item, is_array, _ = shape(field)
            name = field.name
            is_struct = dataclasses.is_dataclass(item)
            if not is_array and not is_struct:
                value = self._value(name, item, number)
                # Topics have a name or an id.
                if value is not None and not (has_name and item is UUID):
                    values[name] = value
                continue
            if number is None and path[:1] != (name,):
                continue
            is_long = path == (name,)
            parts = [
                self._fields(item, path[1:], count, each if is_long else number)
                if is_struct
                else self._value(name, item, each if is_long else number)
                for each in range(count if is_long else 1)
            ]
            values[name] = parts if is_array else parts[0]
        return values

    def _value(self, name: str, kind: Any, number: int | None) -> Any:
        """Return the value of a field or an item, or None for its default."""
        if name in VALUES:
            return VALUES[name]
        if kind is UUID:
            return self._topic_id if number is None else UUID(int=number + 1)
        if issubclass(kind, str):
            if number is not None:
                return f"n{number}"
            return self._topic if name in TOPIC_FIELDS else ""
        if issubclass(kind, bytes):
            return b""
        if issubclass(kind, int) and not issubclass(kind, bool):
            return (number or 0) if name in INDEX_FIELDS else None
        return None


def _arrays(entity: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the paths of all arrays, and the number of arrays inside each array."""
    for field in dataclasses.fields(entity):
        item, is_array, _ = shape(field)
        inside = list(_arrays(item, ())) if dataclasses.is_dataclass(item) else []
        if is_array:
            yield (*above, field.name), len(inside)
        for path, inner in inside:
            yield (*above, field.name, *path), inner
