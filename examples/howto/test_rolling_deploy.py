"""Does a rolling deploy of static members (`group.instance.id`) avoid rebalances?"""


def test_restarts_of_static_members_cause_no_rebalance(kafka, start):
    kafka.topic("orders", partitions=2)
    names = ("till-1", "till-2")
    charged = []
    running = {name: start(kafka, charged.append, group_instance_id=name) for name in names}
    group = kafka.group("billing").wait_stable(members=2)
    owners = {p: group.owner("orders", p).instance_id for p in (0, 1)}
    generation = group.generation

    for name in names:
        running[name].stop()
        running[name] = start(kafka, charged.append, group_instance_id=name)
        kafka.wait_request("OffsetFetch", after=kafka.history.requests[-1].number)

    assert group.generation == generation
    assert {p: group.owner("orders", p).instance_id for p in (0, 1)} == owners
