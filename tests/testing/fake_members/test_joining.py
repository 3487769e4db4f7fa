"""`kafka.fake_member(…)` returns when the member has joined, unless the test or other members
prevent that."""

import inspect
from collections.abc import Callable, Iterator

import pytest
from kohort.assignors.model import Assignment, Assignor, Subscription, Topics
from kohort.assignors.resolve import BUILTIN, NotAnAssignor
from kohort.testing import AsyncKafka, BarrierTimeout, FakeMemberRejected, Kafka


@pytest.fixture(params=["in memory", "on a disk", "three nodes"])
def any_kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    arguments = {
        "in memory": {},
        "on a disk": {"durability": "fsync"},
        "three nodes": {"nodes": 3},
    }
    with Kafka(config={"group.max.size": "2"}, **arguments[request.param]) as kafka:  # type: ignore[arg-type]
        kafka.topic("orders", partitions=2)
        yield kafka


def test_a_new_fake_member_is_in_a_stable_group(any_kafka: Kafka) -> None:
    fake = any_kafka.fake_member("billing", topics=["orders"])
    group = any_kafka.group("billing")
    assert (group.state, [m.member_id for m in group.members]) == ("Stable", [fake.member_id])
    assert (fake.generation, len(fake.owned), fake.errors) == (1, 2, [])


def test_a_new_fake_member_can_be_suspended_at_once(any_kafka: Kafka) -> None:
    fake = any_kafka.fake_member("billing", topics=["orders"])
    fake.suspend()
    assert (any_kafka.group("billing").state, len(fake.owned)) == ("Stable", 2)
    assert fake.commit("orders", 0, 1) is None


def test_a_new_fake_member_that_is_killed_has_not_left(any_kafka: Kafka) -> None:
    any_kafka.fake_member("billing", topics=["orders"]).kill()
    assert len(any_kafka.group("billing").members) == 1


def test_the_session_of_a_new_fake_member_can_be_ended(any_kafka: Kafka) -> None:
    any_kafka.fake_member("billing", topics=["orders"], client_id="till")
    any_kafka.group("billing").expire("till")
    assert any_kafka.group("billing").exits[0].client_id == "till"


def test_a_full_group_rejects_a_fake_member(any_kafka: Kafka) -> None:
    first, second = (any_kafka.fake_member("billing", topics=["orders"]) for _ in range(2))
    with pytest.raises(
        FakeMemberRejected, match="fake-member-3 cannot join group billing: GROUP_MAX"
    ):
        any_kafka.fake_member("billing", topics=["orders"])
    third = any_kafka.fake_member("billing", topics=["orders"], may_be_rejected=True)
    assert third.errors == [("JoinGroup", "GROUP_MAX_SIZE_REACHED")]
    assert len(first.owned) == len(second.owned) == 1


def test_a_restarted_fake_member_has_joined(any_kafka: Kafka) -> None:
    fake = any_kafka.fake_member("billing", topics=["orders"], client_id="till")
    fake.leave()
    assert any_kafka.group("billing").members == []
    fake.restart()
    any_kafka.group("billing").expire("till")


# --- what the creation of a member waits for


