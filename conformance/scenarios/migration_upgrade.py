"""Online upgrade: members of the consumer protocol join live classic groups."""

from ..members import Protocols, assignment, subscribed
from ..scenario import consumer_scenario, scenario
from ..script import Script, classic_group

ORDERS = subscribed("orders")


ONE = {"A": [0, 1]}
TWO = {"A": [0], "B": [1]}


@consumer_scenario("upgrade: a stable group of one member")
async def a_consumer_joins_a_stable_classic_group(s: Script) -> None:
    (a,) = await classic_group(s, ONE)
    b = await s.consumer("B", server_assignor="range").joined()
    await s.describe_consumers(0)
    await s.describe_consumers(1)
    await s.describe(6)
    await s.list()
    await a.heartbeat()
    await a.rebalance()
    await a.heartbeat()
    await b.heartbeat()
    await b.report()
    await s.describe_consumers()
    await a.heartbeat()


@consumer_scenario("upgrade: epochs continue from the generation")
async def the_epochs_of_an_upgraded_group(s: Script) -> None:
    a, b = await classic_group(s, TWO)
    await a.join()
    await b.join()
    await a.sync({a: assignment("orders", 0), b: assignment("orders", 1)})
    await b.sync()
    await s.consumer("C", server_assignor="range").join()
    await s.describe_consumers()


@consumer_scenario("upgrade: members in PreparingRebalance; waiting joins are rejected")
async def a_consumer_joins_a_classic_group_that_is_preparing(s: Script) -> None:
    a, b = await classic_group(s, TWO)
    await a.join(protocols=subscribed("orders", "unknown"))
    c = await s.consumer("C", server_assignor="range").joined()
    await s.describe_consumers()
    await b.heartbeat()
    await a.join(protocols=subscribed("orders", "unknown"))
    await b.join()
    await a.sync()
    await b.sync()
    await c.heartbeat()
    await s.describe_consumers()


@consumer_scenario("upgrade: members in CompletingRebalance; waiting syncs are rejected")
async def a_consumer_joins_a_classic_group_that_is_completing(s: Script) -> None:
    a, b = await s.joined("A", "B", protocols=ORDERS)
    await b.sync()
    await s.consumer("C", server_assignor="range").join()
    await s.describe_consumers()
    await a.sync({a: "1", b: "2"})
    await a.heartbeat()
    await a.join()
    await b.join()
    await a.sync()
    await b.sync()
    await s.describe_consumers()


@consumer_scenario("upgrade: the leader has assigned partitions to two members")
async def two_members_own_a_partition(s: Script) -> None:
    a, b = await classic_group(s, {"A": [0, 1], "B": [0, 1]})
    c = await s.consumer("C", server_assignor="uniform").joined()
    await s.describe()
    await s.describe_consumers()
    await a.heartbeat()
    await b.heartbeat()
    await c.join()
    await s.describe_consumers()


@consumer_scenario("upgrade: the leader's assignment is kept if it can be read")
async def the_assignment_of_a_classic_group_is_kept(s: Script) -> None:
    a, b = await classic_group(s, {"A": [1], "B": [0]})
    await s.consumer("C", "payments", server_assignor="range").join()
    await s.describe_consumers()
    await a.heartbeat()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("upgrade: cooperative members with owned partitions")
async def cooperative_members_are_upgraded(s: Script) -> None:
    protocols = subscribed("orders", protocol="cooperative-sticky")
    (a,) = await classic_group(s, ONE, protocols=protocols)
    b = await s.consumer("B", server_assignor="range").joined()
    await s.describe_consumers()
    await a.heartbeat()
    owns = {"owned": {"orders": [0, 1]}, "generation": a.generation}
    await a.join(protocols=subscribed("orders", protocol="cooperative-sticky", **owns))
    await a.sync()
    await s.describe_consumers()
    await a.heartbeat()
    keeps = {"owned": {"orders": [0]}, "generation": a.generation}
    await a.join(protocols=subscribed("orders", protocol="cooperative-sticky", **keeps))
    await a.sync()
    await b.heartbeat()
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("upgrade: all members are replaced, one after the other")
async def all_members_of_a_classic_group_are_replaced(s: Script) -> None:
    a, b = await classic_group(s, TWO)
    await a.commit(5)
    await a.leave()
    c = await s.consumer("C", server_assignor="range").joined()
    await b.heartbeat()
    await b.rebalance()
    await c.heartbeat()
    await b.leave()
    d = await s.consumer("D", server_assignor="range").joined()
    await s.converge(c, d)
    await s.describe_consumers()
    await c.fetch()
    await s.list()


