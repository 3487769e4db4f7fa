"""Explanations: repeated requests, held requests, members abandoned because of faults."""

from collections.abc import Callable

import pytest
from kohort.testing import BarrierTimeout, Kafka
from kohort.testing.group_view import LAST_REQUESTS
from kohort.testing.timeline import deduplicate

from .conftest import Service
from .raw_client import RawClient

pytestmark = pytest.mark.clients

NewService = Callable[..., Service]


def test_equal_lines_of_one_api_are_merged() -> None:
    texts = ["Heartbeat a", "Heartbeat b", "Heartbeat a", "Fetch a", "Heartbeat a", "  =", "  ="]
    lines = deduplicate(enumerate(texts))
    assert [str(each) for each in lines] == [
        "Heartbeat a × 2",
        "Heartbeat b",
        "Fetch a",
        "Heartbeat a",
        "  = × 2",
    ]
    assert (lines[0].first, lines[0].last) == (0, 2)


def test_an_explanation_keeps_requests_without_a_response(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    fake = kafka.fake_member("billing", topics=["orders"])
    group.wait_stable(members=1)
    with group.hold_joins() as held, RawClient(kafka, "late") as late, RawClient(kafka) as raw:
        late.send_join("billing", "late")
        held.wait()
        kafka.clock.advance(minutes=5)
        for offset in range(LAST_REQUESTS):
            fake.commit("orders", 0, offset)
            raw.call("OffsetFetch", 5, group_id="billing", topics=None)
        explanation = group.explain(verbose=True)
        assert "The test holds 1 × JoinGroup of it." in explanation
        assert "from late: held by the test" in explanation
        with pytest.raises(BarrierTimeout, match=r"1 arrived\n.*The test holds 1 × JoinGroup"):
            held.wait(count=2, timeout=0.01)


def test_heartbeats_are_one_line_per_member(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    with group.hold_joins():  # one rebalance, so that no heartbeat reports another
        for name in ("one", "other"):
            kafka.fake_member("billing", topics=["orders"], client_id=name)
    group.wait_stable(members=2)
    kafka.clock.freeze()
    kafka.clock.advance(minutes=5)
    lines = [line for line in group.explain(verbose=True).splitlines() if "Heartbeat" in line]
    assert len(lines) == 2
    assert all(" × " in line and ", the last one -" in line for line in lines)


@pytest.mark.parametrize("api", ["OffsetCommit", "Heartbeat"])
def test_a_member_abandoned_because_of_a_fault_is_named(
    kafka: Kafka, service: Service, api: str
) -> None:
    """Its client rejoins with another id. The coordinator does not know that: it waits for the old
    one until its session expires."""
    group = kafka.group("billing").wait_stable(members=1)
    first = group.members[0].member_id
    fault = kafka.faults.answer(api, error="UNKNOWN_MEMBER_ID")
    kafka.topic("orders").produce(["something to commit"])
    fault.wait()
    sentence = (
        f"A fault of this test answered {first} with UNKNOWN_MEMBER_ID, and its client has "
        f'rejoined with another member id: group.expire("{first}") or clock.advance(…) ends the '
        "session of the old one."
    )
    kafka.wait(lambda: sentence in group.explain(), f"an explanation with: {sentence}")
    assert sentence in group.explain(verbose=True)
    group.expire(first)
    group.wait_stable(members=1)
    assert "A fault of this test" not in group.explain(verbose=True)


def test_a_member_that_keeps_its_id_after_a_fault_is_not_abandoned(
    kafka: Kafka, service: Service
) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    member_id = group.members[0].member_id
    fault = kafka.faults.answer("Heartbeat", error="ILLEGAL_GENERATION").wait()
    group.wait_generation(2).wait_stable(members=1)
    assert fault.fired[0].member_id == member_id == group.members[0].member_id
    assert "A fault of this test" not in group.explain(verbose=True)


def test_a_new_client_does_not_make_another_abandoned(
    kafka: Kafka, new_service: NewService
) -> None:
    new_service("first")
    group = kafka.group("billing").wait_stable(members=1)
    fault = kafka.faults.answer("Heartbeat", error="ILLEGAL_GENERATION").wait()
    assert fault.fired[0].client_id == "first"
    new_service("second")
    group.wait_stable(members=2)
    assert "A fault of this test" not in group.explain(verbose=True)


def test_a_rebalance_without_missing_members_is_explained() -> None:
    with Kafka(config={"group.max.size": 2}) as kafka:
        kafka.topic("orders", partitions=1)
        group = kafka.group("billing")
        with group.hold_joins():
            _, late = (kafka.fake_member("billing", topics=["orders"]) for _ in range(2))
        group.wait_stable(members=2)
        late.stop_polling()
        group.rebalance()
        kafka.fake_member("billing", topics=["orders"])  # takes the place of `late`
        late.resume_polling()
        assert late.errors[-1].error == "GROUP_MAX_SIZE_REACHED"
        assert "all 2 members have rejoined" in group.explain()
