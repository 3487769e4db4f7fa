"""JoinGroup: who may be a member, and does that need a round?"""

from typing import Any

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import JoinMember, JoinResult
from kohort.offsets.records import GroupMetadata, GroupMetadataRecord
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, RANGE, World

E = ErrorCode
ROUNDROBIN = (("roundrobin", b"rr"),)
BOTH = RANGE + ROUNDROBIN


def refused(error: ErrorCode, member_id: str = "") -> JoinResult:
    return JoinResult(error, -1, None, None, "", member_id, (), False)


def test_a_dynamic_member_is_first_told_its_id(w: World) -> None:
    ticket = w.join(client="c")
    assert w.answers[ticket] == refused(E.member_id_required, "c-1")
    assert w.state is State.EMPTY


def test_a_client_without_an_id_has_the_empty_name(w: World) -> None:
    assert w.new_id(client=None) == "-1"


@pytest.mark.parametrize("how", [{"instance": "i"}, {"client": "i"}, {"client": "i", "version": 3}])
def test_nobody_becomes_a_member_whose_id_no_answer_could_hold(w: World, how: Any) -> None:
    fits = {key: "é" * 16_382 if value == "i" else value for key, value in how.items()}
    grows = {key: "é" * 16_383 if value == "i" else value for key, value in how.items()}
    assert w.answers[w.join(**grows)] == refused(E.unknown_server_error)
    assert (w.state, w.group.members, w.group.pending_joins) == (State.EMPTY, {}, {})
    w.join(**fits)
    w.sleep(0)
    assert len(w.group.members) + len(w.group.pending_joins) == 1


def test_a_protocol_that_is_listed_twice_counts_once(w: World) -> None:
    """Upstream never answers such a member, nor anybody who joins with it."""
    a = w.enter(protocols=(("range", b"1"), ("range", b"2")))
    b = w.enter()
    w.sleep(0)
    assert [m.metadata for m in w.answers[a].members] == [b"1", b"r"]
    assert w.answers[b].protocol_name == "range"


def test_old_versions_join_in_one_step(w: World) -> None:
    ticket = w.join(version=3)
    w.sleep(0)
    assert w.answers[ticket].error is E.none


def test_the_group_is_in_the_log_from_its_first_request_on(w: World) -> None:
    w.join()
    empty = GroupMetadata("", 0, None, None, w.now, ())
    assert w.log == [GroupMetadataRecord(GROUP, empty)]


def test_even_a_refused_first_join_makes_the_group(w: World) -> None:
    assert w.answers[w.join(protocols=())] == refused(E.inconsistent_group_protocol)
    assert w.answers[w.join(protocol_type="")] == refused(E.inconsistent_group_protocol)
    assert len(w.log) == 1
    assert w.group.stored is not None


def test_only_who_has_no_id_makes_a_group(w: World) -> None:
    assert w.answers[w.join("stranger")] == refused(E.unknown_member_id, "stranger")
    assert not w.log


def test_a_group_that_had_only_offsets_takes_members_without_a_record_of_its_birth(
    w: World,
) -> None:
    w.commit()
    assert GROUP not in w.coordinator.groups
    w.new_id()
    assert len(w.log) == 1
    assert w.answers[w.join("stranger")] == refused(E.unknown_member_id, "stranger")


def test_the_empty_group_id_is_none(w: World) -> None:
    assert w.answers[w.join("me", group_id="")] == refused(E.invalid_group_id, "me")


def test_all_learn_the_generation_and_only_the_leader_learns_of_the_others(w: World) -> None:
    a, b = w.enter(), w.enter(protocols=(("range", b"of b"), ("roundrobin", b"rr")))
    w.sleep(0)
    both = (JoinMember("client-1", None, b"r"), JoinMember("client-2", None, b"of b"))
    assert w.answers[a] == JoinResult(
        E.none, 1, "consumer", "range", "client-1", "client-1", both, False
    )
    assert w.answers[b] == JoinResult(
        E.none, 1, "consumer", "range", "client-1", "client-2", (), False
    )
    assert w.state is State.COMPLETING_REBALANCE


