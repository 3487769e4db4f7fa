"""What a test does first: topics, groups, waiting, the clock, and what it is told when it fails."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from kohort.testing import BarrierTimeout, Kafka
from kohort.testing.clock import turns

from .conftest import Service


@pytest.mark.clients
def test_a_consumer_is_waited_for_and_asked_about(kafka: Kafka, service: Service) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    assert group.wait_committed("orders", 0, 3) == 3
    assert group.owner("orders", 0).client_id == "service"  # type: ignore[union-attr]
    assert [(c.before, c.offset) for c in group.commits] == [(None, 1), (1, 2), (2, 3)]
    assert [g.cause for g in group.generations] == ["member joined"]
    commit = kafka.wait_request("OffsetCommit", group="billing")
    assert (commit.client_id, commit.partitions) == ("service", (("orders", 0),))
    assert commit.errors == ()


@pytest.mark.clients
def test_a_session_ends_when_the_clock_passes_over_it(kafka: Kafka, service: Service) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    first = group.members[0].member_id
    kafka.clock.advance(minutes=5)
    assert [g.cause for g in group.generations] == ["member joined", "session expired"]
    group.wait_stable(members=1)  # it finds out with its next heartbeat, and comes back
    assert group.members[0].member_id != first


def test_a_barrier_that_fails_tells_the_story_of_the_group(kafka: Kafka) -> None:
    with pytest.raises(BarrierTimeout) as raised:
        kafka.group("nobody").wait_stable(members=1, timeout=0.01)
    assert str(raised.value) == (
        "nobody was waited for 0.01 s to be Stable with 1 member, in vain.\n"
        "nobody does not exist: nobody has joined it, and nothing was committed for it.\n"
        "  no request has named this group"
    )


def test_time_passes_until_a_group_is_as_a_test_wants_it(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    puppet = kafka.puppet("billing", topics=["orders"])
    group = kafka.group("billing").wait_stable(members=1)
    puppet.silence()
    before = kafka.clock.now_ms
    kafka.clock.run_until(lambda: group.state == "Empty")
    assert 40_000 < kafka.clock.now_ms - before < 60_000


def test_what_has_come_true_outside_the_broker_is_seen_at_once(kafka: Kafka) -> None:
    asked: list[bool] = []

    def is_asked_a_third_time() -> bool:
        asked.append(True)
        return len(asked) == 3

    # Nothing happens in the broker. When the time is up it would be asked a second time only.
    kafka.wait(is_asked_a_third_time, timeout=60)


def test_what_has_come_true_when_time_is_up_has_come_true(kafka: Kafka) -> None:
    asked: list[bool] = []

    def is_asked_a_second_time() -> bool:
        asked.append(True)
        return len(asked) == 2

    kafka.wait(is_asked_a_second_time, timeout=0.001)


def test_a_broker_that_a_test_has_stopped_can_be_stopped_again_and_says_so_when_asked() -> None:
    with Kafka() as kafka:
        kafka.stop()
        with pytest.raises(AssertionError, match="start it first"):
            _ = kafka.group("billing").state


def test_a_barrier_at_a_partition_that_is_not_there_says_so(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("g")
    with pytest.raises(BarrierTimeout, match=r"no topic order: did you mean orders\?"):
        group.wait_committed("order", 0, timeout=0.01)
    with pytest.raises(BarrierTimeout, match="no partition orders-1: they count from 0"):
        group.wait_owner("orders", 1, timeout=0.01)


def test_a_barrier_at_a_member_that_is_not_there_says_so(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    with pytest.raises(BarrierTimeout, match=r"billing has no member tell; there is: nobody\.\n"):
        group.wait_owner("orders", 0, "tell", timeout=0.01)
    kafka.puppet("billing", topics=["orders"], client_id="till")
    with pytest.raises(
        BarrierTimeout, match=r"no member tell; there is: till \(till-[-0-9a-f]+\)\.\n"
    ):
        group.wait_owner("orders", 0, "tell", timeout=0.01)
    assert group.wait_owner("orders", 0, "till", timeout=0.01).is_leader


def test_an_api_that_nobody_has_is_neither_waited_for_nor_found(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match=r"no API called OffsetComit: did you mean OffsetCommit\?"):
        kafka.wait_request("OffsetComit")
    with pytest.raises(ValueError, match="no API called OffsetComit"):
        kafka.history.requests_of("OffsetComit")


def test_what_is_no_list_of_bytes_is_not_produced(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=1)
    with pytest.raises(TypeError, match=r"a list of values, not one: produce\(\['tea'\]\)"):
        orders.produce("tea")
    with pytest.raises(TypeError, match=r"bytes, str or None, not \{'tea': 1\}: serialize it"):
        orders.produce([{"tea": 1}])  # type: ignore[list-item]
    assert orders.records() == []


def test_a_key_that_no_broker_knows_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"no key that kohort .*: did you mean group.max.size\?"):
        Kafka(config={"group.max.sise": "2"})


def test_nothing_is_left_of_a_broker_that_was_reset(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2).produce([b"a"])
    before = kafka.bootstrap_servers
    kafka.reset()
    assert kafka.bootstrap_servers == before
    assert kafka.topic("orders", partitions=3).records() == []
    assert kafka.groups == []


def test_each_node_of_a_cluster_is_where_it_was_after_a_reset() -> None:
    with Kafka(nodes=3) as kafka:
        before = kafka.bootstrap_servers
        kafka.reset()
        assert kafka.bootstrap_servers == before


def test_who_waits_while_a_broker_is_reset_waits_for_what_comes_then(kafka: Kafka) -> None:
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(kafka.group("billing").wait_stable, 1)
        kafka.reset()
        kafka.topic("orders", partitions=1)
        kafka.puppet("billing", topics=["orders"])
        assert waits.result(10).state == "Stable"


def test_the_name_of_a_topic_that_was_deleted_is_free(kafka: Kafka) -> None:
    for _ in range(3):
        kafka.topic("orders", partitions=100)
        kafka.topic("orders").delete()
        folders = kafka.ask(lambda _broker: set(kafka.disk.files.folders))
        assert not [each for each in folders if each.name.startswith("orders-")]
    assert kafka.topic("orders", partitions=2).partitions == 2


def test_a_topic_is_gone_once_groups_have_forgotten_it(kafka: Kafka) -> None:
    topic = kafka.topic("orders", partitions=1)
    puppet = kafka.puppet("billing", ["orders"])
    puppet.wait_owned()
    puppet.commit("orders", 0, 1)
    with ThreadPoolExecutor(1) as pool:
        with kafka.group("billing").loading():
            deleted = pool.submit(topic.delete)
            while kafka.ask(lambda broker: broker.node.topics.get("orders")) is not None:
                kafka.run(turns(1))
            assert not deleted.done()
        deleted.result(10)
    assert kafka.group("billing").committed("orders", 0) is None


def test_a_topic_that_kafka_would_refuse_is_refused_in_its_words(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match=r"topic orders: INVALID_CONFIG: .*retention\.ms"):
        kafka.topic("orders", config={"retention.ms": "for ever"})
