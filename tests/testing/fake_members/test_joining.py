"""When a test gets a puppet, that has joined, as far as it is the broker's doing."""

import inspect
from collections.abc import Iterator

import pytest
from kohort.assignors.model import Assignment, Assignor, Subscription, Topics
from kohort.assignors.resolve import BUILTIN, NotAnAssignor
from kohort.testing import AsyncKafka, BarrierTimeout, Kafka, PuppetRefused


@pytest.fixture(params=["in memory", "on a disk", "three nodes"])
def any_kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    how = {"in memory": {}, "on a disk": {"durability": "fsync"}, "three nodes": {"nodes": 3}}
    with Kafka(config={"group.max.size": "2"}, **how[request.param]) as kafka:  # type: ignore[arg-type]
        kafka.topic("orders", partitions=2)
        yield kafka


def test_it_is_a_member_of_a_stable_group(any_kafka: Kafka) -> None:
    puppet = any_kafka.puppet("billing", topics=["orders"])
    group = any_kafka.group("billing")
    assert (group.state, [m.member_id for m in group.members]) == ("Stable", [puppet.member_id])
    assert (puppet.generation, len(puppet.owned), puppet.errors) == (1, 2, [])


def test_who_falls_silent_at_once_is_a_zombie(any_kafka: Kafka) -> None:
    puppet = any_kafka.puppet("billing", topics=["orders"])
    puppet.silence()
    assert (any_kafka.group("billing").state, len(puppet.owned)) == ("Stable", 2)
    assert puppet.commit("orders", 0, 1) is None


def test_who_dies_at_once_has_not_left(any_kafka: Kafka) -> None:
    any_kafka.puppet("billing", topics=["orders"]).die()
    assert len(any_kafka.group("billing").members) == 1


def test_the_session_of_a_new_one_can_be_ended(any_kafka: Kafka) -> None:
    any_kafka.puppet("billing", topics=["orders"], client_id="till")
    any_kafka.group("billing").expire("till")
    assert any_kafka.group("billing").exits[0].client_id == "till"


def test_a_full_group_refuses_the_last_one(any_kafka: Kafka) -> None:
    first, second = (any_kafka.puppet("billing", topics=["orders"]) for _ in range(2))
    with pytest.raises(PuppetRefused, match="puppet-3 may not join billing: GROUP_MAX_SIZE_REACH"):
        any_kafka.puppet("billing", topics=["orders"])
    third = any_kafka.puppet("billing", topics=["orders"], may_be_refused=True)
    assert third.errors == [("JoinGroup", "GROUP_MAX_SIZE_REACHED")]
    assert len(first.owned) == len(second.owned) == 1


def test_a_new_process_of_one_has_joined_too(any_kafka: Kafka) -> None:
    puppet = any_kafka.puppet("billing", topics=["orders"], client_id="till")
    puppet.leave()
    assert any_kafka.group("billing").members == []
    puppet.come_back()
    any_kafka.group("billing").expire("till")


# --- what a test puts in its way is not waited for


