"""What happens to the work of a consumer that is too slow and is removed from the group?

The new owner of the partition repeats the work, and the late commit is rejected. A client that does
not poll sends heartbeats, but does not rejoin. A rebalance waits for such a client for at most the
longest max.poll.interval.ms of the members, five minutes by default, and then continues without it.
`clock.advance` would end the client's session first, because no client sends heartbeats during the
jump; `advance_with_heartbeats` waits for heartbeats. (The client itself leaves after
max.poll.interval.ms of wall-clock time. To test that, set a short interval.)"""

import pytest
from kafka import KafkaConsumer
from kafka.errors import CommitFailedError


def test_the_work_of_a_slow_consumer_is_repeated(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one"])
    slow = KafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        group_id="billing",
        client_id="slow",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,
    )
    assert slow.poll(10_000)

    charged = []
    start(kafka, charged.append)
    group = kafka.group("billing")
    kafka.wait(lambda: group.state == "PreparingRebalance")
    kafka.clock.advance_with_heartbeats(minutes=5, seconds=1)
    assert [(each.client_id, each.cause) for each in group.exits] == [("slow", "rebalance timeout")]

    group.wait_committed("orders", 0, 1)
    assert charged == [b"one"]
    kafka.client_checks.ignore("zombie commit")  # by the slow consumer
    with pytest.raises(CommitFailedError):
        slow.commit()
    slow.close()