@consumer_scenario("upgrade: a member keeps its id")
async def a_classic_member_becomes_a_consumer(s: Script) -> None:
    a, b = await classic_group(s, TWO)
    c = s.consumer("A", server_assignor="range")
    await c.join(member_id=a.id)
    await s.describe_consumers()
    await a.heartbeat()
    await a.join()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("upgrade: a static member takes over its instance")
async def a_static_classic_member_becomes_a_consumer(s: Script) -> None:
    a, b = await classic_group(s, TWO, instances={"A": "i1", "B": "i2"})
    c = await s.consumer("C", instance="i1", server_assignor="range").joined()
    await s.describe_consumers()
    await a.heartbeat()
    await a.join()
    await b.heartbeat()
    await c.report()
    d = await s.consumer("D", instance="i2", server_assignor="range").joined()
    await s.converge(c, d)
    await s.describe_consumers()


@consumer_scenario("upgrade: a static member joins static classic members")
async def a_static_consumer_joins_a_classic_group(s: Script) -> None:
    a, b = await classic_group(s, TWO, instances={"A": "i1", "B": "i2"})
    await s.consumer("C", instance="i3", server_assignor="range").join()
    await s.describe_consumers()
    await a.heartbeat()
    await b.heartbeat()
    await a.join()
    await b.join()
    await a.sync()
    await b.sync()
    await s.describe_consumers()


@consumer_scenario("upgrade rejected: members whose metadata is not a subscription")
async def a_classic_group_with_unreadable_metadata_is_not_upgraded(s: Script) -> None:
    (a,) = await classic_group(s, ONE, protocols=(("range", b"r"),))
    await s.consumer("B").join()
    await a.heartbeat()
    await s.list()
    await a.join(protocols=ORDERS)
    await a.sync({a: assignment("orders", 0, 1)})
    await s.consumer("B").join()
    await s.list()


@consumer_scenario("upgrade rejected: assignments that cannot be read")
async def a_classic_group_with_unreadable_assignments_is_not_upgraded(s: Script) -> None:
    a = await s.member("A", protocols=ORDERS).entered()
    for text in ("x", "share of A", "\x00\x03", "\x00\x03\x00\x00\x00\x01"):
        await a.sync({a: text})
        await s.consumer("B").join()
        await a.join()
    await s.describe()


@consumer_scenario("upgrade rejected: the assignment is decoded first")
async def a_classic_group_with_unreadable_metadata_and_assignments(s: Script) -> None:
    for protocols in ((("range", b"r"),), ORDERS):
        a = await s.member("A", protocols=protocols).entered()
        own_assignor = assignment("orders", 0, user_data=b"A")
        truncated = own_assignor[:-5]
        for text in ("x", "share of A", "\0\3\0\0\0\0", truncated, own_assignor):
            await a.sync({a: text})
            await s.consumer("B").join()
            await a.join()
        await a.leave()


@consumer_scenario("upgrade: a member without an assignment")
async def a_classic_member_without_an_assignment_is_upgraded(s: Script) -> None:
    a = await s.member("A", protocols=ORDERS).entered()
    await a.sync()
    await s.consumer("B", server_assignor="range").join()
    await s.describe_consumers()
    await a.heartbeat()


@consumer_scenario("upgrade: an assignment of topics that do not exist")
async def a_classic_group_that_consumes_unknown_topics_is_upgraded(s: Script) -> None:
    a = await s.member("A", protocols=subscribed("unknown", "orders")).entered()
    await a.sync({a: assignment("unknown", 0, 1)})
    await s.consumer("B", server_assignor="range").join()
    await s.describe_consumers()
    await a.rebalance()


@consumer_scenario("upgrade: assigned partitions that do not exist; only `range` ignores them")
async def a_classic_group_with_partitions_that_do_not_exist(s: Script) -> None:
    a = await s.member("A", protocols=subscribed("payments"), instance="i1").joined()
    await a.sync({a: assignment("payments", 0, 1)})
    for topics in (("payments",), ("orders",)):
        await s.consumer("B").join(subscribed_topic_names=topics)
        await s.describe()
    b = await s.consumer("B", "orders", server_assignor="range").joined()
    await s.describe_consumers()
    await b.join(member_epoch=b.epoch, server_assignor="uniform")
    await b.join(member_epoch=b.epoch, subscribed_topic_names=("payments",))
    await s.describe_consumers()


