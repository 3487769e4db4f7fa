"""Topics, and the offsets topic, are created when a client first uses them: immediately or, as in
Kafka, before the client retries."""

from collections.abc import Callable, Iterator

import pytest
from support.running_broker import EXTERNAL, config_flags, start_broker

from .adapter import Client, Message, Partition
from .consumers import BackgroundConsumer, Consumers
from .test_admin import UNKNOWN_TOPIC_OR_PARTITION, assert_rejected


@pytest.fixture(params=["false", "true"], ids=["retried", "immediate"])
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """HOST:PORT of a new broker without topics."""
    if EXTERNAL:
        pytest.skip("needs a broker without __consumer_offsets")
    options = (
        f"kohort.auto.create.immediate={request.param}",
        "group.initial.rebalance.delay.ms=0",
        "group.min.session.timeout.ms=1000",
    )
    flags = ("--port", "0", "--durability", "none", *config_flags(options))
    with start_broker(tmp_path_factory.mktemp("broker"), *flags) as broker:
        yield broker.bootstrap
        assert broker.stop() == 0


def test_a_topic_exists_once_it_is_used(
    client: Client, consumer: Callable[..., BackgroundConsumer], group: str
) -> None:
    admin = client.admin()
    assert not admin.topics()
    assert client.produce("new", [Message(b"first", partition=0)]) == [(0, 0)]
    consumers = Consumers(consumer(group))
    consumers.all[0].subscribe("new")
    consumers.until_count(1)
    assert consumers.values() == [b"first"]
    consumers.all[0].commit()
    assert consumers.all[0].committed(Partition("new", 0)) == 1
    consumers.close(consumers.all[0])  # the consumer would create the topic again
    admin.delete_topic("new")
    assert_rejected(UNKNOWN_TOPIC_OR_PARTITION, admin.delete_topic, "new")
    admin.close()
