"""Classic groups become consumer groups when a member of the consumer protocol joins."""

import pytest
from kohort.coordinator.outcome import EventType
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness
from support.mixed_groups import assigned, assignment, classic_group, consumer_protocols, sync

E = ErrorCode
HALF, REST = {"orders": (0, 1)}, {"orders": (2, 3)}


@pytest.mark.parametrize("has_offsets", [False, True])
def test_an_empty_classic_group_is_replaced(harness: CoordinatorHarness, has_offsets: bool) -> None:
    if has_offsets:
        harness.commit(("orders", 0, 7))
    else:
        (a,) = classic_group(harness, b"")
        harness.leave(a)
    assert harness.consumer_join("b").member_epoch == 2
    assert not harness.coordinator.groups
    assert (harness.fetch().topics != ()) is has_offsets


def test_members_keep_their_partitions(harness: CoordinatorHarness) -> None:
    a, b = classic_group(harness, assignment(HALF), assignment(REST))
    joined = harness.consumer_join("c")
    assert (joined.error_code, joined.member_epoch, joined.assignment) == (E.none, 2, ())
    assert {m.epoch for m in harness.consumers.members.values() if m.member_id != "c"} == {1}
    assert (harness.owned_by(a), harness.owned_by(b)) == (
        {"orders": [0, 1]},
        {"orders": [2, 3]},
    )
    assert harness.heartbeat(a, 1) is E.rebalance_in_progress
    (event,) = harness.events_of(EventType.GROUP_CONVERTED)
    assert event.detail == {"type": "consumer"}
    members = {m.member_id: m.uses_classic_protocol for m in harness.describe_consumers().members}
    assert members == {a: True, b: True, "c": False}


def test_members_expire_after_an_upgrade(harness: CoordinatorHarness) -> None:
    a, b = classic_group(harness, assignment(HALF), assignment(REST))
    harness.consumer_join("c")
    harness.advance(10_000)  # the session timeout of the classic members
    assert set(harness.consumers.members) == {"c"}
    assert len(harness.events_of(EventType.MEMBER_EXPIRED)) == 2
    assert {harness.heartbeat(each, 1) for each in (a, b)} == {E.unknown_member_id}


def test_a_sync_with_a_malformed_subscription_fails(harness: CoordinatorHarness) -> None:
    """The group's protocol was another one when it was upgraded."""
    other = consumer_protocols(name="x")
    harness.join(instance="a", protocols=(("range", b""), *other))
    harness.join(instance="b", protocols=other)
    harness.advance(harness.config.group_initial_rebalance_delay_ms)
    a, b = (harness.group.static_members[each] for each in "ab")
    for each in sorted((a, b), key=lambda each: each != harness.group.leader):
        harness.sync(each, harness.group.generation)
    harness.coordinator.hold_assignment(GROUP, is_held=True)
    assert harness.consumer_join("c").error_code is E.none
    assert sync(harness, a, harness.consumers.members[a].epoch).error_code is E.unknown_server_error
    assert assigned(sync(harness, b, harness.consumers.members[b].epoch)) == {}


# --- rejected upgrades


def test_an_assignment_with_a_negative_version_is_malformed(harness: CoordinatorHarness) -> None:
    (a,) = classic_group(harness, b"\xff\xff\0\0\0\1")
    assert harness.consumer_join("c").error_code is E.group_id_not_found
    assert harness.heartbeat(a, 1) is E.none
    assert not harness.events_of(EventType.GROUP_CONVERTED)


def test_a_refused_upgrade_ends_waiting_requests_but_no_sessions(
    harness: CoordinatorHarness,
) -> None:
    a, b = classic_group(harness, b"share of A", b"share of B")
    waiting = harness.join(a, protocols=consumer_protocols("orders", "other"))
    assert harness.consumer_join("c").error_code is E.unknown_server_error
    assert harness.results[waiting].error_code is E.rebalance_in_progress
    harness.advance(10_000)
    assert not {a, b} & harness.group.members.keys()


def test_an_upgrade_fails_while_a_member_has_given_up_the_groups_protocol(
    harness: CoordinatorHarness,
) -> None:
    both = (*consumer_protocols(), *consumer_protocols(name="other"))
    a, b = classic_group(harness, assignment(HALF), assignment(REST), protocols=both)
    waiting = harness.join(b, protocols=consumer_protocols(name="other"))
    assert harness.consumer_join("c").error_code is E.unknown_server_error
    assert harness.results[waiting].error_code is E.rebalance_in_progress
    assert {a, b} == harness.group.members.keys()


def test_rejected_joins_do_not_upgrade(harness: CoordinatorHarness) -> None:
    (a,) = classic_group(harness, assignment(HALF))
    assert harness.consumer_join("c", regex="(").error_code is E.invalid_regular_expression
    assert harness.heartbeat(a, 1) is E.none
    assert not harness.events_of(EventType.GROUP_CONVERTED)


# --- downgrades without members


def test_an_empty_consumer_group_becomes_classic(harness: CoordinatorHarness) -> None:
    harness.commit(("orders", 0, 7))
    harness.consumer_join("a")
    harness.consumer("a", -1)
    events = len(harness.events)
    (b,) = classic_group(harness, assignment(HALF))
    assert (harness.events[events].type, harness.events[events].detail) == (
        EventType.GROUP_CONVERTED,
        {"type": "classic"},
    )
    assert EventType.GROUP_CREATED not in {each.type for each in harness.events[events:]}
    assert harness.group.generation == 1
    assert harness.fetch().topics
    assert assigned(sync(harness, b, 1)) == HALF


@pytest.mark.parametrize("has_offsets", [False, True])
def test_a_rejected_join_deletes_an_empty_consumer_group(
    harness: CoordinatorHarness, has_offsets: bool
) -> None:
    if has_offsets:
        harness.commit(("orders", 0, 7))
    harness.consumer_join("a")
    harness.consumer("a", -1)
    events = len(harness.events)
    ticket = harness.join("unknown", protocols=consumer_protocols())
    assert harness.results[ticket].error_code is E.unknown_member_id
    expected = EventType.GROUP_CONVERTED if has_offsets else EventType.GROUP_DELETED
    assert harness.events[events].type is expected
    assert bool(harness.list_groups()) is has_offsets
