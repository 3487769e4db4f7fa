"""Behavior that groups of the classic and of the consumer protocol (KIP-848) share: state, waits,
history and checks, with librdkafka's consumers as members."""

import pytest
from kohort.testing import BarrierTimeout, Kafka

from .conftest import NewService

pytestmark = pytest.mark.clients


def test_members_are_described_with_their_partitions(
    kafka: Kafka, new_service: NewService, protocol: str
) -> None:
    new_service("first", group_protocol=protocol)
    new_service("second", group_protocol=protocol, group_instance_id="pod-2")
    group = kafka.group("billing").wait_stable(members=2)
    first, second = sorted(group.members, key=lambda member: member.client_id)
    assert (first.client_id, second.client_id) == ("first", "second")
    assert (first.instance_id, second.instance_id) == (None, "pod-2")
    assert sorted(first.partitions + second.partitions) == [("orders", 0), ("orders", 1)]
    assert (first.target, first.revoking) == (first.partitions, ())
    assert {first.protocol, second.protocol} == {protocol}
    assert {first.epoch, second.epoch} == {group.generation}
    assert [each.group_id for each in kafka.groups] == ["billing"]
    assert group.explain().startswith("Group billing is Stable in ")


def test_waits_end_when_owners_and_epochs_are_reached(
    kafka: Kafka, new_service: NewService, protocol: str
) -> None:
    group = kafka.group("billing")
    new_service("first", group_protocol=protocol)
    before = group.wait_stable(members=1).generation
    new_service("second", group_protocol=protocol)
    group.wait_epoch(before + 1).wait_stable(members=2).wait_generation(before + 1)
    owned = [group.wait_owner("orders", index).client_id for index in (0, 1)]
    assert sorted(owned) == ["first", "second"]
    assert group.owner("orders", 0) == group.wait_owner("orders", 0, owned[0])
    with pytest.raises(BarrierTimeout, match="to have second in epoch 99"):
        group.wait_epoch(99, "second", timeout=0.01)
    with pytest.raises(BarrierTimeout, match="it has no member 'third'"):
        group.wait_owner("orders", 0, "third", timeout=0.01)


def test_generations_assignments_and_exits_are_data(
    kafka: Kafka, new_service: NewService, protocol: str
) -> None:
    group = kafka.group("billing")
    first = new_service("first", group_protocol=protocol)
    group.wait_stable(members=1)
    second = new_service("second", group_protocol=protocol)
    group.wait_stable(members=2)
    last = group.generations[-1]
    assert group.generations[0].cause == "member joined"
    assert (last.cause, last.members) == ("member joined", 2)
    assert {each: len(owned) for each, owned in last.partitions.items()} == {
        member.member_id: 1 for member in group.members
    }
    assert last.synced_ms is not None
    current = [each for each in group.assignments if each.until_ms is None]
    assert sorted(sum((each.partitions for each in current), ())) == [("orders", 0), ("orders", 1)]
    second.close()
    first.close()
    group.wait_empty()
    assert [each.cause for each in group.exits] == ["member left", "member left"]
    assert group.generations[-1].members == 0
    assert [each for each in group.assignments if each.until_ms is None] == []


def test_offsets_and_lag_are_those_of_the_group(
    kafka: Kafka, new_service: NewService, protocol: str
) -> None:
    kafka.topic("orders", partitions=2).produce([b"a", b"b", b"c"], partition=0)
    new_service("service", group_protocol=protocol)
    group = kafka.group("billing")
    assert group.wait_committed("orders", 0, 3) == 3
    assert (group.committed("orders", 0), group.lag("orders")) == (3, 0)
    assert {each.generation for each in group.commits} <= {
        each.number for each in group.generations
    }


def test_a_long_advance_with_heartbeats_keeps_sessions(
    kafka: Kafka, new_service: NewService, protocol: str
) -> None:
    new_service("service", group_protocol=protocol)
    group = kafka.group("billing").wait_stable(members=1)
    kafka.clock.advance_with_heartbeats(minutes=5)
    assert group.exits == []
    kafka.clock.advance(minutes=1)
    assert [each.cause for each in group.exits] == ["session expired"]
    group.wait_stable(members=1)


def test_a_regular_life_has_no_findings(
    kafka: Kafka, new_service: NewService, protocol: str
) -> None:
    kafka.topic("orders", partitions=2).produce([b"a", b"b", b"c"])
    group = kafka.group("billing")
    services = [new_service("first", group_protocol=protocol)]
    group.wait_stable(members=1)
    services.append(new_service("second", group_protocol=protocol))
    group.wait_stable(members=2)
    kafka.topic("orders").produce([b"d", b"e", b"f"])
    kafka.wait(lambda: group.lag("orders") == 0, "all records to be consumed")
    left_open = {each.member_id for each in kafka.client_checks.left_open}
    assert left_open == {each.member_id for each in group.members}
    for service in services:
        service.close()
        kafka.wait(lambda: len(group.members) < 2)
    group.wait_empty()
    assert kafka.client_checks.findings == []
    assert kafka.client_checks.left_open == []


def test_the_report_shows_who_owned_what(
    kafka: Kafka, new_service: NewService, protocol: str
) -> None:
    new_service("service", group_protocol=protocol)
    kafka.group("billing").wait_stable(members=1)
    report = kafka.report()
    assert report.startswith("Group billing is Stable in ")
    assert "orders-0, orders-1" in report
    assert "rebalance started: member joined" in report
