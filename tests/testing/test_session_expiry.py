"""The session of a consumer of each library expires when the broker's clock is advanced. As with
Kafka, the consumer learns of the expiration from the response to its next heartbeat. With
heartbeats, no session expires, however far the clock is advanced."""

import re
from contextlib import closing

import pytest
from confluent_kafka import Consumer
from kohort.testing import BarrierTimeout, Kafka
from kohort.testing.timeline.timeline import timeline

from ..clients.adapter import LIBRARIES, ConsumerSettings, load
from ..clients.consumers import BackgroundConsumer, Consumers
from .conftest import client_settings

pytestmark = pytest.mark.clients

SESSION_MS = 45_000


def expire(kafka: Kafka) -> str:
    """Returns the member that was removed before `advance` has returned."""
    group = kafka.group("billing").wait_stable(members=1)
    (member,) = group.members
    kafka.clock.advance(ms=SESSION_MS)
    (removed,) = group.exits
    assert (removed.member_id, removed.cause) == (member.member_id, "session expired")
    assert kafka.history.clock_changes[-1].expired == (member.member_id,)
    return member.member_id


def keep(kafka: Kafka) -> None:
    """Advances the clock by seven sessions, which the member survives."""
    group = kafka.group("billing").wait_stable(members=1)
    before = kafka.clock.now_ms
    kafka.clock.advance_with_heartbeats(minutes=5, seconds=1)
    assert kafka.clock.now_ms >= before + 301_000
    assert group.exits == []
    assert kafka.history.clock_changes[-1].expired == ()


def check_rejoined(kafka: Kafka, removed: str) -> None:
    """A heartbeat was rejected, and the client has rejoined as a new member."""
    (member,) = kafka.group("billing").wait_stable(members=1).members
    assert member.member_id != removed
    heartbeats = kafka.history.requests_of("Heartbeat", group="billing")
    rejected = [each for each in heartbeats if each.member_id == removed and each.errors]
    assert {each.errors for each in rejected} == {("UNKNOWN_MEMBER_ID",)}
    joins = kafka.history.requests_of("JoinGroup", group="billing")
    later_joins = [each for each in joins if each.number > rejected[0].number]
    assert [each.errors for each in later_joins[:2]] == [("MEMBER_ID_REQUIRED",), ()]
    assert later_joins[0].member_id is None


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_session_survives_five_minutes_of_heartbeats_and_expires_at_once_without(
    kafka: Kafka, library: str
) -> None:
    kafka.topic("orders", partitions=1).produce(["espresso"])
    settings = ConsumerSettings("billing", session_timeout_ms=SESSION_MS, heartbeat_interval_ms=30)
    with (
        closing(load(library)(kafka.bootstrap_servers)) as client,
        closing(BackgroundConsumer(client.consumer(settings))) as consumer,
    ):
        received = Consumers(consumer)
        consumer.subscribe("orders")
        received.until_count(1)
        keep(kafka)
        removed = expire(kafka)
        received.until_count(2)  # the same record, because nothing was committed
        check_rejoined(kafka, removed)


def test_a_client_that_sends_no_heartbeat_is_named_and_keeps_its_session(kafka: Kafka) -> None:
    timeouts = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": SESSION_MS // 2}
    consumer = Consumer(client_settings(kafka, group_id="billing", client_id="mute", **timeouts))
    kafka.topic("orders")
    consumer.subscribe(["orders"])
    group = kafka.group("billing")
    kafka.wait(lambda: consumer.poll(0) is None and group.state == "Stable")
    # The session has one millisecond left after the timeout.
    kafka.clock.freeze()
    with pytest.raises(BarrierTimeout, match=r"waiting for a heartbeat from mute-.*\n.*advance"):
        kafka.clock.advance_with_heartbeats(minutes=5, timeout=0.1)
    assert group.exits == []
    consumer.close()


def test_a_jump_past_the_session_of_a_connected_member_is_marked_in_the_timeline(
    kafka: Kafka,
) -> None:
    consumer = Consumer(client_settings(kafka, group_id="billing", client_id="live"))
    kafka.topic("orders")
    consumer.subscribe(["orders"])
    group = kafka.group("billing")
    kafka.wait(lambda: consumer.poll(0) is None and group.state == "Stable")
    kafka.fake_member("empty", ["orders"])
    kafka.clock.advance(seconds=301)
    (line,) = [line for line in timeline(kafka.history) if "clock advanced" in line]
    assert re.search(r"past the session timeout of live-\w+, whose client is connected", line)
    assert "clock.advance_with_heartbeats(" in line
    consumer.close()
    kafka.clock.advance(seconds=301)
    assert kafka.history.clock_changes[-1].expired == ()


@pytest.mark.parametrize("method", ["advance", "advance_with_heartbeats"])
def test_the_clock_needs_a_duration_with_a_unit(kafka: Kafka, method: str) -> None:
    advance = getattr(kafka.clock, method)
    with pytest.raises(TypeError, match="needs a duration"):
        advance()
    with pytest.raises(TypeError, match=r"use advance\(seconds=45\)"):
        advance(45)
    with pytest.raises(TypeError, match=r"Unknown unit second: did you mean seconds\?"):
        advance(second=45)
    with pytest.raises(ValueError, match="cannot go back: -1000 ms"):
        advance(seconds=-1)
