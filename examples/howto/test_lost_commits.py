"""Exactly which commits did a rebalance lose?

The history knows every commit that was refused: by whom, for which offsets, and why.
"""

import threading


def test_the_commits_that_a_rebalance_cost_are_known(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one"])
    begun, may_go_on = threading.Event(), threading.Event()

    def charge(order):
        begun.set()
        may_go_on.wait(10)

    start(kafka, charge)
    assert begun.wait(10)
    group = kafka.group("billing")
    group.expire("billing")
    may_go_on.set()
    group.wait_committed("orders", 0, 1)

    (lost,) = [each for each in kafka.history.requests_of("OffsetCommit") if each.errors]
    assert lost.offsets == {("orders", 0): 1}
    assert lost.errors[0] in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION")
    assert [each.offset for each in group.commits] == [1]