@consumer_scenario("upgrade: unknown assignors, with user data in assignments")
async def a_classic_group_with_its_own_assignor(s: Script) -> None:
    a = s.member("A", protocols=subscribed("orders", protocol="mine", user_data=b"mine"))
    await a.enter()
    await a.sync({a: assignment("orders", 0, 1, user_data=b"mine")})
    await s.consumer("B").join()
    await s.describe_consumers()
    await a.heartbeat()
    await a.rebalance()


@consumer_scenario("upgrade: user data of members has no effect")
async def a_classic_group_with_user_data_is_upgraded(s: Script) -> None:
    (a,) = await classic_group(s, ONE, protocols=subscribed("orders", user_data=b"mine"))
    await s.consumer("B").join()
    await a.heartbeat()
    await s.list()
    await a.join(protocols=subscribed("orders", user_data=b""))
    await a.sync({a: assignment("orders", 0, 1)})
    await s.consumer("B").join()
    await s.list()


@consumer_scenario("upgrade rejected: other protocol types")
async def a_consumer_joins_a_connect_group(s: Script) -> None:
    (a,) = await classic_group(s, ONE, protocol_type="connect")
    await s.consumer("B").join()
    await s.consumer("B").heartbeat(member_epoch=1)
    await a.heartbeat()
    await s.describe()


@consumer_scenario("upgrade: only at epoch 0")
async def heartbeats_to_a_live_classic_group(s: Script) -> None:
    (a,) = await classic_group(s, ONE)
    b = s.consumer("B", instance="i1")
    for epoch in (1, -1, -2):
        await b.heartbeat(member_epoch=epoch)
    await b.join(server_assignor="unknown")
    await b.join(subscribed_topic_regex="(")
    await s.list()
    await a.heartbeat()


@consumer_scenario("upgrade: each version of the metadata of a member")
async def classic_members_of_each_metadata_version_are_upgraded(s: Script) -> None:
    for version in range(4):
        group = f"{s.group}/{version}"
        a = s.member("A", protocols=subscribed("orders", version=version, rack="r1"))
        await a.enter(group_id=group)
        await a.sync({a: assignment("orders", 0, 1, version=version)}, group_id=group)
        b = s.consumer("B", server_assignor="range")
        await b.join(group_id=group)
        await a.join(group_id=group)
        await a.sync(group_id=group)
        await s.describe_consumers(1, group)


@consumer_scenario("upgrade: several protocols")
async def classic_members_with_several_protocols_are_upgraded(s: Script) -> None:
    both = (*subscribed("orders", protocol="roundrobin"), *subscribed("payments"))
    (a,) = await classic_group(s, ONE, protocols=both)
    await s.consumer("B", "payments", server_assignor="range").join()
    await s.describe_consumers()
    await a.heartbeat()
    await a.rebalance()
    await a.sync(protocol_name="range")
    await s.describe_consumers()


@consumer_scenario("upgrade: pending member ids are removed, but may still join")
async def a_pending_member_joins_after_the_upgrade(s: Script) -> None:
    (a,) = await classic_group(s, ONE)
    p = await s.member("P", protocols=ORDERS).joined()
    await s.consumer("C", server_assignor="range").join()
    await s.describe_consumers()
    await p.join()
    await s.describe_consumers()
    await a.heartbeat()


@consumer_scenario("upgrade: commits by classic members before and after they rejoin")
async def classic_members_commit_after_the_upgrade(s: Script) -> None:
    (a,) = await classic_group(s, ONE)
    await a.commit(1)
    await s.consumer("B", server_assignor="range").join()
    for version in (8, 9):
        await a.commit(2, version)
    await a.heartbeat()
    await a.commit(3)
    await a.join()
    await a.commit(4)
    await a.commit(5, generation_id_or_member_epoch=1)
    await a.sync()
    await a.commit(6)
    await s.fetch()


@consumer_scenario("upgrade: the session timeouts of classic members continue")
async def a_classic_member_expires_after_the_upgrade(s: Script) -> None:
    await classic_group(s, ONE, session_ms=1500)
    b = await s.consumer("B", server_assignor="range").joined()
    await s.describe_consumers()
    await s.until_members(1)
    await s.describe_consumers()
    await b.heartbeat()


@consumer_scenario("upgrade: a second consumer joins before the classic members rejoin")
async def two_consumers_join_a_classic_group(s: Script) -> None:
    (a,) = await classic_group(s, {"A": range(6)}, topic="shipments")
    b, c = await s.consumers("B", "C", topics=("shipments",), server_assignor="range")
    await s.describe_consumers()
    await a.heartbeat()
    await a.rebalance()
    await b.heartbeat()
    await c.heartbeat()
    await s.describe_consumers()


