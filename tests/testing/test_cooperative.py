"""Groups that rebalance in two rounds: between them they are Stable, and not at rest."""

from collections.abc import Callable

import pytest
from kohort.testing import BarrierTimeout, Kafka

from .conftest import Service

COOPERATIVE = "cooperative-sticky"


@pytest.mark.clients
@pytest.mark.parametrize("strategy", [COOPERATIVE, "range"])
def test_a_group_is_waited_for_until_its_second_round_is_over(
    kafka: Kafka, new_service: Callable[..., Service], strategy: str
) -> None:
    group = kafka.group("billing")
    for members, client_id in enumerate(["one", "two"], start=1):
        new_service(client_id, partition_assignment_strategy=strategy)
        group.wait_stable(members=members)
        assert [len(each.partitions) for each in group.members] == [2 // members] * members
    assert group.generation == (3 if strategy == COOPERATIVE else 2)


def test_who_gives_something_up_and_does_not_come_again_is_named(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    group = kafka.group("billing")
    kafka.puppet("billing", topics=["orders"], assignor=COOPERATIVE, client_id="one")
    group.wait_stable(members=1)
    # Its first join is for the sake of the other, its second for what it has given up.
    kafka.faults.never_answer("JoinGroup", client_id="one", nth=2)
    other = kafka.puppet("billing", topics=["orders"], assignor=COOPERATIVE, client_id="two")
    assert (group.state, group.generation, other.owned) == ("Stable", 2, [])
    with pytest.raises(BarrierTimeout) as raised:
        group.wait_stable(members=2, timeout=0.05)
    gives = r"Stable in generation 2, but one-\S+ gives orders-1 up, and is to join again: another"
    assert raised.match(gives)
