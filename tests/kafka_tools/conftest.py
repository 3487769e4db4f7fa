"""The cluster under test for Kafka's command line tools.

It is the one at KOHORT_TEST_BOOTSTRAP_SERVERS=HOST:PORT (the tests also pass against Kafka), else
a kohort broker process on a free port.
"""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.running_broker import EXTERNAL, cluster_under_test

from ..clients.adapter import Admin
from ..clients.conftest import BROKER_OPTIONS
from ..clients.kafka_python import KafkaPython
from .tools import Tools, Verifiable

# Kafka's default group.min.session.timeout.ms; BROKER_OPTIONS allow a shorter one.
SESSION_TIMEOUT_MS = 6_000 if EXTERNAL else 2_000


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of the cluster under test."""
    with cluster_under_test(tmp_path_factory.mktemp("broker"), BROKER_OPTIONS) as address:
        yield address


@pytest.fixture(scope="session")
def tools(kafka_jars: Path, bootstrap: str, client: KafkaPython) -> Tools:
    tools = Tools(kafka_jars, bootstrap)
    admin = client.admin()
    topic = f"tools-{uuid.uuid4().hex[:8]}"
    admin.create_topic(topic, 1)
    tools.archive_classes(topic)
    admin.delete_topic(topic)
    admin.close()
    return tools


@pytest.fixture(scope="session")
def client(bootstrap: str) -> Iterator[KafkaPython]:
    """A client that sets tests up faster than Kafka's tools."""
    client = KafkaPython(bootstrap)
    yield client
    client.close()


@pytest.fixture
def admin(client: KafkaPython) -> Iterator[Admin]:
    admin = client.admin()
    yield admin
    admin.close()


@pytest.fixture
def topic(admin: Admin) -> Iterator[str]:
    """A topic of four partitions."""
    name = f"tools-{uuid.uuid4().hex[:8]}"
    admin.create_topic(name, 4)
    yield name
    admin.delete_topic(name)


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def verifiable(tools: Tools) -> Iterator[Callable[..., Verifiable]]:
    """Start a tool with `verifiable("consumer", "--topic", …)`; it is killed after the test."""
    processes: list[Verifiable] = []

    def start(name: str, *args: object) -> Verifiable:
        processes.append(Verifiable(tools.command(name, *args)))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
