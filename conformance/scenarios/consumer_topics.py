"""KIP-848 groups whose topics are created, extended and deleted."""

from ..scenario import consumer_scenario
from ..script import Script


@consumer_scenario("a topic that is created later is assigned at the next heartbeat")
async def a_subscribed_topic_is_created(s: Script) -> None:
    a, b = await s.consumers("A", "B", topics=(f"{s.group}.topic",), server_assignor="range")
    await a.heartbeat()
    await s.describe_consumers()
    await s.topic(2)
    await b.heartbeat()
    await s.describe_consumers()
    await a.heartbeat()
    await b.heartbeat()
    await s.describe_consumers()


@consumer_scenario("partitions that are added later are assigned")
async def partitions_are_added_to_a_subscribed_topic(s: Script) -> None:
    topic = await s.topic(2)
    a, b = await s.consumers("A", "B", topics=(topic,), server_assignor="range")
    await s.converge(a, b)
    await s.add_partitions(topic, 4)
    await s.describe_consumers()
    await s.converge(a, b)
    await s.describe_consumers()


@consumer_scenario("a topic that is deleted is revoked")
async def a_subscribed_topic_is_deleted(s: Script) -> None:
    topic = await s.topic(2)
    a = await s.consumer("A", topic, "orders").joined()
    await a.commit(topics=[(topic, 0, "note"), ("orders", 0, "note")])
    await s.delete_topic(topic)
    await s.describe_consumers()
    await a.heartbeat()
    await s.describe_consumers()
    await a.heartbeat(owned={"orders": [0, 1]})
    await a.heartbeat()
    await s.describe_consumers()
    await a.fetch()


@consumer_scenario("a topic that is deleted and created again is another topic")
async def a_subscribed_topic_is_created_again(s: Script) -> None:
    topic = await s.topic(1)
    a = await s.consumer("A", topic).joined()
    await a.commit(topics=[(topic, 0, "note")])
    await s.delete_topic(topic)
    await s.topic(1)
    await a.heartbeat()
    await a.heartbeat(owned={})
    await s.describe_consumers()
    await a.fetch()


@consumer_scenario("metadata changes of an empty group are noticed when a member joins")
async def a_topic_is_created_while_a_group_is_empty(s: Script) -> None:
    a = await s.consumer("A", f"{s.group}.topic").joined()
    await a.leave()
    await s.topic(1)
    await s.describe_consumers()
    await a.join()
    await s.describe_consumers()


@consumer_scenario("a topic that no member is subscribed to changes nothing")
async def another_topic_is_created(s: Script) -> None:
    a = await s.consumer("A").joined()
    await s.topic(1)
    await a.heartbeat()
    await a.heartbeat()
    await s.describe_consumers()


@consumer_scenario("racks: members with racks, on a broker without a rack")
async def consumers_with_racks(s: Script) -> None:
    a = await s.consumer("A", rack_id="r1", server_assignor="range").joined()
    b = await s.consumer("B", rack_id="r2", server_assignor="range").joined()
    await s.converge(a, b)
    await s.describe_consumers()
    await b.heartbeat(rack_id="r1")
    await a.heartbeat()
    await s.describe_consumers()
