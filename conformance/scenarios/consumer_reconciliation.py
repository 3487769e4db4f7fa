"""Reconciliation: how partitions move from one member of a KIP-848 group to another."""

from ..scenario import consumer_scenario
from ..script import Script


@consumer_scenario("a second member gets what the first has revoked")
async def a_second_consumer_joins(s: Script) -> None:
    a, b = await s.consumers("A", "B")
    await s.describe_consumers()
    await b.heartbeat()
    await a.heartbeat()
    await s.describe_consumers()
    await a.heartbeat()
    await b.heartbeat()
    await a.report()
    await s.describe_consumers()
    await b.heartbeat()
    await b.report()
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("three members, one after the other, each with a full reconciliation")
async def three_consumers_join_one_by_one(s: Script) -> None:
    a, b, c = (s.consumer(name, "shipments", server_assignor="range") for name in "ABC")
    await a.join()
    await a.report()
    await b.join()
    await s.converge(a, b)
    await s.describe_consumers()
    await c.join()
    await s.converge(a, b, c)
    await s.describe_consumers()


@consumer_scenario("two members join before the first revokes, which skips an epoch")
async def two_consumers_join_before_the_first_revokes(s: Script) -> None:
    c = s.consumer("C", "shipments", server_assignor="range")
    a, b = await s.consumers("A", "B", topics=("shipments",), server_assignor="range")
    await a.heartbeat()
    await c.join()
    await s.describe_consumers()
    await a.heartbeat()
    await a.report()
    await s.describe_consumers()
    await a.report()
    await b.report()
    await c.report()
    await b.report()
    await s.describe_consumers()
    await s.converge(a, b, c)
    await s.describe_consumers()


@consumer_scenario("unrevoked: heartbeats without owned partitions change nothing")
async def a_consumer_does_not_say_what_it_owns(s: Script) -> None:
    a, b = await s.consumers("A", "B")
    for _ in range(3):
        await a.heartbeat()
    await s.describe_consumers()
    await a.heartbeat(owned={"orders": [0, 1]})
    await a.heartbeat(owned={})
    await s.describe_consumers()
    await b.heartbeat()


@consumer_scenario("unrevoked: the partitions are revoked one by one")
async def a_consumer_revokes_step_by_step(s: Script) -> None:
    a, b = await s.consumers("A", "B", topics=("shipments",))
    await a.heartbeat()
    kept = a.assigned["shipments"]
    given = [index for index in range(6) if index not in kept]
    for count in (3, 2, 1):
        await a.heartbeat(owned={"shipments": kept + given[:count]})
        await b.heartbeat()
    await a.heartbeat(owned={"shipments": kept})
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("a member revokes immediately: the partition is free at its next heartbeat")
async def a_consumer_owns_less_than_assigned(s: Script) -> None:
    a, b = s.consumer("A"), s.consumer("B")
    await a.join()
    await a.heartbeat(owned={})
    await b.join()
    await a.heartbeat(owned={})
    await b.heartbeat()
    await a.report()
    await s.describe_consumers()


@consumer_scenario("unreleased: one of several partitions is free")
async def a_consumer_waits_for_two_others(s: Script) -> None:
    c = s.consumer("C", "shipments", server_assignor="range")
    a, b = await s.consumers("A", "B", topics=("shipments",), server_assignor="range")
    await s.converge(a, b)
    await c.join()
    await a.heartbeat()
    await b.heartbeat()
    await s.describe_consumers()
    await a.report()
    await c.heartbeat()
    await b.report()
    await s.describe_consumers()
    await c.heartbeat()
    await c.report()
    await b.report()
    await s.describe_consumers()


@consumer_scenario("unreleased: the target changes while a member waits")
async def a_consumer_waits_while_the_target_changes(s: Script) -> None:
    a, b = await s.consumers("A", "B", server_assignor="range")
    await a.heartbeat()
    await a.heartbeat(subscribed_topic_names=("orders", "payments"))
    await b.heartbeat()
    await s.describe_consumers()
    await a.heartbeat(owned={"orders": [0, 1]})
    await a.report()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("unrevoked: the partition returns to its owner before it is revoked")
async def a_partition_is_given_back_before_it_is_revoked(s: Script) -> None:
    a, b = await s.consumers("A", "B")
    await a.heartbeat()
    await b.leave()
    await s.describe_consumers()
    await a.heartbeat()
    await a.heartbeat(owned={"orders": [0, 1]})
    await a.report()
    await s.describe_consumers()


