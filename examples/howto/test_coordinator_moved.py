"""Does the service find its coordinator after the coordinator moves to another node?"""


def test_the_service_follows_its_coordinator(kafka_cluster, start):
    kafka = kafka_cluster(nodes=3)
    kafka.topic("orders", partitions=1).produce(["one"])
    charged = []
    start(kafka, charged.append)
    group = kafka.group("billing")
    group.wait_committed("orders", 0, 1)

    before = group.node_id
    group.move_to(before % 3 + 1)
    kafka.topic("orders").produce(["two"])
    group.wait_committed("orders", 0, 2)
    assert group.node_id != before
    assert charged == [b"one", b"two"]
