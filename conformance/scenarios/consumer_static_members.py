"""Static members of KIP-848 groups."""

from ..members import subscribed
from ..scenario import consumer_scenario
from ..script import Script

SESSION = {"session_timeout_ms": "4000", "heartbeat_interval_ms": "500"}


@consumer_scenario("static: a member leaves with -2 and returns under a new id, at the same epoch")
async def a_static_consumer_returns_under_a_new_id(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    b = await s.consumer("B", instance="i2").joined()
    await s.converge(a, b)
    await a.leave(-2)
    await s.describe_consumers()
    again = await s.consumer("A2", instance="i1").joined()
    await s.describe_consumers()
    await b.heartbeat()
    await again.report()
    await a.heartbeat()
    await a.join()


@consumer_scenario("static: a member leaves with -2 and returns under the same id")
async def a_static_consumer_returns_under_its_id(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    epoch = a.epoch
    await a.leave(-2)
    await a.heartbeat(member_epoch=epoch)
    await a.leave(-2)
    await a.join()
    await s.describe_consumers()
    await a.report()


@consumer_scenario("static: a member returns with another subscription")
async def a_static_consumer_returns_with_another_subscription(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    b = await s.consumer("B").joined()
    await s.converge(a, b)
    await a.leave(-2)
    again = await s.consumer("A2", "payments", instance="i1").joined()
    await s.describe_consumers()
    await s.converge(b, again)
    await s.describe_consumers()


@consumer_scenario("static: a member returns with another rack, rebalance timeout and assignor")
async def a_static_consumer_returns_with_other_fields(s: Script) -> None:
    a = await s.consumer("A", instance="i1", rack_id="r1", rebalance_ms=30_000).joined()
    await a.leave(-2)
    await s.consumer("A2", instance="i1", server_assignor="range").join()
    await s.describe_consumers()


@consumer_scenario("static: UNRELEASED_INSTANCE_ID for an instance in use")
async def another_static_consumer_has_the_instance(s: Script) -> None:
    a, other = s.consumer("A", instance="i1"), s.consumer("A2", instance="i1")
    await a.join()
    for version in (0, 1):
        await other.join(version)
        await a.join(version)
    await other.join(subscribed_topic_names=("payments",))
    await s.describe_consumers()
    await a.heartbeat()


@consumer_scenario("static: FENCED_INSTANCE_ID for another id of a known instance")
async def static_consumers_with_ids_that_do_not_match(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    b = await s.consumer("B", instance="i2").joined()
    await b.heartbeat(instance_id="i1")
    await b.heartbeat(instance_id=None)
    await b.heartbeat(instance_id="i9")
    await a.heartbeat(member_id="stranger")
    for epoch in (-1, -2):
        await b.heartbeat(instance_id="i1", member_epoch=epoch)
        await a.heartbeat(member_id="stranger", member_epoch=epoch)
        await a.heartbeat(instance_id="i9", member_epoch=epoch)
    await s.describe_consumers()


@consumer_scenario("static: a dynamic member joins with an instance id, a static member without")
async def a_dynamic_consumer_becomes_static(s: Script) -> None:
    a = await s.consumer("A").joined()
    b = await s.consumer("B", instance="i2").joined()
    await a.join(instance_id="i1")
    await s.describe_consumers()
    await b.join(instance_id=None)
    await s.describe_consumers()
    await a.heartbeat()
    await a.heartbeat(instance_id="i1")


@consumer_scenario("static: leaving with -2 in the middle of a reconciliation")
async def a_static_consumer_leaves_while_it_has_to_revoke(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    b = await s.consumer("B").joined()
    await a.heartbeat()
    await a.leave(-2)
    await s.describe_consumers()
    await b.heartbeat()
    await s.consumer("A2", instance="i1").join()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("static: after leaving with -2, a member keeps its partitions")
async def a_partition_of_an_absent_static_consumer_is_not_free(s: Script) -> None:
    a, b = s.consumer("A", instance="i1"), s.consumer("B")
    await a.join()
    await a.leave(-2)
    await b.join()
    await b.heartbeat()
    await s.describe_consumers()
    again = await s.consumer("A2", instance="i1").joined()
    await again.report()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("static: the session continues after -2; when it expires, the member is fenced")
async def an_absent_static_consumer_expires(s: Script) -> None:
    await s.configure(**SESSION)
    a, b = s.consumer("A", instance="i1"), s.consumer("B", instance="i2")
    await b.join()
    await a.join()
    await s.converge(a, b)
    await s.pass_ms(1000)
    await b.heartbeat()
    await a.leave(-2)
    await s.pass_ms(2000)
    await b.heartbeat()
    await s.pass_ms(1500)
    await s.describe_consumers()
    await b.heartbeat()
    await s.consumer("A2", instance="i1").join()
    await s.describe_consumers()


@consumer_scenario("static: leaving permanently")
async def a_static_consumer_leaves_for_good(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    b = await s.consumer("B", instance="i2").joined()
    await a.leave()
    await s.describe_consumers()
    await b.leave(-2)
    await b.leave(-1)
    await s.describe_consumers()
    await s.consumer("C", instance="i1").join()


@consumer_scenario("static: epochs and commits of a member that left with -2")
async def requests_for_an_absent_static_consumer(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    epoch = a.epoch
    await a.commit(1)
    await a.leave(-2)
    for given in (epoch, -2, -1, 0):
        await a.commit(2, generation_id_or_member_epoch=given)
        await a.fetch(member_epoch=given)
    for given in (epoch, epoch + 1):
        await a.heartbeat(member_epoch=given, owned={"orders": [0, 1]})
    await s.describe_consumers()


@consumer_scenario("static: with range, partitions follow the instance id")
async def static_consumers_are_assigned_by_instance_id(s: Script) -> None:
    a = await s.consumer("A", "shipments", instance="i2", server_assignor="range").joined()
    b = await s.consumer("B", "shipments", instance="i1", server_assignor="range").joined()
    c = await s.consumer("C", "shipments", server_assignor="range").joined()
    await s.converge(a, b, c)
    await s.describe_consumers()
    await b.leave(-2)
    await s.consumer("Z", "shipments", instance="i1", server_assignor="range").join()
    await s.describe_consumers()


@consumer_scenario("static: a member that changes its instance id also keeps the old one")
async def a_consumer_changes_its_instance_id(s: Script) -> None:
    a, b = s.consumer("A", instance="i1"), s.consumer("B")
    await b.join()
    await a.join()
    a.instance = "i2"
    await a.join()
    await s.describe_consumers()
    other = await s.consumer("C", instance="i1").joined()
    await a.leave()
    await other.join()
    await other.heartbeat(member_epoch=1)
    await other.leave()
    classic = await s.member("D", instance="i1", protocols=subscribed("orders")).joined()
    await classic.heartbeat()
    await classic.leave()
    await b.heartbeat(instance_id="i1")
    await s.describe_consumers()
