"""ConsumerGroupHeartbeat: joining, member epochs, changed fields."""

from ..scenario import consumer_scenario, scenario
from ..script import Script


@consumer_scenario("join: the first member of a group immediately gets all partitions")
async def a_consumer_joins(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.heartbeat()
    await a.report()
    for version in (0, 1):
        await s.describe_consumers(version)


@consumer_scenario("join: the first member of a group, in version 0")
async def a_consumer_joins_in_version_0(s: Script) -> None:
    a = s.consumer("A")
    await a.join(0)
    await a.heartbeat(0)
    await a.heartbeat(0, owned=a.assigned)
    await a.heartbeat(1)
    await s.describe_consumers()


@consumer_scenario("join: a topic that does not exist")
async def a_consumer_subscribes_to_an_unknown_topic(s: Script) -> None:
    a = await s.consumer("A", "unknown").joined()
    await a.heartbeat()
    await s.describe_consumers()
    await a.heartbeat(subscribed_topic_names=("unknown", "orders"))
    await s.describe_consumers()


@consumer_scenario("join: no topics, then some, then none again")
async def a_consumer_subscribes_to_nothing_at_first(s: Script) -> None:
    a = s.consumer("A")
    await a.join(subscribed_topic_names=())
    await s.describe_consumers()
    await a.heartbeat(subscribed_topic_names=("orders",))
    await s.describe_consumers()
    await a.report()
    await a.heartbeat(subscribed_topic_names=())
    await a.heartbeat(owned={})
    await s.describe_consumers()


@consumer_scenario("join again at epoch 0: the same member, with and without changes")
async def a_consumer_joins_twice(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.join()
    await a.report()
    await a.join(rebalance_timeout=30_000)
    await a.join(subscribed_topic_names=("payments",))
    await s.describe_consumers()
    await a.heartbeat(member_epoch=2)


@consumer_scenario("join again at epoch 0, when others wait for the partitions")
async def a_consumer_joins_again_while_it_has_to_revoke(s: Script) -> None:
    a, b = await s.consumers("A", "B")
    await a.heartbeat()
    await s.describe_consumers()
    await a.join()
    await s.describe_consumers()
    await b.heartbeat()
    await a.report()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("member epochs that are too large, previous or older, after a change")
async def consumers_with_other_epochs(s: Script) -> None:
    a = await s.consumer("A", "orders", "payments").joined()
    await a.heartbeat(member_epoch=3)
    await a.heartbeat(member_epoch=1)
    await a.heartbeat(subscribed_topic_names=("orders",))
    await a.report()
    epoch, owned = a.epoch, a.assigned
    for wrong in (epoch + 1, epoch - 2, epoch - 3):
        await a.heartbeat(member_epoch=wrong)
        await a.heartbeat(member_epoch=wrong, owned=owned)
    await s.describe_consumers()


@consumer_scenario("previous epoch: accepted only if all owned partitions are assigned")
async def a_consumer_missed_the_response_with_its_epoch(s: Script) -> None:
    a, b = s.consumer("A", "shipments"), s.consumer("B", "shipments")
    await a.join()
    before, all_of_them = a.epoch, a.assigned
    await b.join()
    await a.heartbeat()
    await a.report()
    half = a.assigned
    for owned in (None, all_of_them, {"shipments": half["shipments"][:1]}, {}, half):
        await a.heartbeat(member_epoch=before, owned=owned)
    await a.heartbeat(member_epoch=before, owned={"payments": [0]})
    await a.heartbeat(member_epoch=before - 1, owned=half)
    await s.describe_consumers()


@consumer_scenario("previous epoch: with a changed subscription")
async def a_consumer_changes_its_subscription_at_the_previous_epoch(s: Script) -> None:
    a = await s.consumer("A").joined()
    before = a.epoch
    await a.heartbeat(subscribed_topic_names=("orders", "payments"))
    await a.heartbeat(member_epoch=before, owned=a.assigned, subscribed_topic_names=("orders",))
    await s.describe_consumers()


@consumer_scenario("join again at epoch 0: with owned partitions, which is invalid")
async def a_consumer_joins_again_with_partitions(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.join(topic_partitions=s.topic_partitions({"orders": [0]}))
    await a.heartbeat()


@consumer_scenario("which fields change the group epoch: rack, timeout, assignor")
async def a_consumer_changes_other_fields(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.heartbeat(rebalance_timeout=30_000)
    await a.heartbeat(rack_id="r1")
    await s.describe_consumers()
    await a.heartbeat(server_assignor="range")
    await s.describe_consumers()
    await a.heartbeat(server_assignor="uniform", rack_id="r2")
    await a.heartbeat(instance_id="i1")
    await s.describe_consumers()


@consumer_scenario("a subscription in another order or with duplicates is no change")
async def a_consumer_sends_the_same_subscription(s: Script) -> None:
    a = await s.consumer("A", "orders", "payments").joined()
    await a.heartbeat(subscribed_topic_names=("payments", "orders"))
    await a.heartbeat(subscribed_topic_names=("payments", "orders", "orders"))
    await a.heartbeat(subscribed_topic_names=("orders", "payments", "unknown"))
    await s.describe_consumers()


@consumer_scenario("the client id and host of a member are those of its last heartbeat")
async def a_consumer_changes_its_client_id(s: Script) -> None:
    a, other = s.consumer("A"), s.consumer("Other")
    await a.join()
    other.id, other.epoch = a.id, a.epoch
    await other.heartbeat()
    await s.describe_consumers()
    await other.heartbeat(owned={"orders": [0, 1]})
    await s.describe_consumers()


@consumer_scenario("full responses: when all fields are sent, and at epoch 0")
async def a_consumer_sends_all_fields(s: Script) -> None:
    a = await s.consumer("A").joined()
    full = {"rebalance_timeout": 60_000, "subscribed_topic_names": ("orders",)}
    await a.heartbeat(owned=a.assigned, **full)
    await a.heartbeat(owned=a.assigned, **full | {"rebalance_timeout": -1})
    await a.heartbeat(**full)
    await a.heartbeat(owned=a.assigned, rebalance_timeout=60_000)
    await a.heartbeat(owned=a.assigned, rebalance_timeout=60_000, subscribed_topic_regex="")
    await a.heartbeat(owned={}, **full)
    await a.heartbeat(owned=a.assigned, subscribed_topic_regex="")
    for version in (0, 1):
        await a.join(version, member_epoch=a.epoch)


@scenario("group.consumer.max.size 2: new members, not old ones, are rejected", settings="upgrade")
async def a_full_group_rejects_a_consumer(s: Script) -> None:
    a = await s.consumer("A").joined()
    b = await s.consumer("B", instance="i1").joined()
    c = await s.consumer("C").joined()
    await s.consumer("D", instance="i2").join()
    await s.member("E", instance="i3").join()
    await s.member("F").join()
    await a.join()
    await b.leave(-2)
    await c.join()
    await s.consumer("H", instance="i1").join()
    await s.describe_consumers()
    await a.leave()
    await c.join()


@consumer_scenario("the heartbeat interval of a group is in its responses")
async def the_heartbeat_interval_of_a_group(s: Script) -> None:
    await s.configure(heartbeat_interval_ms="700")
    a = await s.consumer("A").joined()
    await s.configure(heartbeat_interval_ms="900")
    await a.heartbeat()
    await s.configure(heartbeat_interval_ms=None)
    await a.heartbeat()
    await a.leave()
