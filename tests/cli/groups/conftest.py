"""A broker with several kinds of groups. Tests that change a group create their own group."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.structs import OffsetAndMetadata
from kohort.cli.main import main
from support.running_broker import IMMEDIATE, config_flags, start_broker

POLL_S = 0.1
POLLS_MAX = 600
DAY_MS = 86_400_000

Kohort = Callable[..., tuple[int, str, str]]
Commit = Callable[[str, dict[tuple[str, int], int]], None]


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a broker with `orders` (3 partitions of 10 records) and `bills` (1 of 5)."""
    folder = tmp_path_factory.mktemp("groups")
    session_ms = 1_800_000  # of members that send no heartbeats between the tests
    settings = (
        "group.initial.rebalance.delay.ms=0",
        "group.consumer.assignment.interval.ms=0",
        f"group.consumer.max.session.timeout.ms={session_ms}",
        f"group.consumer.session.timeout.ms={session_ms}",
    )
    options = ("--port", "0", "--durability", "none", *IMMEDIATE, *config_flags(settings))
    with start_broker(folder, *options) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_topics([NewTopic("orders", 3, 1), NewTopic("bills", 1, 1)])
        admin.close()
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        sent = [producer.send("orders", b"one", partition=n % 3) for n in range(30)]
        sent += [producer.send("bills", b"one", partition=0) for _ in range(5)]
        for future in sent:
            future.get(30)
        producer.close()
        yield broker.bootstrap


@pytest.fixture
def commit(address: str) -> Iterator[Commit]:
    """`commit("g", {("orders", 0): 4})` commits for a group without members."""
    admin = KafkaAdminClient(bootstrap_servers=address)

    def commit(group: str, offsets: dict[tuple[str, int], int]) -> None:
        admin.alter_group_offsets(
            group,
            {TopicPartition(*at): OffsetAndMetadata(n, "", -1) for at, n in offsets.items()},
        )

    yield commit
    admin.close()


@pytest.fixture(scope="session")
def live(address: str) -> Iterator[str]:
    """A group with a static member of `orders`, and a member of `bills` that has committed."""
    group = "live"
    options = {
        "bootstrap.servers": address,
        "group.id": group,
        "enable.auto.commit": False,
        # Nothing polls once they have their partitions, and after five minutes they would leave.
        "max.poll.interval.ms": DAY_MS,
    }
    static = Consumer({**options, "client.id": "two", "group.instance.id": "fixed"})
    dynamic = Consumer({**options, "client.id": "one"})
    static.subscribe(["orders"])
    dynamic.subscribe(["bills"])
    for _ in range(POLLS_MAX):
        static.poll(POLL_S)
        dynamic.poll(POLL_S)
        if len(static.assignment()) == 3 and len(dynamic.assignment()) == 1:
            break
    else:
        raise AssertionError("the members did not get their partitions")
    dynamic.commit(offsets=[ConfluentPartition("bills", 0, 2)], asynchronous=False)
    yield group
    static.close()
    dynamic.close()


@pytest.fixture
def groups(address: str, capsys: pytest.CaptureFixture[str]) -> Kohort:
    """`groups("--list")` -> exit code, standard output, standard error of `kohort groups`."""

    def run(*args: str | Path) -> tuple[int, str, str]:
        code = main(["groups", "--bootstrap-server", address, *map(str, args)])
        return (code, *capsys.readouterr())

    return run


@pytest.fixture
def unused_address() -> Iterator[str]:
    """An address that refuses connections: the port is bound, but nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"
