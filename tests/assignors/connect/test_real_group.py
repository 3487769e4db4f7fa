"""A worker leaves and either returns or stays away, in a group of a real broker whose clock skips
five minutes."""

import pytest
from kohort.testing.fake_members.fake_member import FakeMember
from kohort.testing.kafka import Kafka

from .workers import tasks

GROUP = "connect-cluster"
DELAY_SECONDS = 300  # scheduled.rebalance.max.delay.ms
SESSION_SECONDS = 10


def worker(kafka: Kafka, name: str) -> FakeMember:
    return kafka.fake_member(
        GROUP,
        client_id=name,
        session_timeout_ms=SESSION_SECONDS * 1_000,
        protocol_type="connect",
        connectors={"P": 4},
    )


@pytest.fixture
def workers(kafka: Kafka) -> list[FakeMember]:
    """C1 runs P0 and P3, C2 P1, C3 P2."""
    kafka.clock.freeze()
    with kafka.group(GROUP).hold_joins():
        workers = [worker(kafka, name) for name in ("C1", "C2", "C3")]
    for each, owned in zip(workers, ("P P-0,3", "P-1", "P-2"), strict=True):
        each.wait_owned(tasks(owned))
    return workers


def test_a_returning_worker_gets_its_work_back_and_the_others_never_stop(
    kafka: Kafka, workers: list[FakeMember]
) -> None:
    c1, c2, c3 = workers
    c2.kill()
    kafka.clock.advance(seconds=SESSION_SECONDS + 90)
    assert [c1.owned, c3.owned] == [tasks("P P-0,3"), tasks("P-2")]

    returned = worker(kafka, "C2")
    kafka.clock.advance(seconds=DELAY_SECONDS - 95)
    assert [c1.owned, returned.owned, c3.owned] == [tasks("P P-0,3"), [], tasks("P-2")]

    kafka.clock.advance(seconds=10)
    assert returned.owned == tasks("P-1")
    generation = kafka.group(GROUP).generation
    kafka.clock.advance(seconds=DELAY_SECONDS)
    assert kafka.group(GROUP).generation == generation, "no further rebalance"
    assert [c1.owned, returned.owned, c3.owned] == [tasks("P P-0,3"), tasks("P-1"), tasks("P-2")]
    assert c1.errors == c3.errors == [("Heartbeat", "REBALANCE_IN_PROGRESS")] * 2


def test_work_of_a_worker_that_does_not_return_is_reassigned(
    kafka: Kafka, workers: list[FakeMember]
) -> None:
    c1, c2, c3 = workers
    c2.kill()
    kafka.clock.advance(seconds=SESSION_SECONDS + DELAY_SECONDS - 5)
    assert [c1.owned, c3.owned] == [tasks("P P-0,3"), tasks("P-2")]
    kafka.clock.advance(seconds=10)
    assert [c1.owned, c3.owned] == [tasks("P P-0,3"), tasks("P-1,2")]
