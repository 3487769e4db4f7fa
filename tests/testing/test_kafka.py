"""`Kafka`: topics, groups, waits, the clock, and the messages of its exceptions."""

import math
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import kohort.testing
import pytest
from kohort.testing import BarrierTimeout, Kafka
from kohort.testing.loop_thread import iterations

from .conftest import Service


@pytest.mark.clients
def test_a_test_waits_for_a_consumer_and_inspects_it(kafka: Kafka, service: Service) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    assert group.wait_committed("orders", 0, 3) == 3
    assert group.owner("orders", 0).client_id == "service"  # type: ignore[union-attr]
    assert [(c.before, c.offset) for c in group.commits] == [(None, 1), (1, 2), (2, 3)]
    assert [g.cause for g in group.generations] == ["member joined"]
    commit = kafka.wait_request("OffsetCommit", group="billing")
    assert (commit.client_id, commit.partitions) == ("service", (("orders", 0),))
    assert commit.errors == ()


def test_a_barrier_timeout_explains_the_group(kafka: Kafka) -> None:
    with pytest.raises(BarrierTimeout) as raised:
        kafka.group("billing").wait_stable(members=1, timeout=0.01)
    assert str(raised.value) == (
        "timed out after 0.01 s waiting for group billing to be Stable with 1 member\n"
        "Group billing does not exist: it has neither members nor committed offsets. "
        f"No client has sent a request to {kafka.bootstrap_servers} (bootstrap_servers).\n"
        "  no request has mentioned this group"
    )


