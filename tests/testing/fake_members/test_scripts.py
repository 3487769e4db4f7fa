"""What a puppet does by itself, and each deviation from it: no client, no socket, no wall time."""

import pytest
from kohort.assignors.resolve import AssignorNotFound
from kohort.testing import BarrierTimeout, Kafka
from kohort.testing.aio import AsyncKafka


def test_puppets_share_out_a_topic(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=5)
    first = kafka.puppet("billing", topics=["orders"])
    second = kafka.puppet("billing", topics=["orders"])
    kafka.group("billing").wait_stable(members=2)
    assert sorted(len(each.owned) for each in (first, second)) == [2, 3]
    owned = sorted(first.owned + second.owned)
    assert owned == [("orders", index) for index in range(5)]
    member = kafka.group("billing").owner(*first.owned[0])
    assert member is not None
    assert (member.member_id, member.client_id) == (first.member_id, "puppet-1")


def test_a_living_puppet_outlives_any_time_and_a_silent_one_its_session(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.topic("orders", partitions=2)
    alive = kafka.puppet("billing", topics=["orders"], client_id="alive")
    silent = kafka.puppet("billing", topics=["orders"], client_id="silent")
    group = kafka.group("billing").wait_stable(members=2)
    kafka.clock.advance(minutes=5)
    assert [g.cause for g in group.generations][-1] == "member joined"
    silent.silence()
    believed = silent.owned
    kafka.clock.advance(seconds=30)  # its last heartbeat was up to 15 s ago
    assert len(group.members) == 2
    kafka.clock.advance(minutes=5)
    assert [m.client_id for m in group.members] == ["alive"]
    assert group.generations[-1].cause == "session expired"
    assert alive.owned == [("orders", 0), ("orders", 1)]
    assert silent.owned == believed != []


def test_a_zombie_is_told_so_by_its_commits_and_heartbeats(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    zombie = kafka.puppet("billing", topics=["orders"], client_id="zombie")
    other = kafka.puppet("billing", topics=["orders"], client_id="other")
    group = kafka.group("billing").wait_stable(members=2)
    (topic, partition), *_ = zombie.wait_owned(1)
    assert zombie.commit(topic, partition, 5) is None
    old_id, old_generation = zombie.member_id, zombie.generation
    zombie.silence()
    kafka.clock.advance(minutes=1)
    other.wait_owned(2)
    assert other.commit(topic, partition, 7) is None
    assert zombie.commit(topic, partition, 6) == "UNKNOWN_MEMBER_ID"
    assert other.commit(topic, partition, 6, generation=old_generation) == "ILLEGAL_GENERATION"
    assert group.committed(topic, partition) == 7
    zombie.speak()
    group.wait_stable(members=2)
    assert zombie.member_id != old_id
    assert [tuple(each) for each in zombie.errors][-2:] == [
        ("OffsetCommit", "UNKNOWN_MEMBER_ID"),
        ("Heartbeat", "UNKNOWN_MEMBER_ID"),
    ]
    assert ("OffsetCommit", "ILLEGAL_GENERATION") in other.errors


def test_a_slow_puppet_holds_the_round_open_and_the_story_names_it(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.topic("orders", partitions=2)
    slow = kafka.puppet("billing", topics=["orders"], client_id="slow")
    slow.wait_owned(2)
    slow.slow()
    quick = kafka.puppet("billing", topics=["orders"], client_id="quick")
    group = kafka.group("billing")
    assert quick.owned == []
    assert ("Heartbeat", "REBALANCE_IN_PROGRESS") in slow.errors
    assert f"it waits for {slow.member_id}, 300.0 s more" in group.explain()
    with pytest.raises(BarrierTimeout, match=f"it waits for {slow.member_id}"):
        quick.wait_owned(timeout=0.01)
    kafka.clock.advance(minutes=2)
    assert (group.state, slow.owned) == ("PreparingRebalance", [("orders", 0), ("orders", 1)])
    slow.quick()
    quick.wait_owned(1)
    assert len(slow.wait_owned(1)) == 1


def test_a_puppet_that_is_slow_for_too_long_loses_its_place(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    slow = kafka.puppet("billing", topics=["orders"], rebalance_timeout_ms=60_000)
    slow.wait_owned(2)
    slow.slow()
    quick = kafka.puppet("billing", topics=["orders"])
    kafka.clock.advance(minutes=5)
    quick.wait_owned(2)
    assert slow.owned == quick.owned  # it does not know better yet
    assert "rebalance timeout" in [e.event.cause for e in kafka.history.events]
    slow.quick()
    assert len(slow.wait_owned(1)) == 1


@pytest.mark.parametrize("how", ["leave", "close", "die"])
def test_who_leaves_is_gone_at_once_and_who_dies_when_its_session_ends(
    kafka: Kafka, how: str
) -> None:
    kafka.topic("orders", partitions=2)
    going = kafka.puppet("billing", topics=["orders"], client_id="going")
    staying = kafka.puppet("billing", topics=["orders"], client_id="staying")
    group = kafka.group("billing").wait_stable(members=2)
    getattr(going, how)()
    assert going.owned == []
    with pytest.raises(RuntimeError, match="puppet going of billing is gone"):
        going.commit("orders", 0, 1)
    if how == "die":
        assert len(group.members) == 2
        kafka.clock.advance(minutes=1)
    staying.wait_owned(2)
    assert group.generations[-1].cause == ("session expired" if how == "die" else "member left")
    going.come_back()
    going.wait_owned(1)
    assert len(group.members) == 2


def test_who_leaves_says_why(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    puppet = kafka.puppet("billing", topics=["orders"])
    puppet.wait_owned(1)
    puppet.leave("we are moving")
    (left,) = (e.event for e in kafka.history.events if e.event.type == "leave_received")
    assert left.reason == "we are moving"


def test_a_static_puppet_restarts_without_a_rebalance(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    leader = kafka.puppet("billing", topics=["orders"], instance_id="one")
    other = kafka.puppet("billing", topics=["orders"], instance_id="two")
    group = kafka.group("billing").wait_stable(members=2)
    for puppet in (leader, other):
        owned, generation, member_id = puppet.wait_owned(1), puppet.generation, puppet.member_id
        puppet.close()
        assert len(group.members) == 2
        puppet.come_back()
        assert puppet.wait_owned(1) == owned
        assert puppet.generation == generation == group.generation
        assert puppet.member_id != member_id
        assert puppet.errors == [] or {e.error for e in puppet.errors} == {"REBALANCE_IN_PROGRESS"}


def test_the_older_of_two_with_one_instance_id_is_fenced(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    older = kafka.puppet("billing", topics=["orders"], instance_id="one")
    older.wait_owned(1)
    newer = kafka.puppet("billing", topics=["orders"], instance_id="one")
    newer.wait_owned(1)
    assert older.errors[-1] == ("Heartbeat", "FENCED_INSTANCE_ID")
    assert older.owned == []
    with pytest.raises(Exception, match="FENCED_INSTANCE_ID"):
        older.wait_owned(1)


def test_cooperative_puppets_give_back_in_one_round_and_get_in_the_next(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=4)
    first = kafka.puppet("billing", topics=["orders"], assignor="cooperative-sticky")
    first.wait_owned(4)
    second = kafka.puppet("billing", topics=["orders"], assignor="cooperative-sticky")
    second.wait_owned(2)
    assert len(first.owned) == 2
    generations = kafka.group("billing").generations
    assert [g.cause for g in generations] == [
        "member joined",
        "member joined",
        "cooperative follow-up",
    ]
    assert "need to revoke partitions and re-join" in generations[2].reason


def test_an_assignor_that_all_know_is_chosen_by_vote(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    kafka.puppet("billing", topics=["orders"], assignor=["roundrobin", "range"])
    kafka.puppet("billing", topics=["orders"], assignor=["range"])
    kafka.group("billing").wait_stable(members=2)
    assert kafka.group("billing").generations[-1].protocol == "range"


def test_an_assignor_that_raises_fails_the_test_that_waits(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    puppet = kafka.puppet("billing", topics=["orders"], assignor=f"{__name__}:Raising")
    with pytest.raises(ZeroDivisionError):
        puppet.wait_owned()


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
    puppet = kafka.puppet("billing", topics=["orders"])
    puppet.wait_owned([("orders", 0)])
    puppet.subscribe(["bills"])
    puppet.wait_owned([("bills", 0), ("bills", 1)])
    assert kafka.group("billing").generations[-1].cause == "subscription changed"


def test_connect_workers_wait_for_one_that_may_come_back(kafka: Kafka) -> None:
    kafka.clock.freeze()
    how = {"protocol_type": "connect", "connectors": {"sink": 1, "source": 1}}
    first = kafka.puppet("connect-cluster", **how)
    second = kafka.puppet("connect-cluster", **how)
    first.wait_owned(2)
    second.wait_owned(2)
    second.die()
    kafka.clock.advance(minutes=4)  # the session is over, and scheduled.rebalance.max.delay is not
    assert len(first.owned) == 2
    kafka.clock.advance(minutes=4)
    assert len(first.owned) == 4
    assert first.owned == [("sink", -1), ("sink", 0), ("source", -1), ("source", 0)]


def test_a_hundred_puppets_are_one_group_within_few_rounds(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=100)
    group = kafka.group("billing")
    with group.hold_joins():
        puppets = [kafka.puppet("billing", topics=["orders"]) for _ in range(100)]
    group.wait_stable(members=100)
    assert {len(each.owned) for each in puppets} == {1}
    assert group.generation < 20
    kafka.clock.advance(minutes=2)
    assert len(group.members) == 100
    assert group.generations[-1].cause == "member joined"


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"topics": "orders"}, TypeError),
        ({"assignor": "rang"}, AssignorNotFound),
        ({"protocol_type": "connect"}, ValueError),
        ({"connectors": {"sink": 1}}, ValueError),
        ({"protocol_type": "streams"}, ValueError),
    ],
)
def test_what_makes_no_sense_is_told_at_once(
    kafka: Kafka, how: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        kafka.puppet("billing", **{"topics": [], **how})  # type: ignore[arg-type]


def test_a_worker_subscribes_to_nothing(kafka: Kafka) -> None:
    worker = kafka.puppet("connect-cluster", protocol_type="connect", connectors={"sink": 1})
    with pytest.raises(TypeError):
        worker.subscribe(["orders"])


def test_a_dead_puppet_is_out_at_once_where_disconnected_members_are() -> None:
    with Kafka(evict_disconnected=True) as kafka:
        kafka.topic("orders", partitions=2)
        dying = kafka.puppet("billing", topics=["orders"])
        living = kafka.puppet("billing", topics=["orders"])
        kafka.group("billing").wait_stable(members=2)
        dying.die()
        living.wait_owned(2)


async def test_a_puppet_is_awaited(async_kafka: AsyncKafka) -> None:
    async_kafka.topic("orders", partitions=2)
    puppet = await async_kafka.puppet("billing", topics=["orders"])
    assert await puppet.wait_owned(2) == [("orders", 0), ("orders", 1)]
