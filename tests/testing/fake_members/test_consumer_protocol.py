"""Fake members of the consumer protocol (KIP-848), alone and with a real consumer."""

import re

import pytest
from kohort.testing import BarrierTimeout, FakeMemberRejected, Kafka
from support.wire import Client

from ..conftest import NewService


@pytest.fixture
def orders(kafka: Kafka) -> Kafka:
    kafka.topic("orders", partitions=4)
    return kafka


def test_members_share_the_partitions(orders: Kafka) -> None:
    first = orders.fake_member("billing", ["orders"], protocol="consumer")
    assert len(first.wait_owned(4)) == 4
    second = orders.fake_member("billing", ["orders"], protocol="consumer", assignor="range")
    assert sorted(first.wait_owned(2) + second.wait_owned(2)) == [("orders", i) for i in range(4)]
    group = orders.group("billing").wait_stable(members=2)
    assert first.generation == second.generation == group.generation
    assert first.commit("orders", first.owned[0][1], 3) is None
    first.leave()
    assert len(second.wait_owned(4)) == 4
    assert [each.cause for each in group.exits] == ["member left"]


def test_a_member_that_does_not_poll_is_slow_to_revoke(orders: Kafka) -> None:
    slow = orders.fake_member("billing", ["orders"], protocol="consumer", client_id="slow")
    slow.wait_owned(4)
    slow.stop_polling()
    quick = orders.fake_member("billing", ["orders"], protocol="consumer", client_id="quick")
    group = orders.group("billing")
    assert (len(slow.owned), quick.owned, group.state) == (4, [], "Reconciling")
    explanation = group.explain()
    names = [f"{each.client_id} (member id {each.member_id})" for each in (slow, quick)]
    assert f"Member {names[0]} is revoking orders-" in explanation
    limit = re.escape(f" {names[1]} and has to finish within ") + r"(300\.0|29\d\.\d) s\."
    assert re.search(limit, explanation)
    assert f"Member {names[1]} waits for orders-" in explanation
    assert f" of {names[0]}." in explanation
    with pytest.raises(BarrierTimeout, match="is revoking orders-"):
        group.wait_stable(members=2, timeout=0.01)
    slow.resume_polling()
    group.wait_stable(members=2)
    assert (len(slow.owned), len(quick.owned)) == (2, 2)


def test_a_member_that_never_revokes_is_removed(orders: Kafka) -> None:
    slow = orders.fake_member(
        "billing", ["orders"], protocol="consumer", rebalance_timeout_ms=60_000
    )
    slow.wait_owned(4)
    slow.stop_polling()
    quick = orders.fake_member("billing", ["orders"], protocol="consumer")
    orders.clock.advance(seconds=61)
    group = orders.group("billing")
    assert [each.cause for each in group.exits] == ["rebalance timeout"]
    # A member does not join again before it polls, so it has not learned that it was removed.
    assert (len(quick.owned), len(slow.owned), len(group.members)) == (4, 4, 1)
    slow.resume_polling()
    group.wait_stable(members=2)
    assert (len(quick.owned), len(slow.owned)) == (2, 2)
    assert slow.errors == [("ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID")]


def test_a_silent_member_is_a_zombie_after_its_session(orders: Kafka) -> None:
    silent = orders.fake_member("billing", ["orders"], protocol="consumer")
    other = orders.fake_member("billing", ["orders"], protocol="consumer")
    other.wait_owned(2)
    silent.suspend()
    orders.clock.advance(seconds=46)
    assert len(other.wait_owned(4)) == 4
    assert silent.commit("orders", 0, 1) == "UNKNOWN_MEMBER_ID"
    silent.resume()
    orders.group("billing").wait_stable(members=2)
    assert ("ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID") in silent.errors


def test_a_fenced_member_joins_again_with_its_id(orders: Kafka) -> None:
    member = orders.fake_member("billing", ["orders"], protocol="consumer", client_id="fenced")
    member.wait_owned(4)
    member_id = member.member_id
    orders.group("billing").fence("fenced")
    assert len(member.wait_owned(4)) == 4
    assert member.errors == [("ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH")]
    assert member.member_id == member_id


def test_a_fenced_member_is_explained_before_and_after_its_next_heartbeat(orders: Kafka) -> None:
    orders.clock.freeze()
    member = orders.fake_member("billing", ["orders"], protocol="consumer", client_id="app")
    member.wait_owned(4)
    member_id = member.member_id
    name = f"app (member id {member_id})"
    group = orders.group("billing")
    member.suspend()
    group.fence("app")
    assert (
        f"Member {name} is fenced: its next heartbeat gets FENCED_MEMBER_EPOCH, and it has to "
        "rejoin; without a heartbeat, its session expires in 45.0 s."
    ) in group.explain()
    assert "consumer protocol): epoch 2; is fenced; owns orders-0" in group.explain(verbose=True)
    fenced = f"billing: member fenced app (member id {member_id[:8]}) (requested by a test)"
    assert fenced in orders.report()
    with orders.faults.answer("ConsumerGroupHeartbeat", "UNKNOWN_SERVER_ERROR", generation=0):
        member.resume()
        orders.wait(lambda: "FENCED_MEMBER_EPOCH" in dict(map(reversed, member.errors)))
        assert (
            f"Member {name} is fenced: it got FENCED_MEMBER_EPOCH and has to rejoin; otherwise its "
            "partitions remain assigned to it until its session expires in "
        ) in group.explain()


