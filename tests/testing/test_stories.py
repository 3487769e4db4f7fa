"""What a story says of what repeats, of what the test holds, and of what its faults have cost."""

from collections.abc import Callable

import pytest
from kohort.testing import BarrierTimeout, Kafka
from kohort.testing.folding import folded
from kohort.testing.story import LAST_REQUESTS

from .conftest import Service
from .raw import Raw

pytestmark = pytest.mark.clients

NewService = Callable[..., Service]


def test_what_repeats_is_one_line_as_long_as_nothing_else_comes_between() -> None:
    said = ["Heartbeat a", "Heartbeat b", "Heartbeat a", "Fetch a", "Heartbeat a", "  =", "  ="]
    lines = folded(enumerate(said))
    assert [str(each) for each in lines] == [
        "Heartbeat a × 2",
        "Heartbeat b",
        "Fetch a",
        "Heartbeat a",
        "  = × 2",
    ]
    assert (lines[0].first, lines[0].last) == (0, 2)


def test_heartbeats_do_not_push_out_of_a_story_what_is_not_answered(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    puppet = kafka.puppet("billing", topics=["orders"])
    group.wait_stable(members=1)
    with group.hold_joins() as held, Raw(kafka, "late") as late, Raw(kafka) as raw:
        late.send_join("billing", "late")
        held.wait()
        kafka.clock.advance(minutes=5)
        for offset in range(LAST_REQUESTS):
            puppet.commit("orders", 0, offset)
            raw.ask("OffsetFetch", 5, group_id="billing", topics=None)
        story = group.story()
        assert "The test holds 1 × JoinGroup of it." in story
        assert "from late: held by the test" in story
        with pytest.raises(BarrierTimeout, match=r"1 came.*\n.*The test holds 1 × JoinGroup"):
            held.wait(count=2, timeout=0.01)


def test_heartbeats_of_minutes_are_one_line_of_each_member(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    with group.hold_joins():  # one round, so that no heartbeat is told of another
        for name in ("one", "other"):
            kafka.puppet("billing", topics=["orders"], client_id=name)
    group.wait_stable(members=2)
    kafka.clock.freeze()
    kafka.clock.advance(minutes=5)
    lines = [line for line in group.story().splitlines() if "Heartbeat" in line]
    assert len(lines) == 2
    assert all(" × " in line and ", the last -" in line for line in lines)


@pytest.mark.parametrize("api", ["OffsetCommit", "Heartbeat"])
def test_a_member_that_a_fault_has_driven_off_is_named_with_the_way_out(
    kafka: Kafka, service: Service, api: str
) -> None:
    """The client takes another id, and the broker knows nothing of that: the group would wait for
    the old one's session to end."""
    group = kafka.group("billing").wait_stable(members=1)
    first = group.members[0].member_id
    fault = kafka.faults.answer(api, error="UNKNOWN_MEMBER_ID")
    kafka.topic("orders").produce(["something to commit"])
    fault.wait()
    said = (
        f"{first} was told UNKNOWN_MEMBER_ID by a fault of this test and is not coming back under "
        f'that id: group.expire("{first}") or clock.advance(…) ends its session.'
    )
    kafka.wait(lambda: said in group.explain(), f"the story to say: {said}")
    assert said in group.story()
    group.expire(first)
    group.wait_stable(members=1)
    assert "not coming back" not in group.story()


def test_who_goes_on_under_its_id_after_such_a_fault_is_no_ghost(
    kafka: Kafka, service: Service
) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    member_id = group.members[0].member_id
    fault = kafka.faults.answer("Heartbeat", error="ILLEGAL_GENERATION").wait()
    group.wait_generation(2).wait_stable(members=1)
    assert fault.fired[0].member_id == member_id == group.members[0].member_id
    assert "not coming back" not in group.story()


def test_a_client_that_stays_is_not_taken_for_another_that_comes(
    kafka: Kafka, new_service: NewService
) -> None:
    new_service("first")
    group = kafka.group("billing").wait_stable(members=1)
    fault = kafka.faults.answer("Heartbeat", error="ILLEGAL_GENERATION").wait()
    assert fault.fired[0].client_id == "first"
    new_service("second")
    group.wait_stable(members=2)
    assert "not coming back" not in group.story()


def test_a_round_that_waits_for_nobody_says_why() -> None:
    with Kafka(config={"group.max.size": 2}) as kafka:
        kafka.topic("orders", partitions=1)
        group = kafka.group("billing")
        with group.hold_joins():
            _, late = (kafka.puppet("billing", topics=["orders"]) for _ in range(2))
        group.wait_stable(members=2)
        late.slow()
        group.rebalance()
        kafka.puppet("billing", topics=["orders"])  # takes the place of the one that is slow
        late.quick()
        assert late.errors[-1].error == "GROUP_MAX_SIZE_REACHED"
        assert "all 2 members that are left have rejoined" in group.explain()
