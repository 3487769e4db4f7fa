"""Does the service resume from its committed offset after a crash?

A crashed process does not leave its group, so the group waits until its session expires (after 45
seconds by default). Here its LeaveGroup is dropped, and the broker's clock is advanced past the
session timeout.
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
