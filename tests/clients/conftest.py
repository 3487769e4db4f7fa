"""The broker and the clients of the stories in this folder.

With KOHORT_TEST_BOOTSTRAP_SERVERS=HOST:PORT the same stories are told against that cluster (a real
Kafka, say), otherwise each module gets a kohort broker process of its own on a free port.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.broker_process import EXTERNAL, cluster_under_test

from .adapter import Admin, Client, ConsumerSettings, RefusedError
from .driven import Driven
from .member import LIBRARIES, MemberProcess, load
from .stories import until

# Kafka's least session timeout by default; a broker of ours allows less, so that a member that
# dies is missed sooner. Both are far above the heartbeat interval of the stories (200 ms).
SESSION_TIMEOUT_MS = 6_000 if EXTERNAL else 1_500
BROKER_OPTIONS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.clients)
            # kafka-python leaves a socket to the collector when it is closed while it connects.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of the cluster that this module's stories are told against."""
    with cluster_under_test(tmp_path_factory.mktemp("broker"), BROKER_OPTIONS) as address:
        yield address


@pytest.fixture(params=LIBRARIES)
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
def new_topic(admin: Admin) -> Iterator[Callable[..., str]]:
    """`new_topic(partitions)` -> the name of a topic that is there now and gone after the test."""
    made: list[str] = []

    def make(partitions: int = 1, name: str | None = None, **configs: str) -> str:
        topic = name or f"story-{uuid.uuid4().hex[:12]}"
        admin.create_topic(topic, partitions, configs)
        made.append(topic)
        # Kafka's metadata follow its controller with a small delay.
        until(lambda: topic in admin.topics(), f"{topic} is listed")
        return topic

    yield make
    for topic in made:
        _delete(admin, topic)


@pytest.fixture
def topic_name(admin: Admin) -> Iterator[str]:
    """A name that no topic has yet; what comes to bear it, or begins with it, is deleted."""
    name = f"story-{uuid.uuid4().hex[:12]}"
    yield name
    for topic in admin.topics():
        if topic.startswith(name):
            _delete(admin, topic)


def _delete(admin: Admin, topic: str) -> None:
    with contextlib.suppress(RefusedError):  # the story itself may have deleted it
        admin.delete_topic(topic)


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def consumer(client: Client) -> Iterator[Callable[..., Driven]]:
    """`consumer(group_id, auto_commit=…)` -> a consumer that is closed when the test ends."""
    made: list[Driven] = []

    def make(group_id: str | None = None, **settings: object) -> Driven:
        settings = {"session_timeout_ms": SESSION_TIMEOUT_MS, **settings}
        wanted = ConsumerSettings(group_id, **settings)  # type: ignore[arg-type]
        made.append(Driven(client.consumer(wanted)))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()  # closing one twice does nothing in any library


@pytest.fixture
def member_process(client: Client, group: str) -> Iterator[Callable[[str], MemberProcess]]:
    """`member_process(topic)` -> a member of `group` in a process of its own."""
    made: list[MemberProcess] = []

    def start(topic: str) -> MemberProcess:
        made.append(MemberProcess(client.name, client.bootstrap, group, topic, SESSION_TIMEOUT_MS))
        return made[-1]

    yield start
    for process in made:
        process.stop()  # one that dies only now would hold up the others' leaving