def test_a_round_that_waits_for_others_is_not(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.puppet("billing", client_id="slow").slow()
    quick = kafka.puppet("billing", client_id="quick")
    group = kafka.group("billing")
    assert (group.state, quick.generation) == ("PreparingRebalance", -1)
    assert [each.client_id for each in group.members] == ["slow", "quick"]


@pytest.mark.parametrize("instance_id", [None, "till-1"])
def test_who_leaves_while_its_join_waits_is_gone(kafka: Kafka, instance_id: str | None) -> None:
    kafka.puppet("billing", client_id="slow").slow()
    kafka.puppet("billing", instance_id=instance_id).leave()
    assert [each.client_id for each in kafka.group("billing").members] == ["slow"]


def test_a_first_round_that_only_time_closes_is_not() -> None:
    with Kafka(preset="kafka") as kafka:
        kafka.clock.freeze()
        puppet = kafka.puppet("billing")
        assert "latecomers are waited for, 3.0 s more" in kafka.group("billing").explain()
        kafka.clock.advance(seconds=3)
        assert puppet.generation == 1


@pytest.mark.parametrize("instance_id", [None, "till-1"])
def test_joins_that_a_test_holds_are_not(kafka: Kafka, instance_id: str | None) -> None:
    kafka.topic("orders", partitions=1)
    with kafka.group("billing").hold_joins() as held:
        puppet = kafka.puppet("billing", topics=["orders"], instance_id=instance_id)
        assert len(held.requests) == 1
        assert (puppet.generation, kafka.group("billing").members) == (-1, [])
    puppet.wait_owned(1)


def test_who_comes_while_joins_are_held_comes_to_one_round(kafka: Kafka) -> None:
    with kafka.group("billing").hold_joins():
        for _ in range(20):
            kafka.puppet("billing")
    assert kafka.group("billing").wait_stable(members=20).generation == 1


def test_syncs_that_a_test_holds_are_not(kafka: Kafka) -> None:
    with kafka.group("billing").hold_syncs() as held:
        assert kafka.puppet("billing").generation == 1
        assert len(held.requests) == 1


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup"])
@pytest.mark.parametrize("deed", ["answer", "drop", "lose_answer", "never_answer", "corrupt"])
def test_faults_without_an_end_are_not(kafka: Kafka, api: str, deed: str) -> None:
    kafka.topic("orders", partitions=1)
    error = {"error": "COORDINATOR_NOT_AVAILABLE"} if deed == "answer" else {}
    fault = getattr(kafka.faults, deed)(api, times=None, client_id="till", **error)
    kafka.clock.freeze()
    kafka.puppet("billing", topics=["orders"], client_id="till")
    assert fault.fired
    fault.cancel()


def test_a_fault_that_keeps_its_join_is_not(kafka: Kafka) -> None:
    kafka.faults.never_answer("JoinGroup", nth=2)
    assert kafka.puppet("billing").generation == -1
    (kept,) = [each for each in kafka.history.requests_of("JoinGroup") if each.member_id]
    assert kept.answer is None


@pytest.mark.parametrize("deed", ["answer", "drop", "lose_answer", "trickle"])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_faults_that_end_by_themselves_are(kafka: Kafka, deed: str, is_frozen: bool) -> None:
    if is_frozen:
        kafka.clock.freeze()
    error = {"error": "NOT_COORDINATOR"} if deed == "answer" else {}
    for api in ("FindCoordinator", "JoinGroup"):
        getattr(kafka.faults, deed)(api, times=1 if deed == "trickle" else 5, **error)
    assert kafka.puppet("billing", instance_id="till-1").generation >= 1


def test_a_coordinator_that_a_test_lets_load_is_not(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    with kafka.group("billing").loading():
        puppet = kafka.puppet("billing", topics=["orders"])
        assert puppet.errors[0] == ("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS")
    puppet.wait_owned(1)


def test_a_broker_that_is_down_is_not() -> None:
    with Kafka(nodes=2) as kafka:
        kafka.topic("orders", partitions=1)
        with kafka.broker_down():
            puppet = kafka.puppet("billing", topics=["orders"])
            assert puppet.errors[0].error == "NETWORK_EXCEPTION"
        puppet.wait_owned(1)


def test_the_coordinator_of_a_node_that_is_down_is() -> None:
    with Kafka(nodes=3) as kafka:
        kafka.puppet("other")
        kafka.stop_node(kafka.group("billing").node_id)
        assert kafka.puppet("billing").generation == 1


def test_a_full_disk_is_not() -> None:
    with Kafka(durability="fsync") as kafka:
        kafka.topic("orders", partitions=1)
        kafka.disk.fill()
        puppet = kafka.puppet("billing", topics=["orders"])
        assert (puppet.generation, puppet.errors != []) == (-1, True)
        kafka.disk.heal()
        puppet.wait_owned(1)


def test_one_that_asks_in_vain_for_too_long_is_told_with_the_story(kafka: Kafka) -> None:
    kafka.faults.answer("JoinGroup", error="NOT_COORDINATOR", times=1_000_000)
    with pytest.raises(BarrierTimeout) as raised:
        kafka.puppet("billing", client_id="till", timeout=0.05)
    kafka.faults.clear()
    assert str(raised.value).startswith(
        "puppet till was waited for 0.05 s to join billing, in vain. It was answered: JoinGroup "
        "NOT_COORDINATOR.\nbilling does not exist"
    )
    kafka.clock.advance(minutes=1)
    assert kafka.group("billing").state == "Dead"  # it has given up


# --- who may not join


def test_who_shares_no_assignor_with_the_group_is_told_so(kafka: Kafka) -> None:
    kafka.puppet("billing", assignor=["roundrobin", "sticky"], client_id="first")
    kafka.puppet("billing", assignor="roundrobin")
    with pytest.raises(PuppetRefused) as raised:
        kafka.puppet("billing", client_id="till")
    assert str(raised.value).startswith(
        "puppet till may not join billing: INCONSISTENT_GROUP_PROTOCOL. It offers range, and all "
        "that the group's members have in common is roundrobin: one of those has to be its "
        "assignor. A test that is about that says so: may_be_refused.\nbilling is Stable"
    )
    refused = kafka.puppet("billing", may_be_refused=True)
    assert refused.errors == [("JoinGroup", "INCONSISTENT_GROUP_PROTOCOL")]
    with pytest.raises(Exception, match="INCONSISTENT_GROUP_PROTOCOL"):
        refused.wait_owned()


def test_who_is_of_another_kind_is_told_so(kafka: Kafka) -> None:
    kafka.puppet("billing")
    with pytest.raises(PuppetRefused, match="It is a connect, and the group is of consumers"):
        kafka.puppet("billing", protocol_type="connect", connectors={"sink": 1})


def test_an_error_that_a_fault_answers_is_told_as_well(kafka: Kafka) -> None:
    kafka.faults.answer("JoinGroup", error="GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(PuppetRefused, match=r"billing: GROUP_AUTHORIZATION_FAILED\. A test that"):
        kafka.puppet("billing")


# --- what a test says of it


class OneReads(Assignor):
    """As in docs/assignors.md."""

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
    puppets = [
        kafka.puppet("billing", topics=["orders"], assignor=a) for a in (assignor, OneReads())
    ]
    assert kafka.group("billing").generations[-1].protocol == "one-reads"
    assert sorted(len(each.owned) for each in puppets) == [0, 3]


@pytest.mark.parametrize("assignor", [7, object(), [None]])
def test_what_is_no_assignor_is_told_at_once(kafka: Kafka, assignor: Assignor) -> None:
    with pytest.raises(NotAnAssignor, match="is not an assignor, it lacks name, cooperative"):
        kafka.puppet("billing", assignor=assignor)


def test_what_is_misspelt_is_seen_before_it_runs_and_told_when_it_does(kafka: Kafka) -> None:
    with pytest.raises(TypeError, match=r"puppet\(\) got an unexpected keyword argument 'asignor'"):
        kafka.puppet("billing", asignor="range")  # type: ignore[call-arg]
    for of in (Kafka, AsyncKafka):
        names = inspect.signature(of.puppet).parameters
        assert {"assignor", "instance_id", "may_be_refused"} < set(names)


# --- what a test sees of it


def test_it_says_in_a_line_what_it_is(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    group = kafka.group("billing")
    assert repr(group) == "<group billing: Dead, generation 0>"
    puppet = kafka.puppet("billing", topics=["orders"], client_id="till")
    assert repr(group) == "<group billing: Stable, generation 1>"
    said = "generation 1, owns orders-0, orders-1>"
    assert repr(puppet) == f"<puppet till of billing: alive, {said}"
    puppet.slow()
    assert repr(puppet) == f"<puppet till of billing: slow, {said}"
    puppet.silence()
    assert repr(puppet) == f"<puppet till of billing: silent, {said}"
    puppet.die()
    assert repr(puppet) == "<puppet till of billing: gone, generation 1, owns nothing>"


def test_what_they_were_can_be_seen_when_the_broker_is_gone() -> None:
    with Kafka() as kafka:
        puppet, group = kafka.puppet("billing", client_id="till"), kafka.group("billing")
    assert repr(puppet) == "<puppet till of billing: gone, generation 1, owns nothing>"
    assert repr(group) == "<group billing>"


# --- on an event loop


async def test_it_is_awaited(async_kafka: AsyncKafka) -> None:
    async_kafka.topic("orders", partitions=2)
    puppet = await async_kafka.puppet("billing", topics=["orders"])
    assert async_kafka.group("billing").state == "Stable"
    assert await puppet.wait_owned(2) == [("orders", 0), ("orders", 1)]
    with pytest.raises(PuppetRefused):
        await async_kafka.puppet("billing", assignor="sticky")