def test_most_votes_win_among_what_all_speak(w: World) -> None:
    w.enter(protocols=(("x", b""), ("range", b""), ("roundrobin", b"")))
    w.enter(protocols=(("roundrobin", b""), ("range", b"")))
    w.enter(protocols=(("roundrobin", b""), ("y", b""), ("range", b"")))
    w.sleep(0)
    assert w.group.protocol_name == "roundrobin"


def test_in_a_tie_the_leader_gets_what_it_prefers(w: World) -> None:
    w.enter(protocols=(("roundrobin", b""), ("range", b"")))
    w.enter(protocols=(("range", b""), ("roundrobin", b"")))
    w.sleep(0)
    assert w.group.protocol_name == "roundrobin"


def test_who_speaks_no_common_protocol_is_refused_and_the_group_unharmed(w: World) -> None:
    (leader,) = w.stable(None, protocols=BOTH)
    assert w.answers[w.join(protocols=(("x", b""),))] == refused(E.inconsistent_group_protocol)
    assert w.answers[w.join(protocol_type="connect")] == refused(E.inconsistent_group_protocol)
    again = w.join(leader, protocols=(("x", b""),))
    assert w.answers[again] == refused(E.inconsistent_group_protocol, leader)
    assert w.state is State.STABLE


def test_a_pending_id_must_not_come_with_an_instance_id(w: World) -> None:
    member_id = w.new_id()
    assert w.answers[w.join(member_id, instance="i")] == refused(E.unknown_server_error)


def test_a_pending_id_that_is_not_used_in_time_is_forgotten(w: World) -> None:
    member_id = w.new_id(session_ms=6_000)
    w.sleep(6_000)
    assert w.answers[w.join(member_id)] == refused(E.unknown_member_id, member_id)


def test_pending_ids_leave_a_stable_group_untouched(w: World) -> None:
    w.stable(None)
    w.new_id(session_ms=6_000)
    w.sleep(6_001)
    assert (w.state, w.group.generation) == (State.STABLE, 1)


def test_pending_ids_hold_up_a_later_round_until_they_join(w: World) -> None:
    (a,) = w.stable(None)
    pending = w.new_id()
    again = w.join(a)
    assert again not in w.answers
    late = w.join(pending)
    assert w.answers[again].generation_id == w.answers[late].generation_id == 2


def test_pending_ids_hold_up_a_later_round_until_they_expire(w: World) -> None:
    (a,) = w.stable(None)
    w.new_id(session_ms=6_000)
    again = w.join(a)
    w.sleep(5_999)
    assert again not in w.answers
    w.sleep(1)
    assert w.answers[again].generation_id == 2


def test_pending_ids_hold_up_a_later_round_until_they_leave(w: World) -> None:
    (a,) = w.stable(None)
    pending = w.new_id()
    again = w.join(a)
    assert w.leave(pending).members[0].error is E.none
    assert w.answers[again].generation_id == 2


# --- who is known and joins again


def test_a_follower_that_changed_nothing_hears_the_stable_generation_again(w: World) -> None:
    _, b = w.stable(None, None)
    before = dict(w.coordinator.deadlines)
    w.sleep(5)
    answer = w.answers[w.join(b)]
    assert answer == JoinResult(E.none, 1, "consumer", "range", "client-1", b, (), False)
    assert w.state is State.STABLE
    assert dict(w.coordinator.deadlines) == before, "no timer is touched"


def test_the_leader_of_a_stable_group_may_always_ask_for_a_round(w: World) -> None:
    a, b = w.stable(None, None)
    ticket = w.join(a)
    assert w.state is State.PREPARING_REBALANCE
    w.join(b)
    assert (w.answers[ticket].generation_id, w.answers[ticket].leader) == (2, a)


