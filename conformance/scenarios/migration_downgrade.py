"""Online downgrade: the last member of the consumer protocol leaves a mixed group."""

from typing import Any

from ..members import ConsumerMember, Member, assignment, subscribed
from ..scenario import consumer_scenario
from ..script import Script

ORDERS = subscribed("orders")
ANY_LEADER: dict[str, Any] = {
    "excuse": "in Kafka, the first member by hash order leads the group after a downgrade",
    "hides": ("leader", "members"),
}


async def mixed(s: Script, **options: int | str | None) -> tuple[ConsumerMember, Member]:
    """Return a consumer A with `payments` and a classic member B with `orders`."""
    a = await s.consumer("A", "payments", instance="i1", server_assignor="range").joined()
    b = await s.member("B", protocols=ORDERS, member_id="B", **options).rebalance()
    return a, b


@consumer_scenario("downgrade: the last consumer leaves; the others rejoin")
async def the_last_consumer_leaves_a_mixed_group(s: Script) -> None:
    a, b = await mixed(s)
    await b.commit(7)
    await a.leave()
    await s.describe(6)
    await s.describe_consumers()
    await s.list()
    await b.heartbeat()
    await b.commit(8)
    await b.join()
    await b.sync({b: "all"})
    await b.heartbeat()
    await b.commit(9)
    await s.describe()
    await s.fetch()


@consumer_scenario("downgrade: not while another consumer remains")
async def a_consumer_of_two_leaves_a_mixed_group(s: Script) -> None:
    a, _ = await mixed(s)
    c = await s.consumer("C", "payments", server_assignor="range").joined()
    await a.leave()
    await s.list()
    await c.leave()
    await s.list()


@consumer_scenario("downgrade: with several classic members", **ANY_LEADER)
async def two_classic_members_are_left(s: Script) -> None:
    a, b = await mixed(s)
    c = await s.member("C", protocols=ORDERS, member_id="C").rebalance()
    await b.rebalance()
    await s.describe_consumers()
    await a.leave()
    await s.describe()
    await b.heartbeat()
    await c.heartbeat()
    await b.join()
    await c.join()


@consumer_scenario("downgrade: the last consumer expires")
async def the_last_consumer_of_a_mixed_group_expires(s: Script) -> None:
    await s.configure(session_timeout_ms="2000", heartbeat_interval_ms="500")
    _, b = await mixed(s)
    await s.until_state("PreparingRebalance")
    await s.describe()
    await b.heartbeat()
    await b.join()


@consumer_scenario("downgrade: the last consumer has left with -2, and expires")
async def the_last_static_consumer_of_a_mixed_group_is_away(s: Script) -> None:
    await s.configure(session_timeout_ms="2000", heartbeat_interval_ms="500")
    a, b = await mixed(s)
    await a.leave(-2)
    await s.list()
    await b.heartbeat()
    await s.until_state("PreparingRebalance")
    await b.heartbeat()
    await b.join()


@consumer_scenario("downgrade: the last consumer does not revoke in time")
async def the_last_consumer_of_a_mixed_group_does_not_revoke(s: Script) -> None:
    a = await s.consumer("A", rebalance_ms=1000, server_assignor="range").joined()
    b = await s.member("B", protocols=ORDERS, member_id="B").rebalance()
    await a.heartbeat()
    await s.until_state("PreparingRebalance")
    await b.heartbeat()
    await b.join()
    await s.describe()


@consumer_scenario("downgrade: the last consumer is removed by an administrator")
async def the_last_consumer_of_a_mixed_group_is_removed(s: Script) -> None:
    _, b = await mixed(s)
    await s.leave(("", "i1"))
    await s.list()
    await b.heartbeat()
    await b.join()


@consumer_scenario("downgrade: a classic member replaces the last static consumer")
async def the_last_static_consumer_is_replaced_by_a_classic_member(s: Script) -> None:
    a, b = await mixed(s)
    c = await s.member("C", protocols=subscribed("payments"), instance="i1").joined()
    await s.list()
    await s.describe()
    await b.heartbeat()
    await c.sync()
    await c.heartbeat()
    await a.heartbeat()


@consumer_scenario("downgrade: the last dynamic consumer becomes classic")
async def the_last_dynamic_consumer_becomes_classic(s: Script) -> None:
    await s.consumer("A", "payments").join()
    b = await s.member("B", protocols=ORDERS, member_id="B").rebalance()
    c = await s.member("A", protocols=subscribed("payments"), member_id="A").joined()
    await s.list()
    await b.heartbeat()
    await c.sync()


@consumer_scenario("downgrade: a group of one consumer that becomes classic")
async def the_only_static_consumer_becomes_classic(s: Script) -> None:
    await s.consumer("A", instance="i1").join()
    b = await s.member("B", protocols=ORDERS, instance="i1").joined()
    await s.list()
    await s.describe()
    await b.sync()
    await b.heartbeat()


@consumer_scenario("downgrade: a classic member that was about to sync")
async def a_classic_member_has_not_synced_before_the_downgrade(s: Script) -> None:
    a = await s.consumer("A", "payments").joined()
    b = await s.member("B", protocols=ORDERS, member_id="B").joined()
    await a.leave()
    await b.sync()
    await b.heartbeat()
    await b.join()
    await b.sync({b: "all"})


