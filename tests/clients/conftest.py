"""The broker and the clients of the tests in this folder.

With KOHORT_TEST_BOOTSTRAP_SERVERS=HOST:PORT, they run against that cluster, for example a real
Kafka; otherwise each module has its own kohort process on a free port.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator

import pytest
from support.running_broker import EXTERNAL, cluster_under_test

from .adapter import CLIENTS, Admin, BrokerError, Client, ConsumerSettings, load
from .consumers import BackgroundConsumer, Consumers, partitions_of, until
from .member_process import MemberProcess

MakeTopic = Callable[..., str]
"""The fixture `new_topic`."""
MakeConsumer = Callable[..., BackgroundConsumer]
"""The fixture `consumer`."""
NewGroup = Callable[..., Consumers]
"""The fixture `new_group`."""

# Kafka's default minimum. The tests' own broker allows a shorter timeout, so that a killed member
# is removed sooner. Both are far above the heartbeat interval of the tests (200 ms).
SESSION_TIMEOUT_MS = 6_000 if EXTERNAL else 1_500
# An external cluster also needs the timeouts of the consumer protocol, which are broker settings.
BROKER_OPTIONS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=1500",
    "group.consumer.min.heartbeat.interval.ms=200",
    "group.consumer.heartbeat.interval.ms=200",
    "group.consumer.assignment.interval.ms=0",
    # kafka-python's admin client does not retry if its request created __consumer_offsets.
    "kohort.auto.create.immediate=true",
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of the cluster."""
    with cluster_under_test(tmp_path_factory.mktemp("broker"), BROKER_OPTIONS) as address:
        yield address


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Client]:
    client = load(request.param)(bootstrap)
    yield client
    client.close()


@pytest.fixture
def admin(client: Client) -> Iterator[Admin]:
    admin = client.admin()
    yield admin
    admin.close()


@pytest.fixture
def new_topic(admin: Admin) -> Iterator[MakeTopic]:
    """`new_topic(partitions)` returns the name of a new topic, which is deleted after the test."""
    created: list[str] = []

    def create(partitions: int = 1, name: str | None = None, **configs: str) -> str:
        topic = name or f"topic-{uuid.uuid4().hex[:12]}"
        admin.create_topic(topic, partitions, configs)
        created.append(topic)
        # In Kafka, metadata lags behind the controller.
        until(lambda: topic in admin.topics(), f"{topic} is listed")
        return topic

    yield create
    for topic in created:
        _delete(admin, topic)


def topic_that_stays(client: Client, partitions: int = 1, **configs: str) -> str:
    """Create a topic with a new admin client, which has no old metadata, and is closed before the
    test restarts the broker or stops a node. The topic is not deleted."""
    topic = f"topic-{uuid.uuid4().hex[:12]}"
    admin = client.admin()
    try:
        admin.create_topic(topic, partitions, configs)
    finally:
        admin.close()
    return topic


@pytest.fixture
def topic_name(admin: Admin) -> Iterator[str]:
    """A new topic name. Topics whose names begin with it are deleted after the test."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    yield name
    for topic in admin.topics():
        if topic.startswith(name):
            _delete(admin, topic)


def _delete(admin: Admin, topic: str) -> None:
    with contextlib.suppress(BrokerError):  # the test may have deleted it
        admin.delete_topic(topic)


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def consumer(client: Client) -> Iterator[MakeConsumer]:
    """`consumer(group_id, auto_commit=…)` returns a consumer that is closed after the test."""
    created: list[BackgroundConsumer] = []

    def create(group_id: str | None = None, **settings: object) -> BackgroundConsumer:
        settings = {"session_timeout_ms": SESSION_TIMEOUT_MS, **settings}
        given = ConsumerSettings(group_id, **settings)  # type: ignore[arg-type]
        created.append(BackgroundConsumer(client.consumer(given)))
        return created[-1]

    yield create
    for consumer in created:
        consumer.close()  # closing it twice has no effect


@pytest.fixture
def new_group(consumer: MakeConsumer, group: str) -> NewGroup:
    """`new_group(topic, 2, 2, 2)` returns members of `group` that share the topic's six
    partitions."""

    def join(topic: str, *shares: int, **settings: object) -> Consumers:
        consumers = Consumers(*(consumer(group, **settings) for _ in shares))
        for member in consumers.all:
            member.subscribe(topic)
        consumers.until_shared(partitions_of(topic, sum(shares)), shares)
        return consumers

    return join


@pytest.fixture
def member_process(client: Client, group: str) -> Iterator[Callable[[str], MemberProcess]]:
    """`member_process(topic)` returns a member of `group` in its own process."""
    created: list[MemberProcess] = []

    def start(topic: str) -> MemberProcess:
        settings = ConsumerSettings(group, session_timeout_ms=SESSION_TIMEOUT_MS)
        created.append(MemberProcess(client.name, client.bootstrap, topic, settings))
        return created[-1]

    yield start
    for process in created:
        process.stop()  # the other consumers leave faster without it
