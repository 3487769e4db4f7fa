"""Classic members in groups of the consumer protocol."""

from ..members import ConsumerMember, Member, subscribed
from ..scenario import consumer_scenario
from ..script import Script

ORDERS = subscribed("orders")


async def mixed(s: Script, **options: int | str | None) -> tuple[ConsumerMember, Member]:
    """Return a consumer A and a classic member B, each with one partition of `orders`."""
    a = await s.consumer("A", server_assignor="range").joined()
    b = await s.member("B", protocols=ORDERS, member_id="B", **options).joined()
    await a.report()
    await a.report()
    await b.sync()
    await b.heartbeat()
    await b.rebalance()
    return a, b


@consumer_scenario("mixed: a classic member joins consumers, in two steps")
async def a_classic_member_joins_consumers(s: Script) -> None:
    a = await s.consumer("A").joined()
    b = await s.member("B", protocols=subscribed("payments")).joined()
    await s.describe_consumers()
    await b.join()
    await s.describe_consumers()
    await b.sync()
    await b.heartbeat()
    await a.heartbeat()
    await s.describe_consumers()
    await s.list()


@consumer_scenario("mixed: a member waits for partitions, and has to rejoin")
async def a_classic_member_waits_for_partitions(s: Script) -> None:
    a = await s.consumer("A", server_assignor="range").joined()
    b = await s.member("B", protocols=ORDERS, member_id="B").joined()
    await b.heartbeat()
    await b.sync()
    await b.heartbeat()
    await a.heartbeat()
    await b.heartbeat()
    await a.report()
    await s.describe_consumers()
    await b.heartbeat()
    await b.heartbeat()
    await b.join()
    await b.heartbeat()
    await b.sync()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("mixed: joins in every version")
async def classic_members_of_every_version_join_consumers(s: Script) -> None:
    for version in range(10):
        group = f"{s.group}/{version}"
        await s.consumer("A").join(group_id=group)
        b = s.member(f"B{version}", protocols=subscribed("payments"))
        await b.join(version, group_id=group)
        if version >= 4:
            await b.join(version, group_id=group)
        await b.sync(version=min(version, 5), group_id=group)
        await b.heartbeat(min(version, 4), group_id=group)


@consumer_scenario("mixed: a member id that the group does not know is accepted")
async def a_classic_member_joins_consumers_with_its_own_id(s: Script) -> None:
    await s.consumer("A").join()
    await s.member("B", protocols=subscribed("payments"), member_id="anything").rebalance()
    await s.describe_consumers()


@consumer_scenario("mixed: joins that are rejected")
async def classic_members_are_rejected_by_consumers(s: Script) -> None:
    await s.consumer("A").join()
    b = s.member("B", protocols=ORDERS, member_id="B")
    await b.join(protocol_type="connect")
    await b.join(protocol_type="")
    await b.join(protocols=())
    await b.join(session_timeout=1)
    await b.join(session_timeout=1_800_001)
    await b.join(group_id="")
    await b.join(protocols=(("range", b"r"),))
    await b.join(protocols=(("range", b""),))
    await b.join(protocols=(("range", b"\x00\x03\x00\x00\x00\x01"),))
    await b.join(protocols=(("range", b"\x00\x63\x00\x00\x00\x00\x00\x00\x00\x00"),))
    await s.describe_consumers()


@consumer_scenario("mixed: classic members need a common protocol")
async def classic_members_without_a_common_protocol(s: Script) -> None:
    await s.consumer("A").join()
    b = s.member("B", protocols=subscribed("payments", protocol="range"), member_id="B")
    await b.join()
    c = s.member("C", protocols=subscribed("payments", protocol="sticky"), member_id="C")
    await c.join()
    both = (*c.protocols, *subscribed("payments", protocol="range"))
    await c.join(protocols=both)
    await c.sync()
    await c.sync(protocol_name="range")
    await b.join(protocols=c.protocols)
    await s.describe_consumers()


@consumer_scenario("mixed: a join without changes keeps the generation")
async def a_classic_member_rejoins_without_changes(s: Script) -> None:
    a, b = await mixed(s)
    await b.join()
    await a.heartbeat()
    await b.heartbeat()
    await b.sync()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("mixed: a changed subscription starts a new epoch")