@consumer_scenario("downgrade: several protocols and versions", **ANY_LEADER)
async def classic_members_of_several_protocols_are_left(s: Script) -> None:
    a = s.consumer("A", "payments", server_assignor="range")
    both = (*subscribed("orders", protocol="sticky"), *subscribed("orders", version=1))
    b = s.member("B", protocols=both, member_id="B")
    c = s.member("C", protocols=subscribed("orders", version=0), member_id="C")
    await a.join()
    await b.join()
    await c.join()
    await a.leave()
    await s.describe()
    await b.join()
    await c.join()


@consumer_scenario("downgrade: a malformed subscription for the other protocol")
async def a_subscription_for_the_selected_protocol_is_malformed(s: Script) -> None:
    a = s.consumer("A", "payments", instance="i1", server_assignor="range")
    both = (*ORDERS, ("sticky", b""))
    b = s.member("B", protocols=both, member_id="B")
    c = s.member("C", protocols=subscribed("orders", protocol="sticky"), member_id="C")
    for each in (a, b, c):
        await each.join()
    await a.leave()
    await s.leave(("", "i1"))
    await s.list()
    await a.heartbeat()
    d = s.member("D", protocols=subscribed("payments", protocol="sticky"), instance="i1")
    await d.join()
    await s.list()
    await c.heartbeat()
    await b.leave()
    await a.leave()
    await s.list()


@consumer_scenario("downgrade: an invalid subscription as the last consumer expires")
async def a_subscription_is_malformed_when_the_last_consumer_expires(s: Script) -> None:
    await s.configure(session_timeout_ms="2000", heartbeat_interval_ms="500")
    a = s.consumer("A", "payments", server_assignor="range")
    both = (*ORDERS, ("sticky", b"\xff\xff\0\0\0\0"))
    b = s.member("B", protocols=both, member_id="B")
    c = s.member("C", protocols=subscribed("orders", protocol="sticky"), member_id="C")
    for each in (a, b, c):
        await each.join()
    await s.pass_ms(3000)
    await s.list()
    await a.leave()
    await b.leave()
    await s.pass_ms(3000)
    await s.list()
    await a.heartbeat()
    await s.until_state("PreparingRebalance")
    await c.heartbeat()


@consumer_scenario("downgrade: the session timeouts of classic members start again")
async def a_classic_member_expires_after_the_downgrade(s: Script) -> None:
    a, b = await mixed(s, session_ms=1500, rebalance_ms=60_000)
    await a.leave()
    await s.until_state("Empty")
    await b.heartbeat()
    await s.describe()


@consumer_scenario("downgrade: a classic member that does not rejoin is removed")
async def a_classic_member_does_not_rejoin_after_the_downgrade(s: Script) -> None:
    a, b = await mixed(s, rebalance_ms=4000)
    c = await s.member("C", protocols=ORDERS, member_id="C", rebalance_ms=4000).rebalance()
    await a.leave()
    await b.join()
    await s.until_response()
    await c.heartbeat()
    await s.describe()


@consumer_scenario("down and up again")
async def a_group_is_downgraded_and_upgraded_again(s: Script) -> None:
    a, b = await mixed(s)
    await a.leave()
    await b.heartbeat()
    c = await s.consumer("C", server_assignor="range").joined()
    await s.describe_consumers()
    await b.heartbeat()
    await b.rebalance()
    await c.leave()
    await s.list()
    await b.heartbeat()
    await b.join()


@consumer_scenario("the last classic member leaves a mixed group")
async def the_last_classic_member_leaves_a_mixed_group(s: Script) -> None:
    a, b = await mixed(s)
    await b.leave()
    await a.heartbeat()
    await s.describe_consumers()
    await a.leave()
    await s.describe_consumers()


@consumer_scenario("rolling downgrade: dynamic consumers, one after the other")
async def a_rolling_downgrade_of_dynamic_consumers(s: Script) -> None:
    a, b = await s.consumers("A", "B", server_assignor="range")
    await s.converge(a, b)
    await a.commit(1)
    await a.leave()
    c = await s.member("C", protocols=ORDERS, member_id="C").rebalance()
    await b.heartbeat()
    await b.report()
    await c.heartbeat()
    await c.rebalance()
    await s.describe_consumers()
    await b.leave()
    await c.heartbeat()
    await c.join()
    await c.sync({c: assignment("orders", 0, 1)})
    await s.describe()
    await s.fetch()


@consumer_scenario("rolling downgrade: static consumers, one after the other")
async def a_rolling_downgrade_of_static_consumers(s: Script) -> None:
    a = await s.consumer("A", instance="i1", server_assignor="range").joined()
    b = await s.consumer("B", instance="i2", server_assignor="range").joined()
    await s.converge(a, b)
    await a.leave(-2)
    c = await s.member("C", protocols=ORDERS, instance="i1").rebalance()
    await c.heartbeat()
    await s.list()
    await b.leave(-2)
    d = await s.member("D", protocols=ORDERS, instance="i2").joined()
    await s.list()
    await d.sync()
    await c.heartbeat()
    await d.heartbeat()
    await s.describe()


@consumer_scenario("downgrade: the generations continue the epochs")
async def commits_around_a_downgrade(s: Script) -> None:
    a, b = await mixed(s)
    await a.leave()
    for generation in (b.generation + 1, b.generation, b.generation - 1):
        await b.commit(1, generation_id_or_member_epoch=generation)
    await b.join()
    await b.commit(2)
    await b.sync({b: assignment("orders", 0, 1)})
    for generation in (b.generation, b.generation - 1):
        await b.commit(3, generation_id_or_member_epoch=generation)
    await a.commit(4)
    await s.fetch()
