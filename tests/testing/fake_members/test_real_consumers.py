"""One real consumer of each library is enough: its peers are puppets."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AsyncRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as RangeOfAiokafka
from confluent_kafka import Consumer as Librdkafka
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kohort.assignors.kafka_python import CooperativeStickyAssignor
from kohort.testing import Kafka

pytestmark = pytest.mark.clients

Place = tuple[str, int]


class Real:
    """A consumer on a thread of its own. `told`: what its listener heard, in order."""

    def __init__(self, kafka: Kafka, *, cooperative: bool) -> None:
        self.told: list[tuple[str, list[Place]]] = []
        self._is_over = threading.Event()
        self.open(kafka.bootstrap_servers, cooperative=cooperative)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def open(self, servers: str, *, cooperative: bool) -> None:
        raise NotImplementedError

    def poll(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        while not self._is_over.is_set():
            self.poll()

    def tell(self, what: str, partitions: Any) -> None:
        if partitions:
            self.told.append((what, sorted((each.topic, each.partition) for each in partitions)))

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()


class ByLibrdkafka(Real):
    def open(self, servers: str, *, cooperative: bool) -> None:
        self._consumer = Librdkafka(
            {
                "bootstrap.servers": servers,
                "group.id": "billing",
                "client.id": "real",
                "heartbeat.interval.ms": 20,
                "partition.assignment.strategy": "cooperative-sticky" if cooperative else "range",
                "log_level": 0,
            }
        )
        self._consumer.subscribe(
            ["orders"],
            on_assign=lambda _, given: self.tell("assigned", given),
            on_revoke=lambda _, taken: self.tell("revoked", taken),
            on_lost=lambda _, taken: self.tell("lost", taken),
        )

    def poll(self) -> None:
        self._consumer.poll(0.02)

    def close(self) -> None:
        super().close()
        self._consumer.close()


class ByKafkaPython(Real):
    def open(self, servers: str, *, cooperative: bool) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=servers,
            group_id="billing",
            client_id="real",
            heartbeat_interval_ms=20,
            retry_backoff_ms=10,
            partition_assignment_strategy=[
                CooperativeStickyAssignor if cooperative else RangePartitionAssignor
            ],
        )
        self._consumer.subscribe(["orders"], listener=_Listener(self))

    def poll(self) -> None:
        # kafka-python 3.0 gets stuck now and then where a poll of 20 ms ends within a rebalance.
        self._consumer.poll(200)

    def close(self) -> None:
        super().close()
        self._consumer.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, real: Real) -> None:
        self._real = real

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._real.tell("assigned", assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._real.tell("revoked", revoked)

    def on_partitions_lost(self, lost: Any) -> None:
        self._real.tell("lost", lost)


class ByAiokafka(Real):
    def open(self, servers: str, *, cooperative: bool) -> None:
        assert not cooperative, "it cannot"
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
            partition_assignment_strategy=[RangeOfAiokafka],
        )
        consumer.subscribe(["orders"], listener=_AsyncListener(self))
        await consumer.start()
        while not self._is_over.is_set():
            await consumer.getmany(timeout_ms=20)
        await consumer.stop()


class _AsyncListener(AsyncRebalanceListener):  # type: ignore[misc]
    def __init__(self, real: Real) -> None:
        self._real = real

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._real.tell("assigned", assigned)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._real.tell("revoked", revoked)


NewReal = Callable[..., Real]
KINDS = {"librdkafka": ByLibrdkafka, "kafka-python": ByKafkaPython, "aiokafka": ByAiokafka}
COOPERATIVE = ["librdkafka", "kafka-python"]


@pytest.fixture(params=KINDS)
def new_real(request: pytest.FixtureRequest, kafka: Kafka) -> Iterator[NewReal]:
    kafka.topic("orders", partitions=2)
    made: list[Real] = []

    def new(*, cooperative: bool = False) -> Real:
        made.append(KINDS[request.param](kafka, cooperative=cooperative))
        return made[-1]

    yield new
    for each in made:
        each.close()


BOTH = [("orders", 0), ("orders", 1)]


def test_its_partitions_are_revoked_when_a_puppet_joins(kafka: Kafka, new_real: NewReal) -> None:
    real = new_real()
    kafka.wait(lambda: real.told == [("assigned", BOTH)])
    (taken,) = kafka.puppet("billing", topics=["orders"]).wait_owned(1)
    (left,) = (each for each in BOTH if each != taken)
    kafka.wait(lambda: len(real.told) == 3)
    assert real.told[1:] == [("revoked", BOTH), ("assigned", [left])]


def test_its_partitions_go_to_a_puppet_when_its_session_ends(
    kafka: Kafka, new_real: NewReal
) -> None:
    real = new_real()
    kafka.wait(lambda: real.told == [("assigned", BOTH)])
    puppet = kafka.puppet("billing", topics=["orders"])
    puppet.wait_owned(1)
    kafka.wait(lambda: len(real.told) == 3)
    kafka.clock.advance(minutes=5)
    assert "session expired" in [event.event.cause for event in kafka.history.events]
    kafka.wait(lambda: len(real.told) == 5)
    # aiokafka has one word for both.
    assert real.told[3] == (_lost(real), real.told[2][1])
    assert "UNKNOWN_MEMBER_ID" not in {each.error for each in puppet.errors}


def _lost(real: Real) -> str:
    return "revoked" if isinstance(real, ByAiokafka) else "lost"


@pytest.mark.parametrize("new_real", COOPERATIVE, indirect=True)
def test_it_gives_back_only_what_it_loses_to_a_cooperative_puppet(
    kafka: Kafka, new_real: NewReal
) -> None:
    real = new_real(cooperative=True)
    kafka.wait(lambda: real.told == [("assigned", BOTH)])
    puppet = kafka.puppet("billing", topics=["orders"], assignor="cooperative-sticky")
    owned = puppet.wait_owned(1)
    assert real.told[1:] == [("revoked", owned)]
    causes = [g.cause for g in kafka.group("billing").generations]
    # The round before is the puppet's, unless kafka-python, which leads, has asked for one first:
    # it does so where it has heard of the topic's partitions late.
    assert causes[-2] in ("member joined", "leader requested a new assignment")
    assert causes[-1] == "cooperative follow-up"


def test_a_slow_puppet_lets_it_wait_and_the_story_names_the_puppet(
    kafka: Kafka, new_real: NewReal
) -> None:
    slow = kafka.puppet("billing", topics=["orders"], client_id="slow")
    slow.wait_owned(2)
    slow.slow()
    real = new_real()
    group = kafka.group("billing")
    kafka.wait(lambda: len(group.members) == 2)
    assert f"it waits for {slow.member_id}" in group.explain()
    assert real.told == []
    kafka.clock.advance(minutes=6)  # nobody polls that slowly
    group.wait_owner("orders", 0, "real")
    assert [m.client_id for m in group.members] == ["real"]


def test_it_leads_puppets_and_is_led_by_them(kafka: Kafka, new_real: NewReal) -> None:
    puppet = kafka.puppet("billing", topics=["orders"], client_id="puppet")
    puppet.wait_owned(2)
    new_real()
    group = kafka.group("billing").wait_stable(members=2)
    for leader in ("real", "puppet"):
        group.lead(leader)
        group.wait_stable(members=2)
        kafka.wait(lambda: len(puppet.owned) == 1)
        assert {len(member.partitions) for member in group.members} == {1}