@pytest.mark.parametrize(
    "changed", [(("range", b"new"),), BOTH, ROUNDROBIN + RANGE], ids=["metadata", "more", "order"]
)
def test_a_follower_that_changed_its_protocols_starts_a_round(
    w: World, changed: tuple[tuple[str, bytes], ...]
) -> None:
    _, b = w.stable(None, None)
    assert w.join(b, protocols=changed) not in w.answers
    assert w.state is State.PREPARING_REBALANCE


def test_while_syncing_who_changed_nothing_hears_the_generation_again(w: World) -> None:
    first = [w.enter(), w.enter()]
    w.sleep(0)
    leader, follower = (w.answers[t].member_id for t in first)
    assert w.answers[w.join(leader)] == w.answers[first[0]]
    assert w.answers[w.join(follower)] == w.answers[first[1]]
    assert w.state is State.COMPLETING_REBALANCE


def test_while_syncing_a_changed_member_starts_a_round_and_parked_syncs_hear_of_it(
    w: World,
) -> None:
    first = [w.enter(), w.enter()]
    w.sleep(0)
    leader, follower = (w.answers[t].member_id for t in first)
    parked = w.sync(follower, 1)
    w.join(leader, protocols=(("range", b"new"),))
    assert w.answers[parked].error is E.rebalance_in_progress
    assert w.state is State.PREPARING_REBALANCE


def test_a_join_that_takes_the_place_of_a_parked_one_leaves_that_unanswered(w: World) -> None:
    a, b = w.stable(None, None)
    lost = w.join(a)
    kept = w.join(a)
    w.join(b)
    assert lost not in w.answers
    assert w.answers[kept].generation_id == 2


def test_nobody_is_known_in_an_empty_group(w: World) -> None:
    (a,) = w.stable(None)
    w.leave(a)
    assert w.state is State.EMPTY
    assert w.answers[w.join(a)] == refused(E.unknown_member_id, a)


# --- group.max.size


def test_a_full_group_takes_nobody_but_its_members() -> None:
    w = World(group_initial_rebalance_delay_ms=0, group_max_size=2)
    pending = w.new_id()
    w.stable(None, None)
    assert w.answers[w.join()] == refused(E.group_max_size_reached)
    assert w.answers[w.join(pending)] == refused(E.group_max_size_reached)
    assert w.answers[w.join(pending)] == refused(E.group_max_size_reached)
    assert not w.group.pending_joins
    assert w.state is State.STABLE


def test_ids_are_handed_out_without_limit_while_the_group_is_empty() -> None:
    w = World(group_initial_rebalance_delay_ms=0, group_max_size=10)
    ids = [w.new_id() for _ in range(11)]
    tickets = [w.join(member_id) for member_id in ids]
    w.sleep(0)
    errors = [w.answers[ticket].error for ticket in tickets]
    assert errors == [E.none] * 10 + [E.group_max_size_reached]
    again = [w.join(member_id, protocols=(("range", b"2"),)) for member_id in ids[:10]]
    assert all(w.answers[ticket].generation_id == 2 for ticket in again)


def test_an_overfull_group_loses_the_last_who_come_back() -> None:
    w = World(group_initial_rebalance_delay_ms=0)
    ids = w.stable(*[None] * 5)
    w.config = World(group_initial_rebalance_delay_ms=0, group_max_size=3).config
    w.restart()
    assert w.state is State.PREPARING_REBALANCE
    tickets = [w.join(member_id) for member_id in ids]
    w.sleep(60_000)
    errors = [w.answers[ticket].error for ticket in tickets]
    assert errors == [E.none] * 3 + [E.group_max_size_reached] * 2
    assert list(w.group.members) == ids[:3]


def test_what_a_member_did_not_say_it_speaks_cannot_be_asked_of_it(w: World) -> None:
    w.stable(None)
    (member,) = w.group.members.values()
    with pytest.raises(KeyError):
        member.metadata("roundrobin")
