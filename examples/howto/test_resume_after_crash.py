"""Does the service resume from its committed offset after a crash?

A crashed process does not leave its group, which waits until the session expires: by default after
10 seconds with aiokafka, and 45 seconds with most other clients. The test drops the LeaveGroup, and
advances the broker's clock past the session timeout.
"""


def test_a_crashed_consumer_is_replaced(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one", "two"])
    charged = []
    group = kafka.group("billing")
    crashed = start(kafka, charged.append)
    group.wait_committed("orders", 0, 2)
    kafka.faults.drop("LeaveGroup")
    crashed.stop()
    assert len(group.members) == 1  # it has not left

    kafka.topic("orders").produce(["three"])
    kafka.clock.advance(seconds=46)
    start(kafka, charged.append)
    group.wait_committed("orders", 0, 3)
    assert charged == [b"one", b"two", b"three"]
