"""Real clients for the tests of the harness."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kohort.testing import Kafka

NewProducer = Callable[..., Producer]
"""The fixture `new_producer`."""
TRANSACTION_TIMEOUT_MS = 60_000


def client_settings(kafka: Kafka, **settings: Any) -> dict[str, Any]:
    """Return the settings of a librdkafka client that reconnects and retries quickly. `settings`:
    more of them, with underscores for the dots of their names."""
    return {
        "bootstrap.servers": kafka.bootstrap_servers,
        "reconnect.backoff.ms": 1,
        "retry.backoff.ms": 10,
        "log_level": 0,
        **{key.replace("_", "."): value for key, value in settings.items()},
    }


class Committer:
    """A librdkafka consumer that commits and fetches offsets, and never joins the group."""

    def __init__(self, kafka: Kafka, group: str = "billing", client_id: str = "committer") -> None:
        settings = {"enable_auto_commit": False, "reconnect_backoff_max_ms": 20}
        self.consumer = Consumer(
            client_settings(kafka, group_id=group, client_id=client_id, **settings)
        )

    def commit(self, offset: int, topic: str = "orders", partition: int = 0) -> None:
        """Raises KafkaException."""
        done = self.consumer.commit(
            offsets=[TopicPartition(topic, partition, offset)], asynchronous=False
        )
        assert done is not None
        assert done[0].error is None

    def committed(self, topic: str = "orders", partition: int = 0) -> int:
        found = self.consumer.committed([TopicPartition(topic, partition)], timeout=10)
        return int(found[0].offset)


class Service:
    """A consumer in its own thread, like a service under test."""

    def __init__(self, kafka: Kafka, group: str, *topics: str, **config: object) -> None:
        if config.get("group_protocol") != "consumer":  # else the broker decides it (KIP-848)
            config.setdefault("heartbeat_interval_ms", 50)
        given = {"client_id": "service", "auto_offset_reset": "earliest", **config}
        self._consumer = Consumer(client_settings(kafka, group_id=group, **given))
        self.assigned: list[tuple[str, int]] = []
        self._consumer.subscribe(list(topics), on_assign=self._on_assign)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = sorted((each.topic, each.partition) for each in partitions)

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                # It may have been removed from the group, and the partition reassigned.
                with contextlib.suppress(KafkaException):
                    self._consumer.commit(message, asynchronous=False)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()


NewCommitter = Callable[..., Committer]
"""The fixture `new_committer`; with a broker as its first argument, `committer_of`."""
NewService = Callable[..., Service]
"""The fixture `new_service`."""


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> str:
    """The group protocol, for tests of behavior that both protocols share."""
    return str(request.param)


@pytest.fixture
def committer(kafka: Kafka, committer_of: NewCommitter) -> Committer:
    return committer_of(kafka)


@pytest.fixture
def new_committer(kafka: Kafka, committer_of: NewCommitter) -> NewCommitter:
    kafka.topic("orders", partitions=2)
    return partial(committer_of, kafka)


@pytest.fixture
def committer_of() -> Iterator[NewCommitter]:
    """`committer_of(kafka)` creates a Committer for a broker that the test has created."""
    created: list[Committer] = []

    def new(kafka: Kafka, **arguments: str) -> Committer:
        kafka.topic("orders", partitions=2)
        created.append(Committer(kafka, **arguments))
        return created[-1]

    yield new
    for each in created:
        each.consumer.close()


@contextlib.contextmanager
def serving(kafka: Kafka) -> Iterator[Service]:
    kafka.topic("orders", partitions=1)
    service = Service(kafka, "billing", "orders")
    try:
        yield service
    finally:
        service.close()


@pytest.fixture
def service(kafka: Kafka) -> Iterator[Service]:
    kafka.topic("orders", partitions=1).produce([b"a", b"b", b"c"])
    with serving(kafka) as service:
        yield service


@pytest.fixture
def new_service(kafka: Kafka) -> Iterator[NewService]:
    kafka.topic("orders", partitions=2)
    created: list[Service] = []

    def new(client_id: str, **config: object) -> Service:
        created.append(Service(kafka, "billing", "orders", client_id=client_id, **config))
        return created[-1]

    yield new
    for each in created:
        each.close()


@pytest.fixture
def new_producer(kafka: Kafka) -> Iterator[NewProducer]:
    """`init_transactions` has been called."""
    kafka.topic("orders", partitions=1)
    created: list[Producer] = []

    def new(transactional_id: str = "billing-1", client_id: str = "payments") -> Producer:
        created.append(transactional_producer(kafka, transactional_id, client_id))
        return created[-1]

    yield new
    for each in created:
        each.purge()


def transactional_producer(kafka: Kafka, transactional_id: str, client_id: str) -> Producer:
    producer = Producer(
        client_settings(
            kafka,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            client_id=client_id,
        )
    )
    producer.init_transactions(10)
    return producer


def begin(producer: Producer, value: bytes = b"paid") -> None:
    producer.begin_transaction()
    producer.produce("orders", value, partition=0)
    producer.flush()


@pytest.fixture
def in_thread() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Runs functions in threads; their exceptions are raised at the end of the test."""
    with ThreadPoolExecutor() as pool:
        running: list[Future[None]] = []
        yield lambda function: running.append(pool.submit(function))
        for each in running:
            each.result(30)
