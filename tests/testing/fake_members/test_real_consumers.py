"""One real consumer of each library, with fake members as its peers."""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from kohort.assignors.kafka_python import CooperativeStickyAssignor
from kohort.testing import Kafka

from ...clients.adapter import LIBRARIES, ConsumerSettings, load
from ...clients.consumers import BackgroundConsumer

pytestmark = pytest.mark.clients

NewReal = Callable[..., BackgroundConsumer]
COOPERATIVE: dict[str, dict[str, Any]] = {
    "librdkafka": {"assignors": ("cooperative-sticky",)},
    "kafka-python": {"strategies": (CooperativeStickyAssignor,)},
}


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def new_real(library: str, kafka: Kafka) -> Iterator[NewReal]:
    kafka.topic("orders", partitions=2)
    created: list[BackgroundConsumer] = []
    with closing(load(library)(kafka.bootstrap_servers)) as client:

        def new(**more: Any) -> BackgroundConsumer:
            settings = ConsumerSettings(
                "billing",
                client_id="real",
                session_timeout_ms=45_000,
                heartbeat_interval_ms=20,
                **more,
            )
            created.append(BackgroundConsumer(client.consumer(settings)))
            created[-1].subscribe("orders")
            return created[-1]

        yield new
        for each in created:
            each.close()


BOTH = [("orders", 0), ("orders", 1)]


def test_a_consumer_loses_partitions_to_a_new_fake_member(kafka: Kafka, new_real: NewReal) -> None:
    real = new_real()
    kafka.wait(lambda: real.rebalance_calls == [("assigned", BOTH)])
    (lost,) = kafka.fake_member("billing", topics=["orders"]).wait_owned(1)
    (left,) = (each for each in BOTH if each != lost)
    kafka.wait(lambda: len(real.rebalance_calls) == 3)
    assert real.rebalance_calls[1:] == [("revoked", BOTH), ("assigned", [left])]


def test_a_fake_member_gets_the_partitions_of_an_expired_consumer(
    kafka: Kafka, new_real: NewReal, library: str
) -> None:
    real = new_real()
    kafka.wait(lambda: real.rebalance_calls == [("assigned", BOTH)])
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned(1)
    kafka.wait(lambda: len(real.rebalance_calls) == 3)
    kafka.clock.advance(minutes=5)
    assert "session expired" in [event.event.cause for event in kafka.history.events]
    kafka.wait(lambda: len(real.rebalance_calls) == 5)
    # aiokafka calls on_partitions_revoked in both cases.
    call = "revoked" if library == "aiokafka" else "lost"
    assert real.rebalance_calls[3] == (call, real.rebalance_calls[2][1])
    assert "UNKNOWN_MEMBER_ID" not in {each.error for each in fake.errors}


@pytest.mark.parametrize("library", COOPERATIVE, indirect=True)
def test_a_cooperative_consumer_revokes_only_what_it_loses(
    kafka: Kafka, new_real: NewReal, library: str
) -> None:
    real = new_real(**COOPERATIVE[library])
    kafka.wait(lambda: real.rebalance_calls == [("assigned", BOTH)])
    fake = kafka.fake_member("billing", topics=["orders"])
    owned = fake.wait_owned(1)
    assert real.rebalance_calls[1:] == [("revoked", owned)]
    causes = [g.cause for g in kafka.group("billing").generations]
    # The fake member causes the previous rebalance, unless kafka-python, the leader, requested one
    # first, because it got the metadata of the topic late.
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
    assert real.rebalance_calls == []
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
