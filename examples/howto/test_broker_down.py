"""Does the service survive a broker that is down for ten seconds?

The service's connections are refused during that time. Instead of waiting ten seconds, the test
advances the broker's clock, which also determines when sessions expire.
"""


def test_nothing_is_lost_or_charged_twice_while_the_broker_is_down(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one"])
    charged = []
    start(kafka, charged.append)
    group = kafka.group("billing")
    group.wait_committed("orders", 0, 1)
    with kafka.broker_down():
        kafka.clock.advance(seconds=10)
    kafka.topic("orders").produce(["two"])
    group.wait_committed("orders", 0, 2)
    assert charged == [b"one", b"two"]