@consumer_scenario("rolling upgrade: static cooperative members, one after the other")
async def a_rolling_upgrade_of_static_members(s: Script) -> None:
    protocols = subscribed("orders", protocol="cooperative-sticky")
    instances = {"A": "i1", "B": "i2"}
    _, b = await classic_group(s, TWO, protocols=protocols, instances=instances)
    c = await s.consumer("C", instance="i1", server_assignor="range").joined()
    await c.report()
    await b.heartbeat()
    await b.commit(1, topics=[("orders", 1, "")])
    d = await s.consumer("D", instance="i2", server_assignor="range").joined()
    await d.report()
    await s.describe_consumers()
    await d.commit(2, topics=[("orders", 1, "")])
    await c.leave(-2)
    await c.join()
    await s.describe_consumers()


@consumer_scenario("rolling upgrade: dynamic cooperative members, one after the other")
async def a_rolling_upgrade_of_dynamic_members(s: Script) -> None:
    def owning(*partitions: int, generation: int) -> Protocols:
        owned = {"orders": partitions}
        return subscribed(
            "orders", protocol="cooperative-sticky", owned=owned, generation=generation
        )

    a, b = await classic_group(
        s, TWO, protocols=subscribed("orders", protocol="cooperative-sticky")
    )
    await a.leave()
    c = await s.consumer("C", server_assignor="range").joined()
    await b.heartbeat()
    await b.join(protocols=owning(1, generation=b.generation))
    await b.sync()
    await b.heartbeat()
    await b.join(protocols=owning(generation=b.generation))
    await b.sync()
    await c.report()
    await c.report()
    await b.heartbeat()
    await b.join(protocols=owning(0, generation=b.generation))
    await b.sync()
    await s.describe_consumers()
    await b.leave()
    await c.report()
    await s.describe_consumers()
    await s.list()


@scenario("upgrade: before the first generation, a consumer gets an error", settings="delayed")
async def a_consumer_joins_before_the_first_generation(s: Script) -> None:
    a = await s.member("A", protocols=ORDERS).entered()
    b = await s.consumer("B", server_assignor="range").joined()
    await s.describe()
    await s.list()
    await a.heartbeat(generation_id=0)
    await b.join()
    await s.pass_ms(4000)
    await s.describe()
    await a.join(member_id="")
    await a.join()
    await s.until_response()
    await a.sync({a: assignment("orders", 0, 1)})
    await b.join()
    await s.describe_consumers()


@scenario(
    "upgrade: a rejected join before the first generation gets no second response",
    settings="delayed",
)
async def a_join_ended_before_the_first_generation_is_not_repeated(s: Script) -> None:
    a = await s.member("A", protocols=ORDERS).entered()
    b = await s.consumer("B", server_assignor="range").joined()
    await a.join()
    await s.until_response()
    await a.sync({a: assignment("orders", 0, 1)})
    await b.join()
    await s.describe_consumers()


@scenario(
    "upgrade: two members, one of them static, before the first generation", settings="delayed"
)
async def static_members_before_the_first_generation(s: Script) -> None:
    await s.member("A", protocols=ORDERS).enter()
    b = await s.member("B", instance="i2", protocols=ORDERS).entered()
    c = await s.consumer("C", instance="i2", server_assignor="range").joined()
    await s.describe()
    await s.pass_ms(7000)
    await s.describe()
    await b.heartbeat(generation_id=0)
    await b.join()
    await s.pass_ms(4000)
    await s.describe()
    await c.join()
    await s.describe_consumers()


@scenario("upgrade: a member id was returned, but no member has joined", settings="delayed")
async def a_consumer_joins_while_a_member_id_is_pending(s: Script) -> None:
    a = await s.member("A", protocols=ORDERS).joined()
    await s.consumer("B", server_assignor="range").join()
    await s.describe_consumers()
    await a.rebalance()
    await s.describe_consumers()
    await s.list()


@scenario("upgrade: a rebalance of an emptied group that had generations", settings="delayed")
async def a_consumer_joins_during_a_later_initial_delay(s: Script) -> None:
    a = await s.member("A", protocols=ORDERS).entered()
    await s.until_response()
    await a.sync({a: assignment("orders", 0, 1)})
    await a.leave()
    await s.member("B", protocols=ORDERS).enter()
    await s.consumer("C", server_assignor="range").join()
    await s.describe()
    await s.pass_ms(4000)
    await s.describe()
    await s.list()
