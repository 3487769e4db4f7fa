"""Do the rebalance callbacks of a confluent-kafka consumer run, and what happens to a late commit?

A confluent-kafka consumer belongs to one thread: only that thread polls, commits and closes it,
and its callbacks run there, within `poll`. The test waits on the group and on plain data.
`commit(asynchronous=False)` raises KafkaException, whose `args[0].code()` is Kafka's error code.
"""

import threading

from confluent_kafka import Consumer, KafkaError, KafkaException


class Till(threading.Thread):
    """Charges each order and commits it."""

    def __init__(self, kafka, charge):
        super().__init__()
        self.bootstrap_servers = kafka.bootstrap_servers
        self.charge = charge
        self.is_closing = threading.Event()
        self.events = []
        self.commit_errors = []

    def run(self):
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "billing",
                "client.id": "till",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,
            }
        )
        consumer.subscribe(
            ["orders"],
            on_assign=lambda _, partitions: self.events.append(("assigned", len(partitions))),
            on_revoke=lambda _, partitions: self.events.append(("revoked", len(partitions))),
            on_lost=lambda _, partitions: self.events.append(("lost", len(partitions))),
        )
        while not self.is_closing.is_set():
            if (order := consumer.poll(0.05)) is not None:
                self.charge(order.value())
                try:
                    consumer.commit(order, asynchronous=False)
                except KafkaException as error:
                    self.commit_errors.append(error.args[0].code())
        consumer.close()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_closing.set()
        self.join()


def test_callbacks_run_when_another_member_joins(kafka):
    kafka.topic("orders", partitions=2)
    with Till(kafka, charge=print) as till:
        group = kafka.group("billing").wait_stable(members=1)
        kafka.fake_member("billing", topics=["orders"])
        group.wait_stable(members=2)
        kafka.wait(lambda: len(till.events) == 3, "the callbacks of the second generation")
    assert till.events[:3] == [("assigned", 2), ("revoked", 2), ("assigned", 1)]


def test_a_late_commit_is_rejected_and_the_order_is_charged_again(kafka):
    kafka.topic("orders", partitions=1).produce(["one"])
    charged, can_continue = [], threading.Event()

    def charge(order):
        charged.append(order)
        can_continue.wait(10)

    with Till(kafka, charge) as till:
        kafka.wait(lambda: charged, "the first order")
        group = kafka.group("billing")
        group.expire("till")
        can_continue.set()
        group.wait_committed("orders", 0, 1)
    assert till.commit_errors[0] in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION)
    assert ("lost", 1) in till.events
    assert charged == [b"one", b"one"]
