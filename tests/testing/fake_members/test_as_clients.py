"""History, holds and faults apply to fake members as to clients."""

import pytest
from kohort.testing import Kafka, clock


def test_the_requests_of_fake_members_are_in_the_history(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", topics=["orders"], client_id="peer")
    fake.wait_owned(1)
    fake.commit("orders", 0, 3)
    assert [each.api for each in kafka.history.requests] == [
        "FindCoordinator",
        "JoinGroup",
        "JoinGroup",
        "SyncGroup",
        "FindCoordinator",
        "OffsetCommit",
    ]
    (commit,) = kafka.group("billing").commits
    assert (commit.client_id, commit.member_id, commit.offset) == ("peer", fake.member_id, 3)


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup"])
@pytest.mark.parametrize(
    "action", ["drop", "lose_answer", "close_mid_frame", "trickle", "corrupt", "delay"]
)
def test_a_fake_member_recovers_from_faults(kafka: Kafka, api: str, action: str) -> None:
    kafka.topic("orders", partitions=1)
    delay = {"ms": 1} if action == "delay" else {}
    fault = getattr(kafka.faults, action)(api, **delay)
    fake = kafka.fake_member("billing", topics=["orders"])
    fault.wait()
    if action in ("lose_answer", "close_mid_frame", "corrupt"):
        # The coordinator may have a member whose id the client does not know.
        kafka.clock.advance(minutes=10)
    assert fake.wait_owned(1) == [("orders", 0)]


def test_a_fake_member_that_retries_forever_does_not_block_others(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    fault = kafka.faults.answer("JoinGroup", error="NOT_COORDINATOR", group="a", times=None)
    retrying = kafka.fake_member("a", topics=["orders"])
    fault.wait(times=3)
    kafka.fake_member("b", topics=["orders"]).wait_owned(1)
    fault.cancel()
    retrying.wait_owned(1)
    assert {each.error for each in retrying.errors} == {"NOT_COORDINATOR"}


def test_a_commit_without_a_response_is_a_network_exception(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned(1)
    kafka.faults.lose_answer("OffsetCommit")
    assert fake.commit("orders", 0, 3) == "NETWORK_EXCEPTION"
    assert kafka.group("billing").wait_committed("orders", 0) == 3
    assert fake.commit("orders", 7, 3) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_an_evicted_fake_member_rejoins_with_another_id(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned(1)
    before = fake.member_id
    group = kafka.group("billing")
    group.evict(fake.client_id)
    assert fake.member_id not in (before, "")
    assert fake.owned == [("orders", 0)]
    assert ("Heartbeat", "UNKNOWN_MEMBER_ID") in fake.errors


def test_fake_members_wait_for_a_loading_coordinator(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.topic("orders", partitions=2)
    first = kafka.fake_member("billing", topics=["orders"])
    second = kafka.fake_member("billing", topics=["orders"])
    group = kafka.group("billing").wait_stable(members=2)
    generation = group.generation
    with group.loading():
        assert first.commit("orders", 0, 1) == "COORDINATOR_LOAD_IN_PROGRESS"
    kafka.clock.advance(minutes=5)
    assert (group.generation, len(group.members)) == (generation, 2)
    assert len(first.owned) == len(second.owned) == 1


def test_fake_members_follow_their_coordinator() -> None:
    with Kafka(nodes=2) as kafka:
        kafka.topic("orders", partitions=2)
        fake = kafka.fake_member("billing", topics=["orders"])
        fake.wait_owned(2)
        group = kafka.group("billing")
        before = group.node_id
        generation = group.generation
        kafka.run(kafka.broker.stop_node(before))
        kafka.clock.advance(minutes=5)
        assert group.node_id != before
        assert (group.generation, len(group.members)) == (generation, 1)
        assert fake.commit("orders", 0, 1) is None
        assert {error for _, error in fake.errors} <= {"NETWORK_EXCEPTION", "NOT_COORDINATOR"}


def test_a_reset_ends_fake_members(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned(1)
    kafka.reset()
    assert fake.owned == []
    kafka.clock.advance(minutes=5)
    assert kafka.history.requests == []


@pytest.mark.parametrize("how", ["crash", "restart"])
def test_fake_members_survive_crashes_and_restarts(kafka: Kafka, how: str) -> None:
    kafka.topic("orders", partitions=2)
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned(2)
    assert fake.commit("orders", 0, 3) is None
    kafka.clock.freeze()
    group = kafka.group("billing")
    before = fake.member_id, group.generation
    getattr(kafka, how)()
    kafka.clock.advance(minutes=5)
    group.wait_stable(members=1)
    assert (fake.member_id, group.generation) == before
    assert fake.commit("orders", 0, 4) is None


def test_fake_members_retry_while_the_broker_is_down(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned(2)
    with kafka.broker_down():
        assert fake.commit("orders", 0, 3) == "NETWORK_EXCEPTION"
    assert fake.commit("orders", 0, 3) is None
    kafka.clock.advance(minutes=5)
    assert [g.cause for g in kafka.group("billing").generations] == ["member joined"]


def test_transient_errors_do_not_cost_the_session(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned(1)
    kafka.faults.answer("Heartbeat", error="NOT_COORDINATOR", times=20)
    kafka.clock.advance(minutes=5)
    assert len(fake.errors) == 20
    assert [g.cause for g in kafka.group("billing").generations] == ["member joined"]


def test_permanent_errors_cost_the_session(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", topics=["orders"])
    fake.wait_owned(1)
    fault = kafka.faults.answer("Heartbeat", error="NOT_COORDINATOR", times=None)
    kafka.clock.advance(minutes=1)
    assert kafka.group("billing").generations[-1].cause == "session expired"
    fault.cancel()
    fake.wait_owned(1)
    kafka.group("billing").wait_stable(members=1)


def test_the_clock_advances_over_years_while_all_nodes_are_down(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "ADVANCE_TIMEOUT_SECONDS", 5)
    kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", topics=["orders"])
    with kafka.broker_down():
        kafka.clock.advance(days=3660)
    assert fake.wait_owned(1) == [("orders", 0)]


def test_the_clock_advances_over_years_without_each_heartbeat(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent member loses its session as before, and the other member stays in its generation."""
    monkeypatch.setattr("kohort.testing.clock.STOPS_MAX", 50)
    kafka.topic("orders", partitions=2)
    fake = kafka.fake_member("billing", topics=["orders"])
    silent = kafka.fake_member("invoices", topics=["orders"])
    silent.suspend()
    kafka.clock.advance(days=100)
    heartbeats = kafka.history.requests_of("Heartbeat")
    assert 100 <= len(heartbeats) <= 200
    assert fake.generation == 1
    assert not fake.errors
    (exit_,) = kafka.group("invoices").exits
    assert exit_.member_id == silent.member_id


def test_the_clock_skips_heartbeats_after_a_number_that_all_members_share(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.testing.clock.STOPS_MAX", 50)
    for number in range(10):
        kafka.fake_member(f"billing-{number}")
    kafka.clock.advance(days=2)
    assert 50 <= len(kafka.history.requests_of("Heartbeat")) <= 100
