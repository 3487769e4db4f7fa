"""A broker with an initial rebalance delay and at most three members in a group."""

from collections.abc import Iterator

import pytest
from support.running_broker import EXTERNAL, config_flags, start_broker

from .adapter import Client
from .conftest import MakeConsumer, MakeTopic, NewGroup
from .consumers import partitions_of, until
from .librdkafka import LibrdkafkaConsumerProtocol

GROUP_MAX_SIZE_REACHED = 81
LIBRDKAFKA_FATAL = -150  # librdkafka's error with the consumer protocol
LIMITS = (
    "group.initial.rebalance.delay.ms=1000",
    "group.max.size=3",
    "group.min.session.timeout.ms=1000",
    "group.consumer.max.size=3",
    "group.consumer.min.heartbeat.interval.ms=200",
    "group.consumer.heartbeat.interval.ms=200",
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a broker with these limits."""
    if EXTERNAL:
        pytest.skip("needs a broker with these limits")
    with start_broker(
        tmp_path_factory.mktemp("broker"),
        "--port",
        "0",
        "--durability",
        "none",
        *config_flags(LIMITS),
    ) as broker:
        yield broker.bootstrap
        assert broker.stop() == 0


def test_members_that_start_together_need_one_rebalance_and_a_full_group_rejects(
    client: Client, new_topic: MakeTopic, new_group: NewGroup, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(6)
    consumers = new_group(topic, 2, 2, 2)
    rebalances = [member.rebalances for member in consumers.all]
    # Members of the consumer protocol get their partitions one by one.
    assert rebalances == [1, 1, 1] or isinstance(client, LibrdkafkaConsumerProtocol)

    fourth = consumer(group)
    fourth.subscribe(topic)
    until(lambda: fourth.failure is not None, "the fourth member is rejected")
    if client.name != "aiokafka":  # aiokafka does not know this error
        assert fourth.error_code in (GROUP_MAX_SIZE_REACHED, LIBRDKAFKA_FATAL)
    assert [member.rebalances for member in consumers.all] == rebalances
    consumers.until_shared(partitions_of(topic, 6), [2, 2, 2])
