"""What a fake member does by default, and each deviation from that."""

from typing import Any

import pytest
from kohort.assignors.resolve import AssignorNotFound
from kohort.testing import BarrierTimeout, Kafka


def test_fake_members_share_a_topic(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=5)
    first = kafka.fake_member("billing", topics=["orders"])
    second = kafka.fake_member("billing", topics=["orders"])
    kafka.group("billing").wait_stable(members=2)
    assert sorted(len(each.owned) for each in (first, second)) == [2, 3]
    owned = sorted(first.owned + second.owned)
    assert owned == [("orders", index) for index in range(5)]
    member = kafka.group("billing").owner(*first.owned[0])
    assert member is not None
    assert (member.member_id, member.client_id) == (first.member_id, "fake-member-1")


def test_a_suspended_fake_member_loses_its_session(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.topic("orders", partitions=2)
    alive = kafka.fake_member("billing", topics=["orders"], client_id="alive")
    suspended = kafka.fake_member("billing", topics=["orders"], client_id="suspended")
    group = kafka.group("billing").wait_stable(members=2)
    kafka.clock.advance(minutes=5)
    assert [g.cause for g in group.generations][-1] == "member joined"
    suspended.suspend()
    before = suspended.owned
    kafka.clock.advance(seconds=30)  # its last heartbeat was up to 15 s ago
    assert len(group.members) == 2
    kafka.clock.advance(minutes=5)
    assert [m.client_id for m in group.members] == ["alive"]
    assert group.generations[-1].cause == "session expired"
    assert alive.owned == [("orders", 0), ("orders", 1)]
    assert suspended.owned == before != []


def test_a_zombie_gets_errors_for_commits_and_heartbeats(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    zombie = kafka.fake_member("billing", topics=["orders"], client_id="zombie")
    other = kafka.fake_member("billing", topics=["orders"], client_id="other")
    group = kafka.group("billing").wait_stable(members=2)
    (topic, partition), *_ = zombie.wait_owned(1)
    assert zombie.commit(topic, partition, 5) is None
    old_id, old_generation = zombie.member_id, zombie.generation
    zombie.suspend()
    kafka.clock.advance(minutes=1)
    other.wait_owned(2)
    assert other.commit(topic, partition, 7) is None
    assert zombie.commit(topic, partition, 6) == "UNKNOWN_MEMBER_ID"
    assert other.commit(topic, partition, 6, generation=old_generation) == "ILLEGAL_GENERATION"
    assert group.committed(topic, partition) == 7
    zombie.resume()
    group.wait_stable(members=2)
    assert zombie.member_id != old_id
    assert [tuple(each) for each in zombie.errors][-2:] == [
        ("OffsetCommit", "UNKNOWN_MEMBER_ID"),
        ("Heartbeat", "UNKNOWN_MEMBER_ID"),
    ]
    assert ("OffsetCommit", "ILLEGAL_GENERATION") in other.errors


def test_a_fake_member_that_does_not_poll_is_explained(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.topic("orders", partitions=2)
    slow = kafka.fake_member("billing", topics=["orders"], client_id="slow")
    slow.wait_owned(2)
    slow.stop_polling()
    quick = kafka.fake_member("billing", topics=["orders"], client_id="quick")
    group = kafka.group("billing")
    assert quick.owned == []
    assert ("Heartbeat", "REBALANCE_IN_PROGRESS") in slow.errors
    assert f"It waits for {slow.member_id}, at most 300.0 s" in group.explain()
    with pytest.raises(BarrierTimeout, match=f"It waits for {slow.member_id}"):
        quick.wait_owned(timeout=0.01)
    kafka.clock.advance(minutes=2)
    assert (group.state, slow.owned) == ("PreparingRebalance", [("orders", 0), ("orders", 1)])
    slow.resume_polling()
    quick.wait_owned(1)
    assert len(slow.wait_owned(1)) == 1


def test_a_fake_member_that_does_not_poll_is_removed(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    slow = kafka.fake_member("billing", topics=["orders"], rebalance_timeout_ms=60_000)
    slow.wait_owned(2)
    slow.stop_polling()
    quick = kafka.fake_member("billing", topics=["orders"])
    kafka.clock.advance(minutes=5)
    quick.wait_owned(2)
    assert slow.owned == quick.owned  # it does not know that yet
    assert "rebalance timeout" in [e.event.cause for e in kafka.history.events]
    slow.resume_polling()
    assert len(slow.wait_owned(1)) == 1


def test_a_fake_member_that_does_not_poll_sleeps_after_a_lost_connection(kafka: Kafka) -> None:
    kafka.clock.freeze()
    slow = kafka.fake_member("billing", client_id="slow")
    slow.stop_polling()
    kafka.fake_member("billing", client_id="quick")
    kafka.faults.drop("Heartbeat", client_id="slow")
    before = len(slow.errors)
    kafka.clock.advance(seconds=15)  # one heartbeat
    # It retries immediately, and once more because the lost connection has woken it.
    retries = [("Heartbeat", "REBALANCE_IN_PROGRESS")] * 2
    assert slow.errors[before:] == [("Heartbeat", "NETWORK_EXCEPTION"), *retries]


@pytest.mark.parametrize("how", ["leave", "close", "kill"])
def test_leave_is_immediate_and_kill_waits_for_the_session(kafka: Kafka, how: str) -> None:
    kafka.topic("orders", partitions=2)
    going = kafka.fake_member("billing", topics=["orders"], client_id="going")
    staying = kafka.fake_member("billing", topics=["orders"], client_id="staying")
    group = kafka.group("billing").wait_stable(members=2)
    getattr(going, how)()
    assert going.owned == []
    with pytest.raises(RuntimeError, match="fake member going of group billing has left or was"):
        going.commit("orders", 0, 1)
    if how == "kill":
        assert len(group.members) == 2
        kafka.clock.advance(minutes=1)
    staying.wait_owned(2)
    assert group.generations[-1].cause == ("session expired" if how == "kill" else "member left")
    going.restart()
    going.wait_owned(1)
    assert len(group.members) == 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_suspended_fake_member_leaves_when_it_is_closed(kafka: Kafka, protocol: Any) -> None:
    kafka.topic("orders", partitions=1)
    member = kafka.fake_member("billing", ["orders"], protocol=protocol)
    member.suspend()
    member.close()
    assert kafka.group("billing").members == []


def test_leave_sends_a_reason(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned(1)
    fake.leave("we are moving")
    (left,) = (e.event for e in kafka.history.events if e.event.type == "leave_received")
    assert left.reason == "we are moving"


def test_a_static_fake_member_restarts_without_a_rebalance(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    leader = kafka.fake_member("billing", topics=["orders"], instance_id="one")
    other = kafka.fake_member("billing", topics=["orders"], instance_id="two")
    group = kafka.group("billing").wait_stable(members=2)
    for fake in (leader, other):
        owned, generation, member_id = fake.wait_owned(1), fake.generation, fake.member_id
        fake.close()
        assert len(group.members) == 2
        fake.restart()
        assert fake.wait_owned(1) == owned
        assert fake.generation == generation == group.generation
        assert fake.member_id != member_id
        assert fake.errors == [] or {e.error for e in fake.errors} == {"REBALANCE_IN_PROGRESS"}


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_a_restarted_fake_member_claims_no_partitions(kafka: Kafka, assignor: str) -> None:
    kafka.topic("orders", partitions=2)
    fake = kafka.fake_member("billing", ["orders"], assignor=assignor)
    fake.wait_owned(2)
    fake.restart()
    first, *_, last = kafka.history.requests_of("JoinGroup")
    assert last.message.protocols == first.message.protocols


def test_the_older_of_two_static_members_is_fenced(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    older = kafka.fake_member("billing", topics=["orders"], instance_id="one")
    older.wait_owned(1)
    newer = kafka.fake_member("billing", topics=["orders"], instance_id="one")
    newer.wait_owned(1)
    assert older.errors[-1] == ("Heartbeat", "FENCED_INSTANCE_ID")
    assert older.owned == []
    with pytest.raises(Exception, match="FENCED_INSTANCE_ID"):
        older.wait_owned(1)


def test_cooperative_fake_members_revoke_before_they_assign(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=4)
    first = kafka.fake_member("billing", topics=["orders"], assignor="cooperative-sticky")
    first.wait_owned(4)
    second = kafka.fake_member("billing", topics=["orders"], assignor="cooperative-sticky")
    second.wait_owned(2)
    assert len(first.owned) == 2
    generations = kafka.group("billing").generations
    assert [g.cause for g in generations] == [
        "member joined",
        "member joined",
        "cooperative follow-up",
    ]
    assert "need to revoke partitions and re-join" in generations[2].reason


@pytest.mark.parametrize(
    ("protocol", "api", "error"),
    [
        ("classic", "SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("classic", "JoinGroup", "UNKNOWN_MEMBER_ID"),
        ("consumer", "ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH"),
    ],
)
def test_fake_members_pause_between_rejoins_that_always_fail(
    kafka: Kafka, protocol: Any, api: str, error: str
) -> None:
    kafka.topic("orders", partitions=2)
    first = kafka.fake_member("billing", ["orders"], protocol=protocol)
    fault = kafka.faults.answer(api, error, times=None)
    second = kafka.fake_member("billing", ["orders"], protocol=protocol)
    assert (second.owned, second.errors[-1]) == ([], (api, error))
    assert len(kafka.history.requests) < 1000
    fault.cancel()
    kafka.group("billing").rebalance()
    kafka.wait(lambda: len(first.owned) == len(second.owned) == 1)


def test_a_common_assignor_is_chosen_by_vote(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    kafka.fake_member("billing", topics=["orders"], assignor=["roundrobin", "range"])
    kafka.fake_member("billing", topics=["orders"], assignor=["range"])
    kafka.group("billing").wait_stable(members=2)
    assert kafka.group("billing").generations[-1].protocol == "range"


def test_the_exception_of_an_assignor_is_raised_by_the_wait(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    fake = kafka.fake_member("billing", topics=["orders"], assignor=f"{__name__}:Raising")
    with pytest.raises(ZeroDivisionError):
        fake.wait_owned()


class Raising:
    name = "raising"
    cooperative = False

    def subscription_user_data(self, *_: object) -> None:
        return None

    def assign(self, *_: object) -> None:
        raise ZeroDivisionError


def test_a_new_subscription_rebalances_the_group(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.topic("bills", partitions=2)
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned([("orders", 0)])
    fake.subscribe(["bills"])
    fake.wait_owned([("bills", 0), ("bills", 1)])
    assert kafka.group("billing").generations[-1].cause == "subscription changed"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topics": "orders"}, TypeError),
        ({"assignor": "rang"}, AssignorNotFound),
        ({"protocol_type": "connect"}, ValueError),
        ({"connectors": {"sink": 1}}, ValueError),
        ({"protocol_type": "streams"}, ValueError),
        ({"rebalance_timeout_ms": 0}, ValueError),
    ],
)
def test_inconsistent_arguments_are_rejected(
    kafka: Kafka, arguments: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        kafka.fake_member("billing", **{"topics": [], **arguments})  # type: ignore[arg-type]


def test_a_connect_worker_has_no_subscription(kafka: Kafka) -> None:
    worker = kafka.fake_member("connect-cluster", protocol_type="connect", connectors={"sink": 1})
    with pytest.raises(TypeError):
        worker.subscribe(["orders"])


def test_evict_disconnected_applies_to_fake_members() -> None:
    with Kafka(evict_disconnected=True) as kafka:
        kafka.topic("orders", partitions=2)
        killed = kafka.fake_member("billing", topics=["orders"])
        other = kafka.fake_member("billing", topics=["orders"])
        kafka.group("billing").wait_stable(members=2)
        killed.kill()
        other.wait_owned(2)