def test_a_static_member_leaves_temporarily_and_returns(orders: Kafka) -> None:
    static = orders.fake_member("billing", ["orders"], protocol="consumer", instance_id="pod-1")
    other = orders.fake_member("billing", ["orders"], protocol="consumer")
    owned, epoch = static.wait_owned(2), static.generation
    static.close()
    group = orders.group("billing")
    assert (
        "Static member pod-1 has left temporarily. Its partitions are kept for " in group.explain()
    )
    assert "consumer protocol): has left temporarily; owns orders-" in group.explain(verbose=True)
    assert len(other.owned) == 2
    static.restart()
    assert static.wait_owned(2) == owned
    group.wait_stable(members=2)
    assert static.generation == epoch
    assert [each.cause for each in group.exits] == [
        "static member left temporarily",
        "static member replaced",
    ]


def test_a_second_member_with_the_same_instance_id_is_rejected(orders: Kafka) -> None:
    orders.fake_member("billing", ["orders"], protocol="consumer", instance_id="pod-1")
    with pytest.raises(FakeMemberRejected, match="UNRELEASED_INSTANCE_ID"):
        orders.fake_member("billing", ["orders"], protocol="consumer", instance_id="pod-1")


def test_a_subscription_can_change(orders: Kafka) -> None:
    orders.topic("payments", partitions=1)
    member = orders.fake_member("billing", ["orders"], protocol="consumer")
    member.wait_owned(4)
    member.subscribe(["payments"])
    assert member.wait_owned([("payments", 0)]) == [("payments", 0)]
    assert orders.group("billing").generations[-1].cause == "subscription changed"


def test_a_fenced_member_sends_its_new_subscription_when_it_polls(orders: Kafka) -> None:
    orders.topic("payments", partitions=1)
    member = orders.fake_member("billing", ["orders"], protocol="consumer")
    member.wait_owned(4)
    member.stop_polling()
    orders.group("billing").fence(member.client_id)
    member.subscribe(["payments"])
    assert len(member.owned) == 4
    member.resume_polling()
    assert member.wait_owned(1) == [("payments", 0)]


def test_a_subscription_that_changes_while_a_heartbeat_fails_is_sent(orders: Kafka) -> None:
    orders.topic("payments", partitions=1)
    member = orders.fake_member("billing", ["orders"], protocol="consumer")
    member.wait_owned(4)
    with orders.group("billing").hold_heartbeats() as held:
        orders.clock.advance(seconds=16)
        held.wait()
        member.subscribe(["payments"])
        orders.crash()
    assert member.wait_owned([("payments", 0)]) == [("payments", 0)]


def test_members_react_to_changed_topics(orders: Kafka) -> None:
    member = orders.fake_member("billing", ["orders", "payments"], protocol="consumer")
    member.wait_owned(4)
    orders.topic("orders").add_partitions(5)
    assert len(member.owned) == 5
    orders.topic("payments", partitions=1)
    assert len(member.owned) == 6
    with Client(orders.bootstrap_servers) as admin:
        admin.call("DeleteTopics", 5, topic_names=["orders"], timeout=60_000)
    assert member.wait_owned(1) == [("payments", 0)]
    orders.topic("payments").delete()
    assert member.owned == []


def test_contradictory_arguments_are_errors(orders: Kafka) -> None:
    with pytest.raises(ValueError, match="name of a server assignor"):
        orders.fake_member("billing", ["orders"], protocol="consumer", assignor=["range"])
    with pytest.raises(ValueError, match="timeout is that of the group: set"):
        orders.fake_member("billing", ["orders"], protocol="consumer", session_timeout_ms=10_000)
    with pytest.raises(FakeMemberRejected, match="ServerAssignor sticky is not supported"):
        orders.fake_member("billing", ["orders"], protocol="consumer", assignor="sticky")
    with pytest.raises(ValueError, match="Connect workers use the classic protocol"):
        orders.fake_member("c", protocol="consumer", protocol_type="connect", connectors={"c": 1})
    with pytest.raises(ValueError, match="protocol must be classic or consumer"):
        orders.fake_member("billing", ["orders"], protocol="streams")  # type: ignore[arg-type]


@pytest.mark.clients
def test_a_real_consumer_waits_for_a_slow_fake_member(
    kafka: Kafka, new_service: NewService
) -> None:
    slow = kafka.fake_member("billing", ["orders"], protocol="consumer")
    slow.wait_owned(2)
    slow.stop_polling()
    group = kafka.group("billing")
    service = new_service("service", group_protocol="consumer")
    kafka.wait_request("ConsumerGroupHeartbeat", client_id="service", count=3)
    assert service.assigned == []
    assert "is revoking orders-" in group.explain()
    slow.resume_polling()
    group.wait_stable(members=2)
    kafka.wait(lambda: len(service.assigned) == 1)
    classic = kafka.fake_member("billing", ["orders"])
    group.wait_stable(members=3)
    assert {each.protocol for each in group.members} == {"classic", "consumer"}
    assert len(classic.owned) + len(slow.owned) <= 2
