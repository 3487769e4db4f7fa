"""Classic groups become consumer groups when a member of the consumer protocol joins."""

import pytest
from kohort.coordinator.outcome import EventType
from kohort.protocol.errors import ErrorCode
from support.coordinator import CoordinatorHarness
from support.mixed_groups import (
    assigned,
    assignment,
    classic_group,
    consumer_protocols,
    rejoin,
    sync,
)

E = ErrorCode
HALF, REST = {"orders": (0, 1)}, {"orders": (2, 3)}
UNSUPPORTED = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
    "default assignor before re-attempting the upgrade."
)
PREFIX = "Cannot upgrade classic group orders to consumer group because "


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


def test_a_pending_member_does_not_count(harness: CoordinatorHarness) -> None:
    pending = harness.request_member_id(protocols=consumer_protocols())
    assert harness.consumer_join("b").member_epoch == 2
    assert rejoin(harness, pending).error_code is E.none  # any member id may join


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


def test_waiting_requests_end(harness: CoordinatorHarness) -> None:
    a, b = classic_group(harness, assignment(HALF), assignment(REST))
    waiting = harness.join(a, protocols=consumer_protocols("orders", "other"))
    harness.consumer_join("c")
    result = harness.results[waiting]
    assert (result.error_code, result.member_id) == (E.rebalance_in_progress, a)
    assert rejoin(harness, b).generation_id >= 1


def test_waiting_syncs_end(harness: CoordinatorHarness) -> None:
    protocols = consumer_protocols()
    tickets = [harness.join_dynamic(protocols=protocols) for _ in range(2)]
    harness.advance(0)
    ids = [harness.results[ticket].member_id for ticket in tickets]
    follower = next(each for each in ids if each != harness.group.leader)
    waiting = harness.sync(follower, 1)
    harness.consumer_join("c")
    assert harness.results[waiting].error_code is E.rebalance_in_progress
    assert harness.owned_by(follower) == {}


def test_a_static_member_changes_its_protocol(harness: CoordinatorHarness) -> None:
    a, b = classic_group(harness, assignment(HALF), assignment(REST), instances=["i1"])
    joined = harness.consumer_join("c", instance="i1")
    assert (joined.member_epoch, harness.assigned(joined)) == (1, HALF)
    assert set(harness.consumers.members) == {"c", b}
    assert harness.heartbeat(a, 1, instance="i1") is E.fenced_instance_id
    assert harness.heartbeat(b, 1) is E.none


def test_a_consumer_that_joins_with_the_id_of_a_classic_member(
    harness: CoordinatorHarness,
) -> None:
    (a,) = classic_group(harness, assignment({"orders": (0, 1, 2, 3)}))
    joined = harness.consumer_join(a)
    assert (joined.member_epoch, len(harness.assigned(joined)["orders"])) == (1, 4)
    assert not harness.consumers.members[a].uses_classic_protocol


def test_topics_that_do_not_exist_are_dropped(harness: CoordinatorHarness) -> None:
    (a,) = classic_group(harness, assignment({**HALF, "deleted": (0,)}))
    harness.consumer_join("c")
    assert harness.owned_by(a) == {"orders": [0, 1]}


def test_members_expire_after_an_upgrade(harness: CoordinatorHarness) -> None:
    a, b = classic_group(harness, assignment(HALF), assignment(REST))
    harness.consumer_join("c")
    harness.advance(10_000)  # the session timeout of the classic members
    assert set(harness.consumers.members) == {"c"}
    assert len(harness.events_of(EventType.MEMBER_EXPIRED)) == 2
    assert {harness.heartbeat(each, 1) for each in (a, b)} == {E.unknown_member_id}


# --- rejected upgrades


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_policy_may_forbid_upgrades(policy: str) -> None:
    harness = CoordinatorHarness(
        group_initial_rebalance_delay_ms=0, consumer_migration_policy=policy
    )
    (a,) = classic_group(harness, assignment(HALF))
    refused = harness.consumer_join("c")
    assert refused.error_code is E.group_id_not_found
    assert refused.error_message == f"{PREFIX}online upgrade is disabled."
    assert harness.heartbeat(a, 1) is E.none
    assert not harness.events_of(EventType.GROUP_CONVERTED)


def test_groups_of_other_protocol_types_stay(harness: CoordinatorHarness) -> None:
    harness.join_dynamic(protocol_type="connect")
    refused = harness.consumer_join("c")
    assert (
        refused.error_message == f"{PREFIX}the group does not use the consumer embedded protocol."
    )


