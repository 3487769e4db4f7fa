"""Which commits were lost in a rebalance?

The history contains every rejected commit, with its member, offset and error.
"""

import threading


def test_the_rejected_commits_of_a_rebalance_are_known(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one"])
    begun, can_continue = threading.Event(), threading.Event()

    def charge(order):
        begun.set()
        can_continue.wait(10)

    start(kafka, charge)
    assert begun.wait(10)
    group = kafka.group("billing")
    group.expire("billing")
    can_continue.set()
    group.wait_committed("orders", 0, 1)

    (lost,) = kafka.history.rejected_commits("billing")
    assert (lost.topic, lost.partition, lost.offset) == ("orders", 0, 1)
    assert lost.error in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
    assert [each.offset for each in group.commits] == [1]