@consumer_scenario("a stable member gets a new target at its next heartbeat")
async def consumers_keep_their_partitions_when_another_topic_is_added(s: Script) -> None:
    a, b = await s.consumers("A", "B")
    await s.converge(a, b)
    await b.heartbeat(subscribed_topic_names=("orders", "payments"))
    await s.describe_consumers()
    await a.heartbeat()
    await b.report()
    await s.describe_consumers()


@consumer_scenario("unsubscribing: the partitions are revoked and move to others")
async def a_consumer_unsubscribes_from_a_topic(s: Script) -> None:
    a = await s.consumer("A", "orders", "payments").joined()
    b = await s.consumer("B", "payments").joined()
    await s.converge(a, b)
    await a.heartbeat(subscribed_topic_names=("payments",))
    await a.report()
    await s.converge(a, b)
    await s.describe_consumers()
    await b.heartbeat(subscribed_topic_names=("orders",))
    await s.converge(a, b)
    await s.describe_consumers()


@consumer_scenario("more members than partitions: some have none, at the same epoch")
async def more_consumers_than_partitions(s: Script) -> None:
    a, b = await s.consumers("A", "B", topics=("payments",))
    await s.describe_consumers()
    await a.heartbeat()
    await a.leave()
    await s.describe_consumers()
    await b.heartbeat()
    await b.report()
    await s.describe_consumers()


@consumer_scenario("rebalance timeout: a member that does not revoke is fenced")
async def a_consumer_does_not_revoke_in_time(s: Script) -> None:
    a = await s.consumer("A", rebalance_ms=2000).joined()
    b = await s.consumer("B").joined()
    await a.heartbeat()
    await s.until_members(1)
    await s.describe_consumers()
    await a.heartbeat()
    await b.heartbeat()
    await s.describe_consumers()
    await a.join()
    await s.describe_consumers()


@consumer_scenario("rebalance timeout: starts with the response that revokes")
async def the_rebalance_timeout_of_a_silent_consumer_does_not_start(s: Script) -> None:
    a = await s.consumer("A", rebalance_ms=500).joined()
    await s.consumer("B").join()
    await s.pass_ms(1500)
    await s.describe_consumers()
    await a.heartbeat()
    await s.until_members(1)
    await a.report()


@consumer_scenario("rebalance timeout: a member that revokes in time stays")
async def a_consumer_revokes_in_time(s: Script) -> None:
    a = await s.consumer("A", rebalance_ms=1500).joined()
    b = await s.consumer("B").joined()
    await a.heartbeat()
    await a.report()
    await b.heartbeat()
    await s.pass_ms(2500)
    await s.describe_consumers()
    await a.heartbeat()


@consumer_scenario("rebalance timeout: each further revocation restarts it")
async def the_rebalance_timeout_starts_again(s: Script) -> None:
    c = s.consumer("C", "shipments", server_assignor="range")
    a = await s.consumer("A", "shipments", rebalance_ms=3000, server_assignor="range").joined()
    await s.consumer("B", "shipments", server_assignor="range").join()
    await a.heartbeat()
    await s.pass_ms(2000)
    await c.join()
    await a.report()
    await s.pass_ms(2000)
    await s.describe_consumers()
    await s.until_members(2)
    await s.describe_consumers()


@consumer_scenario("rebalance timeout: a longer one applies from the next revocation")
async def a_consumer_changes_its_rebalance_timeout(s: Script) -> None:
    a, b = s.consumer("A", rebalance_ms=1000), s.consumer("B")
    await a.join()
    await a.heartbeat(rebalance_timeout=60_000)
    await b.join()
    await a.heartbeat()
    await s.pass_ms(2000)
    await s.describe_consumers()
    await a.heartbeat(rebalance_timeout=500)
    await s.pass_ms(1500)
    await s.describe_consumers()


@consumer_scenario("a subscription without existing topics changes within the interval")
async def a_consumer_of_unknown_topics_changes_its_names(s: Script) -> None:
    await s.configure(assignment_interval_ms="15000")
    a = await s.consumer("A", "unknown", rebalance_ms=2_000).joined()
    await a.heartbeat(subscribed_topic_names=("missing",))
    await s.describe_consumers()
    await s.pass_ms(3_000)
    await a.heartbeat()
    await s.configure(assignment_interval_ms="0")
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("previous epoch: still valid after a change that revokes nothing")
async def a_consumer_without_partitions_retries_with_its_previous_epoch(s: Script) -> None:
    a, _ = await s.consumers("A", "B", topics=("unknown",))
    await a.heartbeat(owned={})
    await a.heartbeat(owned={}, subscribed_topic_regex="nothing.*")
    await a.heartbeat(owned={}, member_epoch=2)
    await s.describe_consumers()
