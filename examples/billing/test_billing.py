"""Twenty-one tests of a service that consumes from Kafka, without sleeps and without Docker.

With KOHORT_TEST_BOOTSTRAP_SERVERS=host:port, they run on a real cluster, and tests that control
the broker are skipped.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from billing.service import Billing, Poison
from kohort.testing import Kafka


class Till:
    """A `charge` that records orders and raises the given exceptions."""

    def __init__(self) -> None:
        self.charged: list[bytes] = []
        self.failures: list[Exception] = []
        self.is_open = threading.Event()
        self.is_open.set()
        self._changed = threading.Condition()

    def __call__(self, order: bytes) -> None:
        self.is_open.wait(10)
        if order == b"poison":
            raise Poison
        with self._changed:
            if self.failures:
                raise self.failures.pop()
            self.charged.append(order)
            self._changed.notify_all()

    def wait(self, count: int) -> list[bytes]:
        """Wait until `count` orders have been charged."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.charged) >= count, 10), self.charged
            return self.charged


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def bill(kafka: Kafka, till: Till) -> Iterator[Callable[..., Billing]]:
    """Yield a function that starts a service. All services are stopped at the end."""
    # Offsets expire after a week, but orders never expire.
    kafka.topic("orders", partitions=2, config={"retention.ms": "-1"})
    with ExitStack() as running:

        def start(**consumer: Any) -> Billing:
            service = Billing(kafka.bootstrap_servers, till, **consumer)
            return running.enter_context(service)

        yield start
        till.is_open.set()


Start = Callable[..., Billing]


def test_every_order_is_charged(kafka: Kafka, till: Till, bill: Start) -> None:
    kafka.topic("orders").produce(["one", "two", "three"])
    bill()
    assert sorted(till.wait(3)) == [b"one", b"three", b"two"]


def test_an_order_is_committed_when_it_has_been_charged(
    kafka: Kafka, till: Till, bill: Start
) -> None:
    kafka.topic("orders").produce(["one"], partition=0)
    bill()
    assert kafka.group("billing").wait_committed("orders", 0) == 1
    assert till.charged == [b"one"]


def test_nothing_is_committed_before_it_is_charged(kafka: Kafka, till: Till, bill: Start) -> None:
    till.is_open.clear()
    kafka.topic("orders").produce(["one"], partition=0)
    bill()
    kafka.group("billing").wait_stable(members=1)
    assert kafka.group("billing").committed("orders", 0) is None
    till.is_open.set()
    kafka.group("billing").wait_committed("orders", 0, 1)


def test_the_service_continues_where_it_stopped(kafka: Kafka, till: Till, bill: Start) -> None:
    orders = kafka.topic("orders")
    orders.produce(["one"], partition=0)
    first = bill()
    kafka.group("billing").wait_committed("orders", 0, 1)
    first.stop()
    orders.produce(["two"], partition=0)
    bill()
    assert till.wait(2) == [b"one", b"two"]


def test_a_failed_charge_is_retried(kafka: Kafka, till: Till, bill: Start) -> None:
    till.failures = [TimeoutError("no response"), ConnectionError("connection refused")]
    kafka.topic("orders").produce(["one"], partition=0)
    bill()
    assert till.wait(1) == [b"one"]
    assert till.failures == []


def test_poison_goes_to_the_dead_letter_topic(kafka: Kafka, till: Till, bill: Start) -> None:
    dead = kafka.topic("orders.dead", partitions=1)
    kafka.topic("orders").produce(["poison", "two"], partition=0)
    bill()
    assert till.wait(1) == [b"two"]
    assert [record.value for record in dead.records()] == [b"poison"]
    kafka.group("billing").wait_committed("orders", 0, 2)


def test_a_failed_write_to_the_dead_letter_topic_is_retried(
    kafka: Kafka, till: Till, bill: Start
) -> None:
    dead = kafka.topic("orders.dead", partitions=1)
    kafka.faults.answer("Produce", error="TOPIC_AUTHORIZATION_FAILED")
    kafka.topic("orders").produce(["poison", "two"], partition=0)
    bill()
    assert till.wait(1) == [b"two"]
    assert [record.value for record in dead.records()] == [b"poison"]


def test_two_instances_share_the_orders(kafka: Kafka, bill: Start) -> None:
    bill(client_id="left")
    bill(client_id="right")
    group = kafka.group("billing").wait_stable(members=2)
    owners = {group.wait_owner("orders", number).client_id for number in (0, 1)}
    assert owners == {"left", "right"}


def test_the_other_instance_takes_over_when_one_stops(
    kafka: Kafka, till: Till, bill: Start
) -> None:
    bill(client_id="left")
    right = bill(client_id="right")
    group = kafka.group("billing").wait_stable(members=2)
    right.stop()
    group.wait_owner("orders", 0, "left")
    group.wait_owner("orders", 1, "left")
    kafka.topic("orders").produce(["one", "two"])
    assert sorted(till.wait(2)) == [b"one", b"two"]