async def a_classic_member_changes_its_subscription(s: Script) -> None:
    a, b = await mixed(s)
    await b.join(protocols=subscribed("orders", "unknown"))
    await b.sync()
    await a.heartbeat()
    await s.describe_consumers()
    await b.join(protocols=subscribed("payments"))
    await b.sync()
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("mixed: other changes in a rejoin")
async def a_classic_member_changes_other_fields(s: Script) -> None:
    _, b = await mixed(s)
    await b.join(protocols=subscribed("orders", rack="r1"))
    await b.join(rebalance_timeout=30_000)
    await b.join(session_timeout=30_000)
    await b.join(protocols=subscribed("orders", version=1))
    await b.sync()
    await s.describe_consumers()


@consumer_scenario("mixed, cooperative: the owned partitions determine the assignment")
async def a_cooperative_member_in_a_mixed_group(s: Script) -> None:
    def owning(*partitions: int) -> tuple[tuple[str, bytes], ...]:
        owned = {"shipments": partitions}
        return tuple(subscribed("shipments", owned=owned, generation=b.generation))

    b = s.member("B", member_id="B")
    a = await s.consumer("A", "shipments", server_assignor="range").joined()
    await a.leave(-1)
    a = await s.consumer("A", "payments", server_assignor="range").joined()
    await b.join(protocols=owning())
    await b.sync()
    c = await s.consumer("C", "shipments", server_assignor="range").joined()
    await b.heartbeat()
    await b.join(protocols=owning(0, 1, 2, 3, 4, 5))
    await b.sync()
    await b.heartbeat()
    await c.heartbeat()
    await b.join(protocols=owning(0, 1, 2, 3))
    await b.sync()
    await b.join(protocols=owning(0, 1, 2))
    await b.sync()
    await b.heartbeat()
    await c.heartbeat()
    await s.describe_consumers()


@consumer_scenario("mixed, eager: a join that lists no owned partitions gives up all partitions")
async def an_eager_member_in_a_mixed_group(s: Script) -> None:
    await s.consumer("A", "payments", server_assignor="range").join()
    b = await s.member("B", protocols=subscribed("shipments", version=0), member_id="B").rebalance()
    c = await s.consumer("C", "shipments", server_assignor="range").joined()
    await c.heartbeat()
    await b.heartbeat()
    await s.describe_consumers()
    await b.join()
    await s.describe_consumers()
    await c.heartbeat()
    await b.sync()
    await b.heartbeat()


@consumer_scenario("mixed: rejected syncs")
async def syncs_in_a_mixed_group(s: Script) -> None:
    a, b = await mixed(s)
    await b.sync(member_id="stranger")
    await b.sync(member_id="A")
    await b.sync(generation_id=b.generation + 1)
    await b.sync(generation_id=b.generation - 1)
    await b.sync(generation_id=-1)
    await b.sync(protocol_name="sticky")
    await b.sync(protocol_name=None)
    await b.sync(protocol_type="connect")
    await b.sync(protocol_type=None)
    await b.sync(group_instance_id="i1")
    await b.sync({b: "mine"})
    await a.heartbeat(subscribed_topic_names=("orders", "payments"))
    await b.sync()
    await b.heartbeat()
    await b.sync()


@consumer_scenario("mixed: syncs in every version")
async def syncs_of_every_version_in_a_mixed_group(s: Script) -> None:
    _, b = await mixed(s)
    for version in range(6):
        await b.sync(version=version)


@consumer_scenario("mixed: rejected heartbeats")
async def heartbeats_in_a_mixed_group(s: Script) -> None:
    a, b = await mixed(s)
    for version in range(5):
        await b.heartbeat(version)
        await b.heartbeat(version, member_id="stranger")
        await b.heartbeat(version, member_id="A", generation_id=3)
        await b.heartbeat(version, generation_id=b.generation + 1)
        await b.heartbeat(version, generation_id=b.generation - 1)
    await b.heartbeat(group_instance_id="i1")
    await a.heartbeat(member_id="B", member_epoch=b.generation)
    await a.heartbeat(member_id="B", member_epoch=-1)
    await s.describe_consumers()


@consumer_scenario("mixed: when the response to a heartbeat requires a rejoin")
async def heartbeats_of_a_classic_member_during_rebalances(s: Script) -> None:
    a, b = await mixed(s)
    c = await s.consumer("C", "payments", server_assignor="range").joined()
    await b.heartbeat()
    await b.heartbeat()
    await b.join()
    await b.heartbeat()
    await b.sync()
    await c.leave()
    await b.heartbeat()
    await a.heartbeat()
    await b.heartbeat()
    await b.rebalance()
    await b.heartbeat()


