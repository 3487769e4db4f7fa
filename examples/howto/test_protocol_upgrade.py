"""Can a service move to the new group protocol (KIP-848) in a rolling deploy?

The group becomes a consumer group when the first upgraded instance joins; the others stay members
of the classic protocol until they are upgraded. An upgrade needs a client that supports
`group.protocol=consumer`. The group continues from its committed offsets, and no partition has two
owners.

A group of librdkafka consumers with `cooperative-sticky` cannot be upgraded in this way. Kafka and
kohort reject the first upgraded instance with GROUP_ID_NOT_FOUND ("an unsupported custom assignor
is in use"), because they convert only assignments without user data. From a member's second
generation on, a librdkafka leader copies the user data of the member's subscription (its owned
partitions and generation) into the member's assignment. Stop all instances of such a group, then
start them with the new protocol; an empty group is converted and keeps its offsets.
"""

import threading
from contextlib import ExitStack

from confluent_kafka import Consumer


class Worker(threading.Thread):
    """Handles orders, and commits each one after handling it."""

    def __init__(self, kafka, handled, name, protocol):
        super().__init__(name=name)
        self.handled, self.stopping = handled, threading.Event()
        settings = {"client.id": name, "group.id": "billing", "auto.offset.reset": "earliest"}
        settings |= {"bootstrap.servers": kafka.bootstrap_servers, "enable.auto.commit": False}
        if protocol == "classic":  # otherwise the broker sets the interval
            settings["heartbeat.interval.ms"] = 100
        self.consumer = Consumer({**settings, "group.protocol": protocol})
        self.consumer.subscribe(["orders"])
        self.start()

    def run(self):
        while not self.stopping.is_set():
            message = self.consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.handled.append(message.value())
                self.consumer.commit(message, asynchronous=False)
        self.consumer.close()

    def stop(self):
        self.stopping.set()
        self.join()


def test_a_rolling_upgrade_handles_every_order_once(kafka):
    kafka.topic("orders", partitions=4)
    handled, group, running = [], kafka.group("billing"), {}

    def handle_orders(*orders):
        group.wait_stable(members=2)
        kafka.topic("orders").produce(orders)
        kafka.wait(lambda: group.lag("orders") == 0, "all orders to be committed")

    with ExitStack() as stack:
        for name in ("till-1", "till-2"):
            running[name] = Worker(kafka, handled, name, "classic")
            stack.callback(running[name].stop)
        handle_orders("one", "two", "three", "four")

        for name, orders in (("till-1", ("five", "six")), ("till-2", ("seven", "eight"))):
            running[name].stop()
            running[name] = Worker(kafka, handled, name, "consumer")
            stack.callback(running[name].stop)
            handle_orders(*orders)
            protocols = {member.client_id: member.protocol for member in group.members}
            assert protocols[name] == "consumer"

    assert len(handled) == len(set(handled)) == 8
    owned = {}
    for each in sorted(group.assignments, key=lambda each: each.wall_s):
        for partition in each.partitions + each.revoking:
            until, owner = owned.get(partition, (0, ""))
            assert owner == each.member_id or until <= each.wall_s
            owned[partition] = each.until_wall_s or float("inf"), each.member_id
