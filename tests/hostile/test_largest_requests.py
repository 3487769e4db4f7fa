"""The largest request of every API version is handled in slices, and gets a response.

Slices are counted, not timed. Requests that are handled in one slice are listed here, with the
reason.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hostile.largest import LargestRequests
from kohort.broker.network import request as request_module
from kohort.broker.network.request import RequestContext
from kohort.protocol import messages
from kohort.protocol.apis import BY_KEY
from support.broker import BrokerHarness, PendingRequest
from support.kio_messages import version_id
from support.wire import message_type

from .conftest import FULL

ITEMS = 6_500 if FULL else 1_000
# Here a slice is one step, which takes a microsecond or two per item, or 20 µs for one item.
ITEMS_PER_SLICE = 100
TOPIC = "t"
PARTITIONS = ITEMS

UNSLICED = {
    # Put into a set or a dict, and compared: 0.3 µs per item.
    "Fetch": {"forgotten_topics_data", "forgotten_topics_data.partitions"},
    "DescribeConfigs": {"resources.configuration_keys"},
    "JoinGroup": {"protocols"},
    "SyncGroup": {"assignments", "group_assignments"},
    "ListGroups": {"states_filter", "types_filter"},
    "ListTransactions": {"state_filters", "producer_id_filters"},
    "ListConfigResources": {"resource_types"},
    # Not read: no partition is being reassigned, no voter can be added, and delegation tokens are
    # disabled.
    "CreateDelegationToken": {"renewers"},
    "DescribeDelegationToken": {"owners"},
    "ListPartitionReassignments": {"topics", "topics.partition_indexes"},
    "AddRaftVoter": {"listeners"},
    # Rejected by a single check: there is no such number of keys, brokers or components.
    "AlterConfigs": {"resources.configs"},
    "IncrementalAlterConfigs": {"resources.configs"},
    "CreateTopics": {"topics.assignments", "topics.assignments.broker_ids", "topics.configs"},
    "CreatePartitions": {"topics.assignments", "topics.assignments.broker_ids"},
    "AlterPartitionReassignments": {"topics.partitions.replicas"},
    "CreateAcls": {"creations"},
    "DeleteAcls": {"filters"},
    "DescribeClientQuotas": {"components"},
    "AlterClientQuotas": {"entries.entity", "entries.ops"},
    # One command of one group, which is decided in one step: 2 µs per item.
    "OffsetFetch": {"topics", "topics.partition_indexes", "groups.topics"}
    | {"groups.topics.partition_indexes"},
    "OffsetDelete": {"topics.partitions"},
    "ConsumerGroupHeartbeat": {"subscribed_topic_names", "topic_partitions"}
    | {"topic_partitions.partitions"},
}


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do no steps immediately, and treat responses of more than 100 items as long."""
    monkeypatch.setattr(request_module, "FIRST_STEPS_MAX", 1)
    monkeypatch.setattr(messages, "INLINE_ITEMS_MAX", 100)
    for compiled in (messages.request_decoder, messages.response_encoder):
        compiled.cache_clear()
    yield
    for compiled in (messages.request_decoder, messages.response_encoder):
        compiled.cache_clear()


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness(with_groups=True, durability="os")
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
                assert slices >= items // ITEMS_PER_SLICE - 1, f"v{version} {array}"


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
