"""FindCoordinator: the request that creates the coordinator's topic."""

import pytest
from kio.schema.errors import ErrorCode as E
from support.broker import BrokerHarness
from support.transactions import Producer

GROUP, TRANSACTION = 0, 1
TOPICS = {GROUP: "__consumer_offsets", TRANSACTION: "__transaction_state"}


def find(broker: BrokerHarness, version: int, key_type: int) -> E:
    response = broker.call(
        "FindCoordinator", version, key="k", coordinator_keys=("k",), key_type=key_type
    )
    found = response.coordinators[0] if version >= 4 else response
    assert found.node_id == (1 if found.error_code is E.none else -1)
    error: E = found.error_code
    return error


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
@pytest.mark.parametrize("version", range(1, 7))
def test_the_coordinator_is_available_to_the_next_request(version: int, key_type: int) -> None:
    """As in Kafka, this does not depend on whether Metadata creates topics."""
    config = {"kohort.auto.create.immediate": "false", "auto.create.topics.enable": "false"}
    broker = BrokerHarness(config)
    assert find(broker, version, key_type) is E.coordinator_not_available
    assert broker.topics.get(TOPICS[key_type]) is not None
    assert find(broker, version, key_type) is E.none


@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_a_topic_that_cannot_be_created_has_no_coordinator(
    key_type: int, caplog: pytest.LogCaptureFixture
) -> None:
    broker, topic = BrokerHarness(), TOPICS[key_type]
    broker.files.make_folder(broker.topics.folder / f"{topic}-0")  # must be renamed
    broker.files.fail("rename", times=2)
    assert find(broker, 4, key_type) is E.coordinator_not_available
    response = broker.call("Metadata", 9, topics=[{"name": topic}])
    assert response.topics[0].error_code is E.unknown_topic_or_partition
    assert caplog.text.count(f"Topic {topic} was not created: ") == 2
    assert find(broker, 4, key_type) is E.none


@pytest.mark.parametrize(
    ("key_type", "api"),
    [(GROUP, "Heartbeat"), (TRANSACTION, "InitProducerId"), (TRANSACTION, "AddOffsetsToTxn")],
)
def test_requests_to_a_coordinator_whose_topic_cannot_be_created_are_rejected(
    key_type: int, api: str
) -> None:
    broker = BrokerHarness()
    broker.files.make_folder(broker.topics.folder / f"{TOPICS[key_type]}-0")
    broker.files.fail("rename")
    keys = {"group_id": "k", "transactional_id": "k"}
    assert broker.call(api, 3, **keys).error_code is E.not_coordinator
    assert broker.call(api, 3, **keys).error_code is not E.not_coordinator


def test_transactions_offsets_are_rejected_if_the_topic_cannot_be_created() -> None:
    broker = BrokerHarness()
    broker.create_topic("orders")
    broker.files.make_folder(broker.topics.folder / f"{TOPICS[GROUP]}-0")
    producer = Producer(broker)
    assert find(broker, 4, TRANSACTION) is E.none
    assert producer.init() is E.none
    broker.files.fail("rename")
    assert producer.commit_offset(1) is E.not_coordinator
    assert producer.commit_offset(1) is E.none
