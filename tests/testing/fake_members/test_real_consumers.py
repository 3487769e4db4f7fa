"""One real consumer of each library, with fake members as its peers."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AsyncRebalanceListener
from confluent_kafka import Consumer as Librdkafka
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kohort.assignors.kafka_python import CooperativeStickyAssignor
from kohort.testing import Kafka

pytestmark = pytest.mark.clients

Partition = tuple[str, int]


class Real:
    """A consumer in its own thread. `calls`: calls of its rebalance listener, in order."""

    def __init__(self, kafka: Kafka, *, cooperative: bool) -> None:
        self.calls: list[tuple[str, list[Partition]]] = []
        self._stopping = threading.Event()
        self.open(kafka.bootstrap_servers, cooperative=cooperative)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def open(self, servers: str, *, cooperative: bool) -> None:
        raise NotImplementedError

    def poll(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.poll()

    def record(self, call: str, partitions: Any) -> None:
        if partitions:
            self.calls.append((call, sorted((each.topic, each.partition) for each in partitions)))

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()


class ByLibrdkafka(Real):
    def open(self, servers: str, *, cooperative: bool) -> None:
        self._consumer = Librdkafka(
            {
                "bootstrap.servers": servers,
                "group.id": "billing",
                "client.id": "real",
                "heartbeat.interval.ms": 20,
                "log_level": 0,
                **({"partition.assignment.strategy": "cooperative-sticky"} if cooperative else {}),
            }
        )
        self._consumer.subscribe(
            ["orders"],
            on_assign=lambda _, partitions: self.record("assigned", partitions),
            on_revoke=lambda _, partitions: self.record("revoked", partitions),
            on_lost=lambda _, partitions: self.record("lost", partitions),
        )

    def poll(self) -> None:
        self._consumer.poll(0.02)

    def close(self) -> None:
        super().close()
        self._consumer.close()


class ByKafkaPython(Real):
    def open(self, servers: str, *, cooperative: bool) -> None:
        strategy = {"partition_assignment_strategy": [CooperativeStickyAssignor]}
        self._consumer = KafkaConsumer(
            bootstrap_servers=servers,
            group_id="billing",
            client_id="real",
            heartbeat_interval_ms=20,
            retry_backoff_ms=10,
            **(strategy if cooperative else {}),
        )
        self._consumer.subscribe(["orders"], listener=_Listener(self))

    def poll(self) -> None:
        # kafka-python 3.0 sometimes hangs if a poll of 20 ms ends during a rebalance.
        self._consumer.poll(200)

    def close(self) -> None:
        super().close()
        self._consumer.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, real: Real) -> None:
        self._real = real

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._real.record("assigned", assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._real.record("revoked", revoked)

    def on_partitions_lost(self, lost: Any) -> None:
        self._real.record("lost", lost)


class ByAiokafka(Real):
    def open(self, servers: str, *, cooperative: bool) -> None:
        assert not cooperative, "aiokafka does not support it"
        self._servers = servers

    def _run(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._servers,
            group_id="billing",
            client_id="real",
            heartbeat_interval_ms=20,
            retry_backoff_ms=10,
        )
        consumer.subscribe(["orders"], listener=_AsyncListener(self))
        await consumer.start()
        while not self._stopping.is_set():
            await consumer.getmany(timeout_ms=20)
        await consumer.stop()


class _AsyncListener(AsyncRebalanceListener):  # type: ignore[misc]
    def __init__(self, real: Real) -> None:
        self._real = real

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._real.record("assigned", assigned)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._real.record("revoked", revoked)


NewReal = Callable[..., Real]
KINDS = {"librdkafka": ByLibrdkafka, "kafka-python": ByKafkaPython, "aiokafka": ByAiokafka}
COOPERATIVE = ["librdkafka", "kafka-python"]


@pytest.fixture(params=KINDS)
def new_real(request: pytest.FixtureRequest, kafka: Kafka) -> Iterator[NewReal]:
    kafka.topic("orders", partitions=2)
    created: list[Real] = []

    def new(*, cooperative: bool = False) -> Real:
        created.append(KINDS[request.param](kafka, cooperative=cooperative))
        return created[-1]

    yield new
    for each in created:
        each.close()


BOTH = [("orders", 0), ("orders", 1)]


def test_a_consumer_loses_partitions_to_a_new_fake_member(kafka: Kafka, new_real: NewReal) -> None:
    real = new_real()
    kafka.wait(lambda: real.calls == [("assigned", BOTH)])
    (lost,) = kafka.fake_member("billing", topics=["orders"]).wait_owned(1)
    (left,) = (each for each in BOTH if each != lost)
    kafka.wait(lambda: len(real.calls) == 3)
    assert real.calls[1:] == [("revoked", BOTH), ("assigned", [left])]


def test_a_fake_member_gets_the_partitions_of_an_expired_consumer(
    kafka: Kafka, new_real: NewReal
) -> None:
    real = new_real()
    kafka.wait(lambda: real.calls == [("assigned", BOTH)])
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned(1)
    kafka.wait(lambda: len(real.calls) == 3)
    kafka.clock.advance(minutes=5)
    assert "session expired" in [event.event.cause for event in kafka.history.events]
    kafka.wait(lambda: len(real.calls) == 5)
    # aiokafka calls on_partitions_revoked in both cases.
    assert real.calls[3] == (_lost(real), real.calls[2][1])
    assert "UNKNOWN_MEMBER_ID" not in {each.error for each in fake.errors}


def _lost(real: Real) -> str:
    return "revoked" if isinstance(real, ByAiokafka) else "lost"


@pytest.mark.parametrize("new_real", COOPERATIVE, indirect=True)
def test_a_cooperative_consumer_revokes_only_what_it_loses(kafka: Kafka, new_real: NewReal) -> None:
    real = new_real(cooperative=True)
    kafka.wait(lambda: real.calls == [("assigned", BOTH)])
    fake = kafka.fake_member("billing", topics=["orders"])
    owned = fake.wait_owned(1)
    assert real.calls[1:] == [("revoked", owned)]
    causes = [g.cause for g in kafka.group("billing").generations]
    # The rebalance before is because of the fake member, unless kafka-python, the leader, has
    # requested one first: it does so if it gets the metadata of the topic late.
    assert causes[-2] in ("member joined", "leader requested a new assignment")
    assert causes[-1] == "cooperative follow-up"


def test_a_fake_member_that_does_not_poll_delays_the_rebalance(
    kafka: Kafka, new_real: NewReal
) -> None:
    slow = kafka.fake_member("billing", topics=["orders"], client_id="slow")
    slow.wait_owned(2)
    slow.stop_polling()
    real = new_real()
    group = kafka.group("billing")
    kafka.wait(lambda: len(group.members) == 2)
    assert f"It waits for {slow.member_id}" in group.explain()
    assert real.calls == []
    kafka.clock.advance(minutes=6)  # longer than max.poll.interval.ms
    group.wait_owner("orders", 0, "real")
    assert [m.client_id for m in group.members] == ["real"]


def test_consumers_and_fake_members_lead_each_other(kafka: Kafka, new_real: NewReal) -> None:
    fake = kafka.fake_member("billing", topics=["orders"], client_id="fake")
    fake.wait_owned(2)
    new_real()
    group = kafka.group("billing").wait_stable(members=2)
    for leader in ("real", "fake"):
        group.lead(leader)
        group.wait_stable(members=2)
        kafka.wait(lambda: len(fake.owned) == 1)
        assert {len(member.partitions) for member in group.members} == {1}
