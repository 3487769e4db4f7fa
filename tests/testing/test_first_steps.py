"""What a test does first: topics, groups, waiting, the clock, and what it is told when it fails."""

import math
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import kohort.testing
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


def test_a_wait_may_be_without_end(kafka: Kafka) -> None:
    kafka.puppet("billing", topics=["orders"])
    assert kafka.group("billing").wait_stable(timeout=math.inf).generation == 1


def test_what_has_come_true_when_time_is_up_has_come_true(kafka: Kafka) -> None:
    asked: list[bool] = []

    def is_asked_a_second_time() -> bool:
        asked.append(True)
        return len(asked) == 2

    kafka.wait(is_asked_a_second_time, timeout=0.001)


def test_a_broker_that_a_test_has_stopped_can_be_stopped_again_and_says_so_when_asked() -> None:
    with Kafka() as kafka:
        kafka.stop()
        with pytest.raises(RuntimeError, match="start it first"):
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


def test_headers_time_and_partition_of_a_record_are_told(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=2)
    kafka.clock.freeze()
    orders.produce([("a", "tea")], headers={"trace": "7"}, timestamp_ms=1_000)
    orders.produce(["cake"], partition=1, headers=[("x", b"1"), ("x", None)])
    assert orders.records() == [
        (0, 1_000, b"a", b"tea", (("trace", b"7"),), 0),
        (0, kafka.clock.now_ms, None, b"cake", (("x", b"1"), ("x", None)), 1),
    ]
    assert orders.records(1)[0].partition == 1


@pytest.mark.parametrize(
    ("values", "how", "said"),
    [
        (
            [("a", "tea", "7")],
            {},
            r"a record is a value or \(key, value\), not \('a', 'tea', '7'\)",
        ),
        ({"a": "tea"}, {}, r"a list of values, not one: produce\(\[\('a', 'tea'\)\]\)"),
        (5, {}, r"a list of values, not one: produce\(\[5\]\)"),
        (["tea"], {"headers": {"trace": 7}}, "bytes, str or None, not 7"),
        (["tea"], {"headers": ["trace"]}, r"headers are \{name: value\} or .* not 'trace'"),
        (["tea"], {"timestamp_ms": 0.5}, "timestamp_ms is a whole number of milliseconds, not 0.5"),
    ],
)
def test_what_has_not_the_shape_of_records_is_told(
    kafka: Kafka, values: Any, how: dict[str, Any], said: str
) -> None:
    orders = kafka.topic("orders", partitions=1)
    with pytest.raises(TypeError, match=said):
        orders.produce(values, **how)
    assert orders.records() == []


def test_a_record_that_the_broker_would_refuse_is_refused_in_its_words(kafka: Kafka) -> None:
    prices = kafka.topic("prices", partitions=1, config={"cleanup.policy": "compact"})
    with pytest.raises(ValueError, match="topic prices: INVALID_RECORD: Compacted topic cannot"):
        prices.produce(["tea"])


def test_a_key_that_no_broker_knows_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"unknown configuration key .*: did you mean group.max.size\?"
    ):
        Kafka(config={"group.max.sise": "2"})
    with pytest.warns(UserWarning, match="without effect in kohort: sasl.enabled.mechanisms"):
        Kafka(config={"sasl.enabled.mechanisms": "PLAIN"})


def test_numbers_and_bools_are_settings() -> None:
    config = {"group.max.size": 2, "auto.create.topics.enable": False, "num.partitions": 3.0}
    with Kafka(config=config) as kafka:
        topic = kafka.topic("orders", config={"retention.ms": 1, "preallocate": True})
        assert topic.partitions == 3
        texts = kafka.ask(lambda broker: [broker.config.text(key) for key in config])
        assert texts == ["2", "false", "3"]
        overrides = kafka.ask(lambda broker: broker.node.topics.get("orders").overrides)
        assert overrides == {"retention.ms": "1", "preallocate": "true"}
    with pytest.raises(TypeError, match=r"group\.max\.size is None: a setting is a text, a number"):
        Kafka(config={"group.max.size": None})  # type: ignore[dict-item]


def test_a_durability_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no durability sync; there is: fsync, os, none"):
        Kafka(durability="sync")  # type: ignore[arg-type]


def test_a_broker_is_started_once(kafka: Kafka) -> None:
    with pytest.raises(RuntimeError, match="is started already, as `with` and the fixtures"):
        kafka.start()
    assert kafka.group("billing").state == "Dead"


def test_what_a_test_holds_says_what_it_is(kafka: Kafka) -> None:
    at = f"<Kafka at {kafka.bootstrap_servers}>"
    fault = kafka.faults.drop("OffsetCommit", group="g", times=2)
    assert repr(fault) == (
        "<Fault OffsetCommit (group g): dropped before it was applied, fired 0 of 2 times>"
    )
    fault.cancel()
    assert repr(kafka) == at
    assert repr(kafka.topic("orders")) == f"<Topic orders of {at}>"
    assert "Kafka" in dir(kohort.testing)


def test_the_clock_takes_what_dates_are_made_of(kafka: Kafka) -> None:
    kafka.clock.freeze()
    before = kafka.clock.now_ms
    kafka.clock.advance(timedelta(days=1), weeks=1, ms=5)
    assert kafka.clock.now_ms - before == 8 * 24 * 3600 * 1000 + 5
    with pytest.raises(TypeError, match=r"advance\(seconds=5\)"):
        kafka.clock.advance(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="time does not go back"):
        kafka.clock.advance(-timedelta(days=1))


def test_time_that_passes_in_vain_tells_what_there_was_and_what_is_next(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.puppet("billing", topics=["orders"]).wait_owned()
    kafka.clock.freeze()
    with pytest.raises(BarrierTimeout) as raised:
        kafka.clock.run_until(lambda: False, within_days=0.01)
    first, due, group = str(raised.value).splitlines()
    assert first.startswith("the clock has gone 0.01 days ahead, and the condition is still false")
    assert re.fullmatch(r"Of what .*, something in [\d.]+ s would fall due next\.", due)
    assert group.startswith("billing is Stable in generation 1 with 1 member")


def test_a_condition_that_waits_for_the_broker_in_its_own_thread_is_told(kafka: Kafka) -> None:
    puppet = kafka.puppet("billing", topics=["orders"])
    with pytest.raises(RuntimeError, match="the broker's own thread cannot wait for the broker"):
        kafka.clock.run_until(lambda: puppet.owned)


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
