"""Cooperative groups rebalance twice: in between they are Stable, but not done."""

import re

import pytest
from kohort.testing import BarrierTimeout, Kafka

from .conftest import NewService

COOPERATIVE = "cooperative-sticky"


@pytest.mark.clients
@pytest.mark.parametrize("strategy", [COOPERATIVE, "range"])
def test_wait_stable_includes_the_second_cooperative_rebalance(
    kafka: Kafka, new_service: NewService, strategy: str
) -> None:
    group = kafka.group("billing")
    for members, client_id in enumerate(["one", "two"], start=1):
        new_service(client_id, partition_assignment_strategy=strategy)
        group.wait_stable(members=members)
        assert [len(each.partitions) for each in group.members] == [2 // members] * members
    assert group.generation == (3 if strategy == COOPERATIVE else 2)


def test_a_member_that_revokes_and_does_not_rejoin_is_named(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    group = kafka.group("billing")
    kafka.fake_member("billing", topics=["orders"], assignor=COOPERATIVE, client_id="one")
    group.wait_stable(members=1)
    # It sends its first JoinGroup because of the other member, and its second after it has revoked.
    kafka.faults.never_answer("JoinGroup", client_id="one", nth=2)
    other = kafka.fake_member("billing", topics=["orders"], assignor=COOPERATIVE, client_id="two")
    assert (group.state, group.generation, other.owned) == ("Stable", 2, [])
    with pytest.raises(BarrierTimeout) as raised:
        group.wait_stable(members=2, timeout=0.05)
    explanation = r"Stable in generation 2, but one-\S+ must revoke orders-1 and rejoin, so it will"
    assert re.search(explanation, str(raised.value))
