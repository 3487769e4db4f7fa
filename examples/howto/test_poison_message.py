"""Does a poison message go to the dead letters, and one that fails once not?"""

from billing.service import Poison


def test_poison_is_put_aside_and_a_hiccup_is_tried_again(kafka, start):
    dead = kafka.topic("orders.dead", partitions=1)
    kafka.topic("orders", partitions=1).produce(["bad", "good"])
    hiccups = [TimeoutError("the bank is asleep")]

    def charge(order):
        if order == b"bad":
            raise Poison
        if hiccups:
            raise hiccups.pop()

    start(kafka, charge)
    kafka.group("billing").wait_committed("orders", 0, 2)
    assert [record.value for record in dead.records()] == [b"bad"]
    assert hiccups == []