def test_creation_does_not_wait_for_other_members(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.fake_member("billing", client_id="slow").stop_polling()
    quick = kafka.fake_member("billing", client_id="quick")
    group = kafka.group("billing")
    assert (group.state, quick.generation) == ("PreparingRebalance", -1)
    assert [each.client_id for each in group.members] == ["slow", "quick"]


@pytest.mark.parametrize("instance_id", [None, "till-1"])
def test_a_fake_member_can_leave_while_its_join_waits(
    kafka: Kafka, instance_id: str | None
) -> None:
    kafka.fake_member("billing", client_id="slow").stop_polling()
    kafka.fake_member("billing", instance_id=instance_id).leave()
    assert [each.client_id for each in kafka.group("billing").members] == ["slow"]


def test_creation_does_not_wait_for_the_initial_delay() -> None:
    with Kafka(preset="kafka") as kafka:
        kafka.clock.freeze()
        fake = kafka.fake_member("billing")
        assert "it waits another 3.0 s for others" in kafka.group("billing").explain()
        kafka.clock.advance(seconds=3)
        assert fake.generation == 1


@pytest.mark.parametrize("instance_id", [None, "till-1"])
def test_creation_does_not_wait_for_held_joins(kafka: Kafka, instance_id: str | None) -> None:
    kafka.topic("orders", partitions=1)
    with kafka.group("billing").hold_joins() as held:
        fake = kafka.fake_member("billing", topics=["orders"], instance_id=instance_id)
        assert len(held.requests) == 1
        assert (fake.generation, kafka.group("billing").members) == (-1, [])
    fake.wait_owned(1)


def test_members_added_while_joins_are_held_are_one_rebalance(kafka: Kafka) -> None:
    with kafka.group("billing").hold_joins():
        for _ in range(20):
            kafka.fake_member("billing")
    assert kafka.group("billing").wait_stable(members=20).generation == 1


def test_creation_does_not_wait_for_held_syncs(kafka: Kafka) -> None:
    with kafka.group("billing").hold_syncs() as held:
        assert kafka.fake_member("billing").generation == 1
        assert len(held.requests) == 1


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup"])
@pytest.mark.parametrize("action", ["answer", "drop", "lose_answer", "never_answer", "corrupt"])
def test_creation_does_not_wait_for_unlimited_faults(kafka: Kafka, api: str, action: str) -> None:
    kafka.topic("orders", partitions=1)
    error = {"error": "COORDINATOR_NOT_AVAILABLE"} if action == "answer" else {}
    fault = getattr(kafka.faults, action)(api, times=None, client_id="till", **error)
    kafka.clock.freeze()
    kafka.fake_member("billing", topics=["orders"], client_id="till")
    assert fault.fired
    fault.cancel()


def test_creation_does_not_wait_for_a_join_without_a_response(kafka: Kafka) -> None:
    kafka.faults.never_answer("JoinGroup", nth=2)
    assert kafka.fake_member("billing").generation == -1
    (join,) = [each for each in kafka.history.requests_of("JoinGroup") if each.member_id]
    assert join.response_frame is None


@pytest.mark.parametrize("action", ["answer", "drop", "lose_answer", "trickle"])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_creation_waits_for_limited_faults(kafka: Kafka, action: str, is_frozen: bool) -> None:
    if is_frozen:
        kafka.clock.freeze()
    error = {"error": "NOT_COORDINATOR"} if action == "answer" else {}
    for api in ("FindCoordinator", "JoinGroup"):
        getattr(kafka.faults, action)(api, times=1 if action == "trickle" else 5, **error)
    assert kafka.fake_member("billing", instance_id="till-1").generation >= 1


def test_creation_does_not_wait_for_a_loading_coordinator(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    with kafka.group("billing").loading():
        fake = kafka.fake_member("billing", topics=["orders"])
        assert fake.errors[0] == ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS")
    fake.wait_owned(1)


def test_creation_does_not_wait_for_a_broker_that_is_down() -> None:
    with Kafka(nodes=2) as kafka:
        kafka.topic("orders", partitions=1)
        with kafka.broker_down():
            fake = kafka.fake_member("billing", topics=["orders"])
            assert fake.errors[0].error == "NETWORK_EXCEPTION"
        fake.wait_owned(1)


def test_creation_waits_for_another_coordinator() -> None:
    with Kafka(nodes=3) as kafka:
        kafka.fake_member("other")
        kafka.stop_node(kafka.group("billing").node_id)
        assert kafka.fake_member("billing").generation == 1


def test_creation_does_not_wait_for_a_full_disk() -> None:
    with Kafka(durability="fsync") as kafka:
        kafka.topic("orders", partitions=1)
        kafka.disk.fill()
        fake = kafka.fake_member("billing", topics=["orders"])
        assert (fake.generation, fake.errors != []) == (-1, True)
        kafka.disk.heal()
        fake.wait_owned(1)


HARMLESS: dict[str, Callable[[Kafka], object]] = {
    "limit_bandwidth": lambda kafka: kafka.faults.limit_bandwidth(bytes_per_second=100_000),
    "slow_sync": lambda kafka: kafka.disk.slow_sync(ms=1),
    "fill": lambda kafka: kafka.disk.fill(topic="orders"),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_creation_waits_for_faults_that_do_not_prevent_it(name: str) -> None:
    with Kafka(durability="fsync") as kafka:
        HARMLESS[name](kafka)
        kafka.faults.drop("JoinGroup", times=5)
        assert kafka.fake_member("billing", instance_id="till-1").generation >= 1
        kafka.faults.clear()


def test_the_timeout_of_creation_explains_the_group(kafka: Kafka) -> None:
    kafka.faults.answer("JoinGroup", error="NOT_COORDINATOR", times=1_000_000)
    with pytest.raises(BarrierTimeout) as raised:
        kafka.fake_member("billing", client_id="till", timeout=0.05)
    kafka.faults.clear()
    assert str(raised.value).startswith(
        "timed out after 0.05 s waiting for fake member till to join group billing; its last "
        "error: JoinGroup NOT_COORDINATOR\nGroup billing does not exist"
    )
    kafka.clock.advance(minutes=1)
    assert kafka.group("billing").state == "Dead"  # it was killed


# --- assignors


def test_a_fake_member_offers_what_the_members_of_the_group_support(kafka: Kafka) -> None:
    kafka.fake_member("billing", assignor=["roundrobin", "sticky"])
    kafka.fake_member("billing")
    kafka.fake_member("billing", assignor="sticky")
    with pytest.raises(FakeMemberRejected, match="have only sticky in common"):
        kafka.fake_member("billing", assignor="roundrobin")


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_the_first_member_of_a_group_offers_the_default_assignors(
    kafka: Kafka, assignor: str
) -> None:
    kafka.fake_member("billing")
    kafka.fake_member("billing", assignor=assignor)


# --- rejections


def test_a_fake_member_without_a_common_assignor_is_rejected(kafka: Kafka) -> None:
    kafka.fake_member("billing", assignor=["roundrobin", "sticky"], client_id="first")
    kafka.fake_member("billing", assignor="roundrobin")
    with pytest.raises(FakeMemberRejected) as raised:
        kafka.fake_member("billing", assignor="range", client_id="till")
    assert str(raised.value).startswith(
        "fake member till cannot join group billing: INCONSISTENT_GROUP_PROTOCOL. It supports "
        "range; the members of the group have only roundrobin in common: choose its assignor from "
        "these. (If the test expects this, use may_be_rejected=True.)\nGroup billing is Stable"
    )
    rejected = kafka.fake_member("billing", assignor="range", may_be_rejected=True)
    assert rejected.errors == [("JoinGroup", "INCONSISTENT_GROUP_PROTOCOL")]
    with pytest.raises(Exception, match="INCONSISTENT_GROUP_PROTOCOL"):
        rejected.wait_owned()


def test_a_connect_worker_is_rejected_by_a_consumer_group(kafka: Kafka) -> None:
    kafka.fake_member("billing")
    with pytest.raises(
        FakeMemberRejected, match="Its protocol type is connect, and the group's is consumer"
    ):
        kafka.fake_member("billing", protocol_type="connect", connectors={"sink": 1})


def test_a_fatal_error_from_a_fault_rejects_a_fake_member(kafka: Kafka) -> None:
    kafka.faults.answer("JoinGroup", error="GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(FakeMemberRejected, match=r"billing: GROUP_AUTHORIZATION_FAILED\. \(If"):
        kafka.fake_member("billing")


# --- arguments


class OneReads(Assignor):
    """The assignor in docs/assignors.md."""

    name = "one-reads"
    cooperative = False

    def assign(self, topics: Topics, members: dict[str, Subscription]) -> Assignment:  # type: ignore[override]
        everything = [(t, p) for t, count in topics.partitions.items() for p in range(count)]
        reader = min(members)
        return {member: everything if member == reader else [] for member in members}


@pytest.mark.parametrize(
    "assignor", [OneReads(), OneReads, ["range", OneReads()], (OneReads, BUILTIN["sticky"])]
)
def test_an_assignor_may_be_an_object(kafka: Kafka, assignor: Assignor) -> None:
    kafka.topic("orders", partitions=3)
    fakes = [
        kafka.fake_member("billing", topics=["orders"], assignor=a) for a in (assignor, OneReads())
    ]
    assert kafka.group("billing").generations[-1].protocol == "one-reads"
    assert sorted(len(each.owned) for each in fakes) == [0, 3]


@pytest.mark.parametrize("assignor", [7, object(), [None]])
def test_an_invalid_assignor_is_rejected(kafka: Kafka, assignor: Assignor) -> None:
    with pytest.raises(NotAnAssignor, match="is not an assignor; it lacks name, cooperative"):
        kafka.fake_member("billing", assignor=assignor)


def test_an_unknown_argument_is_rejected(kafka: Kafka) -> None:
    with pytest.raises(
        TypeError, match=r"fake_member\(\) got an unexpected keyword argument 'asignor'"
    ):
        kafka.fake_member("billing", asignor="range")  # type: ignore[call-arg]
    for kind in (Kafka, AsyncKafka):
        names = inspect.signature(kind.fake_member).parameters
        assert {"assignor", "instance_id", "may_be_rejected"} < set(names)


# --- repr


def test_fake_members_and_groups_have_a_repr(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    group = kafka.group("billing")
    assert repr(group) == "<Group billing: Dead, generation 0>"
    fake = kafka.fake_member("billing", topics=["orders"], client_id="till")
    assert repr(group) == "<Group billing: Stable, generation 1>"
    name, state = "fake member till of group billing", "generation 1, owns orders-0, orders-1"
    assert repr(fake) == f"<{name}: running, {state}>"
    fake.stop_polling()
    assert repr(fake) == f"<{name}: not polling, {state}>"
    fake.suspend()
    assert repr(fake) == f"<{name}: suspended, {state}>"
    fake.kill()
    assert repr(fake) == f"<{name}: ended, generation 1, owns nothing>"


def test_the_repr_works_after_the_broker_was_stopped() -> None:
    with Kafka() as kafka:
        fake, group = kafka.fake_member("billing", client_id="till"), kafka.group("billing")
    name = "fake member till of group billing"
    assert repr(fake) == f"<{name}: ended, generation 1, owns nothing>"
    assert repr(group) == "<Group billing>"


# --- on an event loop


async def test_async_fake_members_are_awaited(async_kafka: AsyncKafka) -> None:
    async_kafka.topic("orders", partitions=2)
    fake = await async_kafka.fake_member("billing", topics=["orders"], assignor="range")
    assert async_kafka.group("billing").state == "Stable"
    assert await fake.wait_owned(2) == [("orders", 0), ("orders", 1)]
    with pytest.raises(FakeMemberRejected):
        await async_kafka.fake_member("billing", assignor="sticky")
