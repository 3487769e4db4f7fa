"""What becomes of the work of a consumer that takes too long and is kicked out?

It is charged again by whoever has the partition then, and the late commit is refused.
"""

import threading


def test_the_work_of_a_slow_consumer_is_done_again(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one"])
    begun, may_go_on, charged = threading.Event(), threading.Event(), []

    def slow(order):
        begun.set()
        may_go_on.wait(10)
        charged.append(order)

    service = start(kafka, slow, client_id="slow")
    assert begun.wait(10)
    kafka.group("billing").expire("slow")
    may_go_on.set()
    kafka.group("billing").wait_committed("orders", 0, 1)
    assert charged == [b"one", b"one"]
    assert service.refused_commits == 1