def test_a_commit_that_was_not_applied_is_retried(kafka: Kafka, till: Till, bill: Start) -> None:
    kafka.faults.drop("OffsetCommit", group="billing")
    kafka.topic("orders").produce(["one"], partition=0)
    bill()
    kafka.group("billing").wait_committed("orders", 0, 1)
    assert till.charged == [b"one"]


def test_a_commit_without_a_response_charges_no_order_twice(
    kafka: Kafka, till: Till, bill: Start
) -> None:
    lost = kafka.faults.lose_answer("OffsetCommit", group="billing")
    orders = kafka.topic("orders")
    orders.produce(["one"], partition=0)
    bill()
    lost.wait()
    orders.produce(["two"], partition=0)
    kafka.group("billing").wait_committed("orders", 0, 2)
    assert till.charged == [b"one", b"two"]


def test_a_moved_coordinator_is_found(kafka: Kafka, bill: Start) -> None:
    kafka.faults.answer("OffsetCommit", error="NOT_COORDINATOR", group="billing")
    kafka.topic("orders").produce(["one"], partition=0)
    bill()
    kafka.group("billing").wait_committed("orders", 0, 1)


def test_the_service_waits_for_a_loading_coordinator(kafka: Kafka, till: Till, bill: Start) -> None:
    kafka.faults.answer("JoinGroup", error="COORDINATOR_LOAD_IN_PROGRESS", times=3)
    kafka.topic("orders").produce(["one"])
    bill()
    assert till.wait(1) == [b"one"]


def test_an_order_of_a_removed_instance_is_charged_again(
    kafka: Kafka, till: Till, bill: Start
) -> None:
    """The downside of at-least-once delivery."""
    till.is_open.clear()
    kafka.topic("orders").produce(["one"], partition=0)
    slow = bill(client_id="slow")
    group = kafka.group("billing").wait_stable(members=1)
    kafka.wait_request("Fetch", client_id="slow")
    group.expire("slow")
    till.is_open.set()
    assert till.wait(2) == [b"one", b"one"]
    group.wait_committed("orders", 0, 1)
    assert slow.rejected_commits == 1


def test_an_expired_session_costs_only_a_rebalance(kafka: Kafka, till: Till, bill: Start) -> None:
    bill()
    group = kafka.group("billing").wait_stable(members=1)
    kafka.clock.advance(minutes=5)
    group.wait_stable(members=1)
    assert [each.cause for each in group.generations][:2] == ["member joined", "session expired"]
    kafka.topic("orders").produce(["one"])
    assert till.wait(1) == [b"one"]


def test_the_offsets_of_a_service_that_was_stopped_long_expire(
    kafka: Kafka, till: Till, bill: Start
) -> None:
    kafka.topic("orders").produce(["one"], partition=0)
    service = bill()
    group = kafka.group("billing")
    group.wait_committed("orders", 0, 1)
    service.stop()
    group.wait_empty()
    kafka.clock.advance(days=8)  # offsets.retention.minutes is seven days
    group.wait_gone()
    bill()
    assert till.wait(2) == [b"one", b"one"]


def test_a_static_member_restarts_without_a_rebalance(
    kafka: Kafka, till: Till, bill: Start
) -> None:
    group = kafka.group("billing")
    kafka.topic("orders").produce(["one"], partition=0)
    first = bill(group_instance_id="till-1")
    group.wait_committed("orders", 0, 1)
    generation = group.generation
    first.stop()
    kafka.topic("orders").produce(["two"], partition=0)
    bill(group_instance_id="till-1")
    assert till.wait(2) == [b"one", b"two"]
    assert group.generation == generation


def test_a_rolling_restart_loses_no_order(kafka: Kafka, till: Till, bill: Start) -> None:
    orders = kafka.topic("orders")
    first = bill(client_id="old")
    group = kafka.group("billing").wait_stable(members=1)
    orders.produce(["one", "two"])
    till.wait(2)
    bill(client_id="new")
    group.wait_stable(members=2)
    first.stop()
    group.wait_stable(members=1)
    orders.produce(["three", "four"])
    assert sorted(set(till.wait(4))) == [b"four", b"one", b"three", b"two"]


def test_a_rebalance_has_no_visible_effect(kafka: Kafka, till: Till, bill: Start) -> None:
    bill()
    group = kafka.group("billing")
    group.wait_owner("orders", 0)
    group.rebalance()
    group.wait_generation(group.generation + 1)
    kafka.topic("orders").produce(["one"])
    assert till.wait(1) == [b"one"]


def test_the_lag_of_a_stopped_service(kafka: Kafka, bill: Start) -> None:
    orders, group = kafka.topic("orders"), kafka.group("billing")
    orders.produce(["one"], partition=0)
    service = bill()
    group.wait_committed("orders", 0, 1)
    service.stop()
    orders.produce(["two", "three"], partition=0)
    assert orders.end_offset(0) - (group.committed("orders", 0) or 0) == 2


def test_responses_may_arrive_in_pieces(kafka: Kafka, till: Till, bill: Start) -> None:
    kafka.faults.trickle("Fetch", client_id="billing")
    kafka.topic("orders").produce(["one"], partition=0)
    bill()
    assert till.wait(1) == [b"one"]
