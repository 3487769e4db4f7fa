"""How much work a round is: ten times the members, ten times the work. Calls are counted, since
time would depend on the machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from kohort.protocol.errors import ErrorCode
from support.coordinator import World


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


def round_of(size: int) -> tuple[int, int]:
    """The calls for the first round of `size` members and for the one after it."""
    w = World(group_initial_rebalance_delay_ms=0)
    w.is_checking = False
    ids: list[str] = []

    def first() -> None:
        tickets = [w.join(version=3) for _ in range(size)]
        w.sleep(0)
        ids.extend(w.answers[ticket].member_id for ticket in tickets)
        w.sync_all(ids, 1)

    def second() -> None:
        tickets = [w.join(member_id) for member_id in ids]
        assert w.answers[tickets[-1]].error is ErrorCode.none
        w.sync_all(ids, 2)

    return calls(first), calls(second)


def test_the_work_of_a_round_grows_with_its_members_and_no_faster() -> None:
    small, large = round_of(50), round_of(500)
    assert large[0] <= 10.5 * small[0]
    assert large[1] <= 10.5 * small[1]


def test_the_leader_is_told_of_everybody_once() -> None:
    w = World(group_initial_rebalance_delay_ms=0)
    ids = w.stable(*[None] * 30)
    tickets = [w.join(member_id) for member_id in ids]
    members = [len(w.answers[ticket].members) for ticket in tickets]
    assert sorted(members) == [0] * 29 + [30]