def test_run_until_advances_the_clock_to_the_condition(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", topics=["orders"])
    group = kafka.group("billing").wait_stable(members=1)
    fake.suspend()
    before = kafka.clock.now_ms
    kafka.clock.run_until(lambda: group.state == "Empty")
    assert 40_000 < kafka.clock.now_ms - before < 60_000


def test_a_condition_outside_the_broker_is_polled(kafka: Kafka) -> None:
    calls: list[bool] = []

    def is_third_call() -> bool:
        calls.append(True)
        return len(calls) == 3

    # Without polling there would be only one more call, after the timeout.
    kafka.wait(is_third_call, timeout=60)


def test_a_timeout_may_be_infinite(kafka: Kafka) -> None:
    kafka.fake_member("billing", topics=["orders"])
    assert kafka.group("billing").wait_stable(timeout=math.inf).generation == 1


def test_a_condition_is_checked_once_more_after_the_timeout(kafka: Kafka) -> None:
    calls: list[bool] = []

    def is_second_call() -> bool:
        calls.append(True)
        return len(calls) == 2

    # Shorter than the time between two checks, and long enough for a busy machine.
    kafka.wait(is_second_call, timeout=0.009)


def test_a_stopped_broker_can_be_stopped_again() -> None:
    with Kafka() as kafka:
        kafka.stop()
        with pytest.raises(RuntimeError, match="The broker is not started, or was stopped"):
            _ = kafka.group("billing").state


def test_a_broker_without_an_address_says_that_it_is_not_started(kafka: Kafka) -> None:
    other = Kafka(port=kafka.broker.port)
    assert repr(other) == "<Kafka at no address yet>"
    with pytest.raises(RuntimeError, match="The broker is not started"):
        _ = other.bootstrap_servers
    message = rf"Address already in use: port {kafka.broker.port} on 127\.0\.0\.1"
    with pytest.raises(OSError, match=message):
        other.start()


def test_a_barrier_for_an_unknown_partition_says_so(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("g")
    with pytest.raises(BarrierTimeout, match=r"topic order does not exist: did you mean orders\?"):
        group.wait_committed("order", 0, timeout=0.01)
    with pytest.raises(BarrierTimeout, match="orders has no partition 1: the first is 0"):
        group.wait_owner("orders", 1, timeout=0.01)


def test_a_barrier_for_an_unknown_member_says_so(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    with pytest.raises(BarrierTimeout, match=r"it has no member 'tell'; its members: none\)\n"):
        group.wait_owner("orders", 0, "tell", timeout=0.01)
    kafka.fake_member("billing", topics=["orders"], client_id="till")
    with pytest.raises(
        BarrierTimeout,
        match=r"offset 3 of orders-0 \(committed offset: none; log end offset: 0; owner: till\)\n",
    ):
        group.wait_committed("orders", 0, 3, timeout=0.01)
    with pytest.raises(
        BarrierTimeout,
        match=r"no member 'tell'; its members: till \(till-[-0-9a-f]+\) owns orders-0\)\n",
    ):
        group.wait_owner("orders", 0, "tell", timeout=0.01)
    assert group.wait_owner("orders", 0, "till", timeout=0.01).is_leader


def test_an_unknown_api_is_rejected(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match=r"Unknown API 'OffsetComit': did you mean OffsetCommit\?"):
        kafka.wait_request("OffsetComit")
    with pytest.raises(ValueError, match="Unknown API 'OffsetComit'"):
        kafka.history.requests_of("OffsetComit")


def test_a_wait_for_no_request_is_rejected(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="count must be at least 1, not 0"):
        kafka.wait_request("Fetch", count=0)


def test_produce_rejects_values_of_other_types(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=1)
    with pytest.raises(TypeError, match=r"takes a list of values: produce\(\['tea'\]\)"):
        orders.produce("tea")
    with pytest.raises(
        TypeError, match=r"must be bytes, str or None, not \{'tea': 1\}: serialize it"
    ):
        orders.produce([{"tea": 1}])  # type: ignore[list-item]
    assert orders.records() == []


def test_a_record_has_headers_timestamp_and_partition(kafka: Kafka) -> None:
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
    ("values", "options", "message"),
    [
        (
            [("a", "tea", "7")],
            {},
            r"A record is a value or \(key, value\), not \('a', 'tea', '7'\)",
        ),
        ({"a": "tea"}, {}, r"takes a list of values: produce\(\[\('a', 'tea'\)\]\)"),
        (5, {}, r"takes a list of values: produce\(\[5\]\)"),
        (["tea"], {"headers": {"trace": 7}}, "bytes, str or None, not 7"),
        (["tea"], {"headers": ["trace"]}, r"Headers must be \{name: value\} or .* not 'trace'"),
        (["tea"], {"timestamp_ms": 0.5}, "timestamp_ms must be an integer, not 0.5"),
    ],
)
def test_produce_explains_what_is_wrong_with_its_arguments(
    kafka: Kafka, values: Any, options: dict[str, Any], message: str
) -> None:
    orders = kafka.topic("orders", partitions=1)
    with pytest.raises(TypeError, match=message):
        orders.produce(values, **options)
    assert orders.records() == []


def test_a_rejected_record_raises_the_message_of_the_broker(kafka: Kafka) -> None:
    prices = kafka.topic("prices", partitions=1, config={"cleanup.policy": "compact"})
    with pytest.raises(ValueError, match="Topic prices: INVALID_RECORD: Compacted topic cannot"):
        prices.produce(["tea"])


def test_an_unknown_configuration_key_is_rejected() -> None:
    with pytest.raises(
        ValueError, match=r"unknown configuration key .*: did you mean group.max.size\?"
    ):
        Kafka(config={"group.max.sise": "2"})
    with pytest.warns(UserWarning, match="without effect in kohort: sasl.kerberos"):
        Kafka(config={"sasl.kerberos.service.name": "kafka"})


def test_configuration_values_may_be_numbers_and_bools() -> None:
    config = {"group.max.size": 2, "auto.create.topics.enable": False, "num.partitions": 3.0}
    with Kafka(config=config) as kafka:
        topic = kafka.topic("orders", config={"retention.ms": 1, "preallocate": True})
        assert topic.partitions == 3
        texts = kafka.call(lambda broker: [broker.config.text(key) for key in config])
        assert texts == ["2", "false", "3"]
        overrides = kafka.call(lambda broker: broker.node.topics.get("orders").overrides)
        assert overrides == {"retention.ms": "1", "preallocate": "true"}
    with pytest.raises(
        TypeError, match=r"group\.max\.size must be a string, a number or a bool, not"
    ):
        Kafka(config={"group.max.size": None})  # type: ignore[dict-item]


def test_an_unknown_durability_is_rejected() -> None:
    with pytest.raises(ValueError, match="Unknown durability 'sync': use one of fsync, os, none"):
        Kafka(durability="sync")  # type: ignore[arg-type]


def test_starting_a_started_broker_raises(kafka: Kafka) -> None:
    with pytest.raises(RuntimeError, match="already running: `with` and the fixtures"):
        kafka.start()
    assert kafka.group("billing").state == "Dead"


def test_objects_of_the_harness_have_a_repr(kafka: Kafka) -> None:
    at = f"<Kafka at {kafka.bootstrap_servers}>"
    fault = kafka.faults.drop("OffsetCommit", group="g", times=2)
    assert repr(fault) == (
        "<Fault OffsetCommit (group g): dropped, not applied, fired 0 of 2 times>"
    )
    fault.cancel()
    assert repr(kafka) == at
    assert repr(kafka.topic("orders")) == "<Topic orders>"
    assert "Kafka" in dir(kohort.testing)


def test_advance_takes_units_and_timedeltas(kafka: Kafka) -> None:
    kafka.clock.freeze()
    before = kafka.clock.now_ms
    kafka.clock.advance(timedelta(days=1), weeks=1, ms=5)
    assert kafka.clock.now_ms - before == 8 * 24 * 3600 * 1000 + 5
    with pytest.raises(TypeError, match=r"advance\(seconds=5\)"):
        kafka.clock.advance(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="The clock cannot go back"):
        kafka.clock.advance(-timedelta(days=1))


def test_the_timeout_of_run_until_shows_the_next_deadline(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.fake_member("billing", topics=["orders"]).wait_owned()
    kafka.clock.freeze()
    with pytest.raises(BarrierTimeout) as raised:
        kafka.clock.run_until(lambda: False, within_days=0.01)
    first, deadline, group = str(raised.value).splitlines()
    assert first.startswith("the condition is still false after advancing the clock by 0.01 days")
    next_ = r"Next deadline of a group, transaction or fake member: in [\d.]+ s"
    assert re.fullmatch(next_, deadline)
    assert group.startswith("Group billing is Stable in generation 1 with 1 member")


def test_a_condition_of_run_until_cannot_wait_for_the_broker(kafka: Kafka) -> None:
    fake = kafka.fake_member("billing", topics=["orders"])
    with pytest.raises(RuntimeError, match="cannot wait for the broker"):
        kafka.clock.run_until(lambda: fake.owned)


def test_a_reset_broker_is_empty(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2).produce([b"a"])
    before = kafka.bootstrap_servers
    kafka.reset()
    assert kafka.bootstrap_servers == before
    assert kafka.topic("orders", partitions=3).records() == []
    assert kafka.groups == []


def test_a_wait_continues_across_a_reset(kafka: Kafka) -> None:
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(kafka.group("billing").wait_stable, 1)
        kafka.reset()
        kafka.topic("orders", partitions=1)
        kafka.fake_member("billing", topics=["orders"])
        assert waits.result(10).state == "Stable"


def test_the_name_of_a_deleted_topic_can_be_reused(kafka: Kafka) -> None:
    for _ in range(3):
        kafka.topic("orders", partitions=100)
        kafka.topic("orders").delete()
        folders = kafka.call(lambda _broker: set(kafka.disk.files.folders))
        assert not [each for each in folders if each.name.startswith("orders-")]
    assert kafka.topic("orders", partitions=2).partitions == 2


def test_delete_waits_until_the_offsets_of_the_topic_are_removed(kafka: Kafka) -> None:
    topic = kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", ["orders"])
    fake.wait_owned()
    fake.commit("orders", 0, 1)
    with ThreadPoolExecutor(1) as pool:
        with kafka.group("billing").loading():
            deleted = pool.submit(topic.delete)
            while kafka.call(lambda broker: broker.node.topics.get("orders")) is not None:
                kafka.run(iterations(1))
            assert not deleted.done()
        deleted.result(10)
    assert kafka.group("billing").offsets == {}


def test_a_rejected_topic_raises_the_message_of_the_broker(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match=r"Topic orders: INVALID_CONFIG: .*retention\.ms"):
        kafka.topic("orders", config={"retention.ms": "for ever"})


def test_an_unknown_topic_config_has_a_suggestion(kafka: Kafka) -> None:
    message = r"^Topic orders: unknown topic config 'retention\.sm': did you mean retention\.ms\?$"
    with pytest.raises(ValueError, match=message):
        kafka.topic("orders", config={"retention.sm": "1"})
    assert kafka.topics == []


def test_wait_stable_rejects_a_topic(kafka: Kafka) -> None:
    with pytest.raises(TypeError, match=r"not 'orders': wait_stable\(members=1\); for the owner"):
        kafka.group("billing").wait_stable("orders", 1)  # type: ignore[arg-type]
