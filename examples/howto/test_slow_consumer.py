"""What happens to the work of a consumer that is too slow and is removed from the group?

The new owner of the partition repeats it, and the late commit is rejected.
"""

import threading


def test_the_work_of_a_slow_consumer_is_repeated(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one"])
    begun, can_continue, charged = threading.Event(), threading.Event(), []

    def slow(order):
        begun.set()
        can_continue.wait(10)
        charged.append(order)

    service = start(kafka, slow, client_id="slow")
    assert begun.wait(10)
    kafka.group("billing").expire("slow")
    can_continue.set()
    kafka.group("billing").wait_committed("orders", 0, 1)
    assert charged == [b"one", b"one"]
    assert service.rejected_commits == 1
