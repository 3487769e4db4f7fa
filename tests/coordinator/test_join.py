"""JoinGroup: validation, protocol selection, and which joins start a rebalance."""

from typing import Any

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import JoinResult
from kohort.offsets.records import GroupMetadata, GroupMetadataRecord
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness

E = ErrorCode


def rejected(error: ErrorCode, member_id: str = "") -> JoinResult:
    return JoinResult(error, -1, None, None, "", member_id, (), False)


@pytest.mark.parametrize(
    "values", [{"instance": "i"}, {"client": "i"}, {"client": "i", "version": 3}]
)
def test_a_member_id_that_fits_no_response_is_rejected(
    harness: CoordinatorHarness, values: Any
) -> None:
    accepted = {key: "é" * 16_382 if value == "i" else value for key, value in values.items()}
    too_long = {key: "é" * 16_383 if value == "i" else value for key, value in values.items()}
    assert harness.results[harness.join(**too_long)] == rejected(E.unknown_server_error)
    assert (harness.state, harness.group.members, harness.group.pending_joins) == (
        State.EMPTY,
        {},
        {},
    )
    harness.join(**accepted)
    harness.advance(0)
    assert len(harness.group.members) + len(harness.group.pending_joins) == 1


def test_a_protocol_listed_twice_counts_once(harness: CoordinatorHarness) -> None:
    """Kafka never responds to such a member or to members that join at the same time."""
    a = harness.join_dynamic(protocols=(("range", b"1"), ("range", b"2")))
    b = harness.join_dynamic()
    harness.advance(0)
    assert [m.metadata for m in harness.results[a].members] == [b"1", b"r"]
    assert harness.results[b].protocol_name == "range"


def test_the_first_join_writes_a_group_record(harness: CoordinatorHarness) -> None:
    harness.join()
    empty = GroupMetadata("", 0, None, None, harness.now, ())
    assert harness.log == [GroupMetadataRecord(GROUP, empty)]


def test_joining_a_group_of_offsets_writes_no_group_record(harness: CoordinatorHarness) -> None:
    harness.commit()
    assert GROUP not in harness.coordinator.groups
    harness.request_member_id()
    assert len(harness.log) == 1
    assert harness.results[harness.join("unknown")] == rejected(E.unknown_member_id, "unknown")


def test_in_a_tie_the_preference_of_the_leader_decides(harness: CoordinatorHarness) -> None:
    harness.join_dynamic(protocols=(("roundrobin", b""), ("range", b"")))
    harness.join_dynamic(protocols=(("range", b""), ("roundrobin", b"")))
    harness.advance(0)
    assert harness.group.protocol_name == "roundrobin"


# --- rejoins


def test_an_unchanged_follower_receives_the_stable_generation_again(
    harness: CoordinatorHarness,
) -> None:
    _, b = harness.stable_group(None, None)
    before = dict(harness.coordinator.deadlines)
    harness.advance(5)
    answer = harness.results[harness.join(b)]
    assert answer == JoinResult(E.none, 1, "consumer", "range", "client-1", b, (), False)
    assert harness.state is State.STABLE
    assert dict(harness.coordinator.deadlines) == before, "no timer has changed"


# --- group.max.size


def test_a_group_over_the_limit_rejects_the_last_members_to_rejoin() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=0)
    ids = harness.stable_group(*[None] * 5)
    harness.config = CoordinatorHarness(group_initial_rebalance_delay_ms=0, group_max_size=3).config
    harness.restart()
    assert harness.state is State.PREPARING_REBALANCE
    tickets = [harness.join(member_id) for member_id in ids]
    harness.advance(60_000)
    errors = [harness.results[ticket].error_code for ticket in tickets]
    assert errors == [E.none] * 3 + [E.group_max_size_reached] * 2
    assert list(harness.group.members) == ids[:3]


def test_a_member_has_no_metadata_for_an_unlisted_protocol(harness: CoordinatorHarness) -> None:
    harness.stable_group(None)
    (member,) = harness.group.members.values()
    with pytest.raises(KeyError):
        member.metadata("roundrobin")