@pytest.mark.parametrize(
    ("limit", "error"), [(1, E.group_id_not_found), (2, E.group_max_size_reached), (3, E.none)]
)
def test_the_group_must_not_be_too_large(limit: int, error: ErrorCode) -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=0, group_consumer_max_size=limit)
    a, _ = classic_group(harness, assignment(HALF), assignment(REST))
    assert harness.consumer_join("c").error_code is error
    if error:
        assert harness.heartbeat(a, 1) is E.none


@pytest.mark.parametrize(
    ("encoded", "error", "problem"),
    [
        (b"x", E.group_id_not_found, "the embedded consumer protocol is malformed."),
        (b"\0\3", E.group_id_not_found, "the embedded consumer protocol is malformed."),
        (b"\0\3\0\0\0\0", E.group_id_not_found, "the embedded consumer protocol is malformed."),
        (b"\xff\xff\0\0\0\1", E.group_id_not_found, "the embedded consumer protocol is malformed."),
        (b"share of A", E.unknown_server_error, None),
        (
            assignment(HALF, b"user data"),
            E.group_id_not_found,
            UNSUPPORTED,
        ),
    ],
)
def test_assignments_must_be_those_of_consumers(
    harness: CoordinatorHarness, encoded: bytes, error: ErrorCode, problem: str | None
) -> None:
    (a,) = classic_group(harness, encoded)
    refused = harness.consumer_join("c")
    assert refused.error_code is error
    assert refused.error_message == (None if problem is None else PREFIX + problem)
    assert harness.heartbeat(a, 1) is E.none


@pytest.mark.parametrize("topics", [("orders",), ("other",)])
def test_the_uniform_assignor_rejects_partitions_that_do_not_exist(
    harness: CoordinatorHarness, topics: tuple[str, ...]
) -> None:
    (a,) = classic_group(harness, assignment({"orders": (0, 4)}))
    assert harness.consumer_join("c", topics=topics).error_code is E.unknown_server_error
    assert harness.heartbeat(a, 1) is E.none
    assert harness.consumer_join("c", topics=topics, assignor="range").error_code is E.none


def test_a_refused_upgrade_ends_waiting_requests_but_no_sessions(
    harness: CoordinatorHarness,
) -> None:
    a, b = classic_group(harness, b"share of A", b"share of B")
    waiting = harness.join(a, protocols=consumer_protocols("orders", "other"))
    assert harness.consumer_join("c").error_code is E.unknown_server_error
    assert harness.results[waiting].error_code is E.rebalance_in_progress
    harness.advance(10_000)
    assert not {a, b} & harness.group.members.keys()


def test_a_group_without_a_first_generation_is_not_upgraded() -> None:
    """As in Kafka, the classic member has to join again."""
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=3_000)
    waiting = harness.join_dynamic(protocols=consumer_protocols())
    refused = harness.consumer_join("c")
    assert (refused.error_code, refused.error_message) == (E.unknown_server_error, None)
    member_id = harness.results[waiting].member_id
    assert harness.results[waiting].error_code is E.rebalance_in_progress
    again = harness.join(member_id, protocols=consumer_protocols())
    harness.advance(3_000)
    assert harness.results[again].generation_id == 1


def test_rejected_joins_do_not_upgrade(harness: CoordinatorHarness) -> None:
    (a,) = classic_group(harness, assignment(HALF))
    assert harness.consumer_join("c", regex="(").error_code is E.invalid_regular_expression
    assert harness.heartbeat(a, 1) is E.none
    assert not harness.events_of(EventType.GROUP_CONVERTED)


@pytest.mark.parametrize("epoch", [1, -1])
def test_only_joins_upgrade(harness: CoordinatorHarness, epoch: int) -> None:
    (a,) = classic_group(harness, assignment(HALF))
    refused = harness.consumer(a, epoch)
    assert refused.error_code is E.group_id_not_found
    assert refused.error_message == "Group orders is not a consumer group."


# --- downgrades without members


def test_an_empty_consumer_group_becomes_classic(harness: CoordinatorHarness) -> None:
    harness.commit(("orders", 0, 7))
    harness.consumer_join("a")
    harness.consumer("a", -1)
    (b,) = classic_group(harness, assignment(HALF))
    assert harness.group.generation == 1
    assert harness.fetch().topics
    assert assigned(sync(harness, b, 1)) == HALF


def test_an_empty_consumer_group_rejects_requests_of_classic_members(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a")
    harness.consumer("a", -1)
    assert harness.heartbeat("a", 1) is E.unknown_member_id
    assert sync(harness, "a", 1).error_code is E.unknown_member_id
    assert harness.leave("a").members[0].error_code is E.unknown_member_id
    assert rejoin(harness, "a").error_code is E.unknown_member_id  # replaces the group nevertheless
    assert not harness.coordinator.consumer_groups
