"""Does a group switch from eager to cooperative rebalancing in two rolling deploys?

The first deploy adds `cooperative-sticky` to the members' assignors, and the second deploy removes
the old assignor. The group uses an assignor that all members support.
"""


def test_a_group_becomes_cooperative_in_two_deploys(kafka):
    kafka.topic("orders", partitions=4)
    group = kafka.group("billing")

    def deploy(*assignors):
        members = [
            kafka.fake_member(
                "billing", topics=["orders"], assignor=assignors, client_id=f"till-{number}"
            )
            for number in (1, 2)
        ]
        group.wait_stable()
        return members

    old = deploy("range")
    group.wait_stable(members=2)
    both = deploy("cooperative-sticky", "range")
    for member in old:
        member.leave()
    group.wait_stable(members=2)
    new = deploy("cooperative-sticky")
    for member in both:
        member.leave()
    group.wait_stable(members=2)

    assert group.generations[-1].protocol == "cooperative-sticky"
    assert sorted(partition for member in new for partition in member.owned) == [
        ("orders", number) for number in range(4)
    ]