@consumer_scenario("mixed: leaving, in every version")
async def classic_members_leave_a_mixed_group(s: Script) -> None:
    await s.consumer("A").join()
    for version in range(6):
        b = await s.member("B", protocols=subscribed("payments"), member_id="B").joined()
        await b.leave(version)
        await b.leave(version)
    await s.describe_consumers()
    await s.list()


@consumer_scenario("mixed: members of both protocols leave in one request")
async def members_of_both_protocols_leave_at_once(s: Script) -> None:
    await s.consumer("A", instance="i1", server_assignor="range").join()
    await s.member("B", protocols=ORDERS, instance="i2").join()
    await s.consumer("C", server_assignor="range").join()
    d = await s.member("D", protocols=ORDERS, member_id="D").joined()
    await s.leave(("", "i1"), ("", "i2"), (d.id, None), ("stranger", None))
    await s.describe_consumers()


@consumer_scenario("mixed: the session timeout is the member's own")
async def a_classic_member_of_a_mixed_group_expires(s: Script) -> None:
    a, b = await mixed(s, session_ms=2000)
    await s.pass_ms(1000)
    await b.heartbeat()
    await s.pass_ms(1500)
    await s.describe_consumers()
    await s.until_members(1)
    await a.heartbeat()
    await b.heartbeat()


@consumer_scenario("mixed: a member that does not sync within its rebalance timeout")
async def a_classic_member_does_not_sync(s: Script) -> None:
    await s.consumer("A").join()
    b = s.member("B", protocols=subscribed("payments"), member_id="B", rebalance_ms=1500)
    await b.join()
    await s.pass_ms(700)
    await b.heartbeat()
    await s.until_members(1)
    await b.sync()
    await s.describe_consumers()


@consumer_scenario("mixed: a member that does not rejoin within its rebalance timeout")
async def a_classic_member_does_not_rejoin(s: Script) -> None:
    a, b = await mixed(s, rebalance_ms=1500)
    await a.heartbeat(subscribed_topic_names=("orders", "payments"))
    await s.pass_ms(2000)
    await b.heartbeat()
    await s.pass_ms(700)
    await b.heartbeat()
    await s.until_members(1)
    await b.join()
    await s.describe_consumers()


@consumer_scenario("mixed, static: joins, in one step; syncs; leaves by instance")
async def a_static_classic_member_joins_consumers(s: Script) -> None:
    await s.consumer("A").join()
    for version in range(5, 10):
        b = s.member(f"B{version}", protocols=subscribed("payments"), instance=f"i{version}")
        await b.join(version)
        await b.sync()
        await s.leave(("", f"i{version}"))
    await s.list()


@consumer_scenario("mixed, static: a classic member returns under a new id")
async def a_static_classic_member_returns_to_a_mixed_group(s: Script) -> None:
    await s.consumer("A").join()
    b = await s.member("B", protocols=subscribed("payments"), instance="i1").rebalance()
    again = await s.member("B", protocols=subscribed("payments"), instance="i1").joined()
    await b.heartbeat()
    await b.rebalance()
    await b.commit()
    await again.sync()
    await again.heartbeat()
    await s.describe_consumers()


@consumer_scenario("mixed, static: ids that do not match")
async def static_classic_members_with_ids_that_do_not_match(s: Script) -> None:
    await s.consumer("A", instance="i1").join()
    b = await s.member("B", protocols=subscribed("payments"), instance="i2").rebalance()
    for member_id, instance in ((b.id, "i9"), ("stranger", "i2"), ("A", "i2"), (b.id, "i1")):
        wrong = {"member_id": member_id, "group_instance_id": instance}
        await b.heartbeat(**wrong)
        await b.sync(**wrong)
        await s.leave((member_id, instance))
    await b.join(member_id="stranger")
    await b.join(group_instance_id="i9")
    await s.describe_consumers()


@consumer_scenario("mixed, static: an empty instance id is an instance id")
async def a_static_classic_member_with_an_empty_instance_id(s: Script) -> None:
    await s.consumer("A").join()
    b = await s.member("B", protocols=subscribed("payments"), instance="").joined()
    await s.describe_consumers()
    await b.rebalance()
    await b.heartbeat()
    await s.leave(("", ""))
    await s.describe_consumers()


