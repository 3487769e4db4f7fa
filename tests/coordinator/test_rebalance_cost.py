"""The number of function calls in a rebalance is linear in the number of members, and the broker
does not read the subscriptions of all members when another one joins."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from kohort.protocol.errors import ErrorCode
from support.coordinator import CoordinatorHarness


def calls(work: Callable[[], None]) -> int:
    count = 0

    def profile(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def rebalance_calls(size: int) -> tuple[int, int]:
    """Count the calls in the first rebalance of `size` members and in the next one."""
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=0)
    harness.is_checking = False
    ids: list[str] = []

    def first() -> None:
        tickets = [harness.join(version=3) for _ in range(size)]
        harness.advance(0)
        ids.extend(harness.results[ticket].member_id for ticket in tickets)
        harness.sync_all(ids, 1)

    def second() -> None:
        tickets = [harness.join(member_id) for member_id in ids]
        assert harness.results[tickets[-1]].error_code is ErrorCode.none
        harness.sync_all(ids, 2)

    return calls(first), calls(second)


def test_the_cost_of_a_rebalance_is_linear_in_its_members() -> None:
    small, large = rebalance_calls(50), rebalance_calls(500)
    assert large[0] <= 10.5 * small[0]
    assert large[1] <= 10.5 * small[1]


def test_only_the_leader_receives_all_members() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=0)
    ids = harness.stable_group(*[None] * 30)
    tickets = [harness.join(member_id) for member_id in ids]
    members = [len(harness.results[ticket].members) for ticket in tickets]
    assert sorted(members) == [0] * 29 + [30]


class Name(str):
    """A topic name that counts how often it is hashed or compared."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        Name.looks += 1
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        Name.looks += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("has_own", [False, True], ids=["same", "different"])
def test_the_cost_of_a_join_depends_only_on_its_own_subscription(*, has_own: bool) -> None:
    """Otherwise, with 1,000 members that subscribe to 10,000 names each, every heartbeat that
    changes the group would stop the broker for seconds."""
    harness, names = CoordinatorHarness(), [f"topic-{number}" for number in range(100)]
    harness.is_checking = False
    looks: list[int] = []
    for number in range(200):
        before = Name.looks
        own = f"own-{number}" if has_own else "shared"
        harness.consumer_join(f"member-{number}", topics=[Name(each) for each in (*names, own)])
        looks.append(Name.looks - before)
    assert looks[-1] <= 1.2 * looks[9]
