"""Static members of KIP-848 groups."""

from ..members import subscribed
from ..scenario import scenario
from ..script import Script

SESSION = {"session_timeout_ms": "4000", "heartbeat_interval_ms": "500"}


@scenario(
    "static: leaves with -2 and returns under a new id, without a new epoch", settings="consumer"
)
async def a_static_consumer_returns_under_a_new_id(s: Script) -> None:
    a, b = s.consumer("A", instance="i1"), s.consumer("B", instance="i2")
    await a.join()
    await b.join()
    await s.converge(a, b)
    await a.leave(-2)
    await s.describe_consumers()
    again = s.consumer("A2", instance="i1")
    await again.join()
    await s.describe_consumers()
    await b.heartbeat()
    await again.report()
    await a.heartbeat()
    await a.join()


@scenario("static: leaves with -2 and returns under the same id", settings="consumer")
async def a_static_consumer_returns_under_its_id(s: Script) -> None:
    a = s.consumer("A", instance="i1")
    await a.join()
    epoch = a.epoch
    await a.leave(-2)
    await a.heartbeat(member_epoch=epoch)
    await a.leave(-2)
    await a.join()
    await s.describe_consumers()
    await a.report()


@scenario("static: returns with another subscription", settings="consumer")
async def a_static_consumer_returns_with_another_subscription(s: Script) -> None:
    a, b = s.consumer("A", instance="i1"), s.consumer("B")
    await a.join()
    await b.join()
    await s.converge(a, b)
    await a.leave(-2)
    again = s.consumer("A2", "payments", instance="i1")
    await again.join()
    await s.describe_consumers()
    await s.converge(b, again)
    await s.describe_consumers()


@scenario("static: returns with other values of other fields", settings="consumer")
async def a_static_consumer_returns_with_other_fields(s: Script) -> None:
    a = s.consumer("A", instance="i1", rack_id="r1", rebalance_ms=30_000)
    await a.join()
    await a.leave(-2)
    again = s.consumer("A2", instance="i1", server_assignor="range")
    await again.join()
    await s.describe_consumers()


@scenario("static: an instance in use is UNRELEASED_INSTANCE_ID", settings="consumer")
async def another_static_consumer_has_the_instance(s: Script) -> None:
    a, other = s.consumer("A", instance="i1"), s.consumer("A2", instance="i1")
    await a.join()
    for version in (0, 1):
        await other.join(version)
        await a.join(version)
    await other.join(subscribed_topic_names=("payments",))
    await s.describe_consumers()
    await a.heartbeat()


@scenario("static: FENCED_INSTANCE_ID for another id of a known instance", settings="consumer")
async def static_consumers_with_ids_that_do_not_match(s: Script) -> None:
    a, b = s.consumer("A", instance="i1"), s.consumer("B", instance="i2")
    await a.join()
    await b.join()
    await b.heartbeat(instance_id="i1")
    await b.heartbeat(instance_id=None)
    await b.heartbeat(instance_id="i9")
    await a.heartbeat(member_id="stranger")
    for epoch in (-1, -2):
        await b.heartbeat(instance_id="i1", member_epoch=epoch)
        await a.heartbeat(member_id="stranger", member_epoch=epoch)
        await a.heartbeat(instance_id="i9", member_epoch=epoch)
    await s.describe_consumers()


@scenario("static: joins of a dynamic id with an instance, and the reverse", settings="consumer")
async def a_dynamic_consumer_becomes_static(s: Script) -> None:
    a, b = s.consumer("A"), s.consumer("B", instance="i2")
    await a.join()
    await b.join()
    await a.join(instance_id="i1")
    await s.describe_consumers()
    await b.join(instance_id=None)
    await s.describe_consumers()
    await a.heartbeat()
    await a.heartbeat(instance_id="i1")


@scenario("static: leaving with -2 in the middle of a reconciliation", settings="consumer")
async def a_static_consumer_leaves_while_it_has_to_revoke(s: Script) -> None:
    a, b = s.consumer("A", instance="i1"), s.consumer("B")
    await a.join()
    await b.join()
    await a.heartbeat()
    await a.leave(-2)
    await s.describe_consumers()
    await b.heartbeat()
    again = s.consumer("A2", instance="i1")
    await again.join()
    await b.heartbeat()
    await s.describe_consumers()


@scenario("static: after leaving with -2, a member keeps its partitions", settings="consumer")
async def a_partition_of_an_absent_static_consumer_is_not_free(s: Script) -> None:
    a, b = s.consumer("A", instance="i1"), s.consumer("B")
    await a.join()
    await a.leave(-2)
    await b.join()
    await b.heartbeat()
    await s.describe_consumers()
    again = s.consumer("A2", instance="i1")
    await again.join()
    await again.report()
    await b.heartbeat()
    await s.describe_consumers()


@scenario("static: the session continues after -2, and its end fences", settings="consumer")
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
    again = s.consumer("A2", instance="i1")
    await again.join()
    await s.describe_consumers()


@scenario("static: leaving permanently", settings="consumer")
async def a_static_consumer_leaves_for_good(s: Script) -> None:
    a, b = s.consumer("A", instance="i1"), s.consumer("B", instance="i2")
    await a.join()
    await b.join()
    await a.leave()
    await s.describe_consumers()
    await b.leave(-2)
    await b.leave(-1)
    await s.describe_consumers()
    await s.consumer("C", instance="i1").join()


@scenario("static: epochs and commits of a member that left with -2", settings="consumer")
async def requests_for_an_absent_static_consumer(s: Script) -> None:
    a = s.consumer("A", instance="i1")
    await a.join()
    epoch = a.epoch
    await a.commit(1)
    await a.leave(-2)
    for given in (epoch, -2, -1, 0):
        await a.commit(2, generation_id_or_member_epoch=given)
        await a.fetch(member_epoch=given)
    for given in (epoch, epoch + 1):
        await a.heartbeat(member_epoch=given, owned={"orders": [0, 1]})
    await s.describe_consumers()


@scenario("static: with range, partitions follow the instance id", settings="consumer")
async def static_consumers_are_assigned_by_instance_id(s: Script) -> None:
    a = s.consumer("A", "shipments", instance="i2", server_assignor="range")
    b = s.consumer("B", "shipments", instance="i1", server_assignor="range")
    c = s.consumer("C", "shipments", server_assignor="range")
    for member in (a, b, c):
        await member.join()
    await s.converge(a, b, c)
    await s.describe_consumers()
    await b.leave(-2)
    again = s.consumer("Z", "shipments", instance="i1", server_assignor="range")
    await again.join()
    await s.describe_consumers()


@scenario("static: an instance id that was changed stays with the member", settings="consumer")
async def a_consumer_changes_its_instance_id(s: Script) -> None:
    a, b = s.consumer("A", instance="i1"), s.consumer("B")
    await b.join()
    await a.join()
    a.instance = "i2"
    await a.join()
    await s.describe_consumers()
    other = s.consumer("C", instance="i1")
    await other.join()
    await a.leave()
    await other.join()
    await other.heartbeat(member_epoch=1)
    await other.leave()
    classic = s.member("D", instance="i1", protocols=subscribed("orders"))
    await classic.join()
    await classic.heartbeat()
    await classic.leave()
    await b.heartbeat(instance_id="i1")
    await s.describe_consumers()
