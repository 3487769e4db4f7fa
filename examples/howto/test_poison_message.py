"""Does only a poison message go to the dead letter topic, and not one that fails once?"""

from billing.service import Poison


def test_poison_is_a_dead_letter_and_a_failed_charge_is_retried(kafka, start):
    dead = kafka.topic("orders.dead", partitions=1)
    kafka.topic("orders", partitions=1).produce(["bad", "good"])
    failures = [TimeoutError("the bank does not respond")]

    def charge(order):
        if order == b"bad":
            raise Poison
        if failures:
            raise failures.pop()

    start(kafka, charge)
    kafka.group("billing").wait_committed("orders", 0, 2)
    assert [record.value for record in dead.records()] == [b"bad"]
    assert failures == []
