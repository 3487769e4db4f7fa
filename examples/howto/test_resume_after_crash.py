"""Does the service go on after a crash where it had committed?

A crashed process says no goodbye: its group waits for its session to end, 45 seconds by default.
Here its LeaveGroup is dropped, and the broker's clock jumps over the session.
"""


def test_a_crashed_consumer_is_replaced(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one", "two"])
    charged = []
    group = kafka.group("billing")
    crashed = start(kafka, charged.append)
    group.wait_committed("orders", 0, 2)
    kafka.faults.drop("LeaveGroup")
    crashed.stop()
    assert len(group.members) == 1  # nobody has told the broker

    kafka.topic("orders").produce(["three"])
    kafka.clock.advance(seconds=46)
    start(kafka, charged.append)
    group.wait_committed("orders", 0, 3)
    assert charged == [b"one", b"two", b"three"]