@consumer_scenario("mixed, static: a classic member takes over from a consumer")
async def a_static_consumer_is_replaced_by_a_classic_member(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    await s.consumer("C", "payments").join()
    b = await s.member("B", protocols=ORDERS, instance="i1").joined()
    await s.describe_consumers()
    await a.heartbeat()
    await b.sync()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("mixed, static: a classic member takes over from an absent consumer")
async def an_absent_static_consumer_is_replaced_by_a_classic_member(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    await s.consumer("C", "payments").join()
    await a.leave(-2)
    await s.member("B", protocols=ORDERS, instance="i1").rebalance()
    await s.describe_consumers()


@consumer_scenario("mixed, static: a consumer takes over from a classic member, and vice versa")
async def a_static_classic_member_is_replaced_by_a_consumer(s: Script) -> None:
    await s.consumer("C", "payments").join()
    b = await s.member("B", protocols=ORDERS, instance="i1").rebalance()
    a = await s.consumer("A", instance="i1").joined()
    await s.describe_consumers()
    await b.heartbeat()
    await a.report()
    await s.member("B", protocols=ORDERS, instance="i1").rebalance()
    await s.describe_consumers()


@consumer_scenario("mixed: a dynamic member changes from classic to consumer and back")
async def a_dynamic_member_changes_its_protocol(s: Script) -> None:
    _, b = await mixed(s)
    c = await s.consumer("B", server_assignor="range").joined()
    await s.describe_consumers()
    await b.heartbeat()
    await c.heartbeat()
    await b.rebalance()
    await c.heartbeat()
    await s.describe_consumers()


@consumer_scenario("mixed: commits and fetches by a classic member")
async def a_classic_member_of_a_mixed_group_commits(s: Script) -> None:
    a, b = await mixed(s)
    for version in (2, 7, 8, 9, 10):
        await b.commit(version, version)
    generation = b.generation
    for wrong in (generation + 1, generation - 1, generation - 2, 0, -1):
        for version in (8, 9):
            await b.commit(1, version, generation_id_or_member_epoch=wrong)
    await b.commit(1, member_id="stranger")
    await b.commit(1, member_id="A")
    await s.fetch()
    await a.heartbeat(subscribed_topic_names=("orders", "payments"))
    await b.commit(2)
    await b.heartbeat()
    await b.commit(3)
    await b.join()
    await b.commit(4)
    for epoch in (b.generation, generation, generation - 1):
        group = {"group_id": s.group, "member_id": "B", "member_epoch": epoch, "topics": None}
        await s.send("OffsetFetch", 9, {"groups": [group]})


@consumer_scenario("mixed: deletion of offsets and groups")
async def offsets_of_a_mixed_group_are_deleted(s: Script) -> None:
    a = await s.consumer("A", "payments").joined()
    b = await s.member("B", protocols=ORDERS, member_id="B").joined()
    await a.commit(1, topics=[("orders", 0, ""), ("payments", 0, ""), ("shipments", 0, "")])
    await s.delete_offsets(orders=(0,), payments=(0,), shipments=(0,))
    await s.delete()
    await b.leave()
    await s.delete_offsets(orders=(0,), payments=(0,))


@consumer_scenario("mixed: classic members request no server assignor")
async def the_assignor_of_a_mixed_group(s: Script) -> None:
    a = await s.consumer("A", "payments", server_assignor="range").joined()
    await s.member("B", protocols=ORDERS, member_id="B").join()
    await s.member("C", protocols=ORDERS, member_id="C").join()
    await s.describe_consumers()
    await a.heartbeat(server_assignor="uniform")
    await s.describe_consumers()


@consumer_scenario("mixed: a topic is created after a classic member has subscribed to it")
async def a_topic_of_a_classic_member_is_created(s: Script) -> None:
    b = s.member("B", protocols=subscribed("orders", f"{s.group}.topic"), member_id="B")
    a = await s.consumer("A", "payments").joined()
    await b.join(protocols=ORDERS)
    await b.sync()
    topic = await s.topic(1)
    await b.join(protocols=subscribed(topic))
    await b.heartbeat()
    await s.describe_consumers()
    await s.add_partitions(topic, 2)
    await b.heartbeat()
    await a.heartbeat()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("interval: a classic member waits for its assignment")
async def a_classic_member_joins_within_the_interval(s: Script) -> None:
    await s.configure(assignment_interval_ms="3000")
    a = await s.consumer("A", server_assignor="range").joined()
    b = await s.member("B", protocols=ORDERS, member_id="B").rebalance()
    await b.heartbeat()
    await s.describe_consumers()
    await s.pass_ms(4000)
    await b.heartbeat()
    await a.heartbeat()
    await b.heartbeat()
    await b.rebalance()
    await s.describe_consumers()
