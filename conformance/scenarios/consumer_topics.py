"""KIP-848 groups whose topics are created, extended and deleted."""

from ..scenario import scenario
from ..script import Script


@scenario("a topic that is created later is assigned at the next heartbeat", settings="consumer")
async def a_subscribed_topic_is_created(s: Script) -> None:
    a = s.consumer("A", f"{s.group}.topic", server_assignor="range")
    b = s.consumer("B", f"{s.group}.topic", server_assignor="range")
    await a.join()
    await b.join()
    await a.heartbeat()
    await s.describe_consumers()
    await s.topic(2)
    await b.heartbeat()
    await s.describe_consumers()
    await a.heartbeat()
    await b.heartbeat()
    await s.describe_consumers()


@scenario("partitions that are added later are assigned", settings="consumer")
async def partitions_are_added_to_a_subscribed_topic(s: Script) -> None:
    topic = await s.topic(2)
    a = s.consumer("A", topic, server_assignor="range")
    b = s.consumer("B", topic, server_assignor="range")
    await a.join()
    await b.join()
    await s.converge(a, b)
    await s.add_partitions(topic, 4)
    await s.describe_consumers()
    await s.converge(a, b)
    await s.describe_consumers()


@scenario("a topic that is deleted is revoked", settings="consumer")
async def a_subscribed_topic_is_deleted(s: Script) -> None:
    topic = await s.topic(2)
    a = s.consumer("A", topic, "orders")
    await a.join()
    await a.commit(topics=[(topic, 0, "note"), ("orders", 0, "note")])
    await s.delete_topic(topic)
    await s.describe_consumers()
    await a.heartbeat()
    await s.describe_consumers()
    await a.heartbeat(owned={"orders": [0, 1]})
    await a.heartbeat()
    await s.describe_consumers()
    await a.fetch()


@scenario("a topic that is deleted and created again is another topic", settings="consumer")
async def a_subscribed_topic_is_created_again(s: Script) -> None:
    topic = await s.topic(1)
    a = s.consumer("A", topic)
    await a.join()
    await a.commit(topics=[(topic, 0, "note")])
    await s.delete_topic(topic)
    await s.topic(1)
    await a.heartbeat()
    await a.heartbeat(owned={})
    await s.describe_consumers()
    await a.fetch()


@scenario("metadata changes of an empty group are noticed when a member joins", settings="consumer")
async def a_topic_is_created_while_a_group_is_empty(s: Script) -> None:
    a = s.consumer("A", f"{s.group}.topic")
    await a.join()
    await a.leave()
    await s.topic(1)
    await s.describe_consumers()
    await a.join()
    await s.describe_consumers()


@scenario("a topic that no member is subscribed to changes nothing", settings="consumer")
async def another_topic_is_created(s: Script) -> None:
    a = s.consumer("A")
    await a.join()
    await s.topic(1)
    await a.heartbeat()
    await a.heartbeat()
    await s.describe_consumers()


@scenario("racks: members with racks, on a broker without one", settings="consumer")
async def consumers_with_racks(s: Script) -> None:
    a = s.consumer("A", rack_id="r1", server_assignor="range")
    b = s.consumer("B", rack_id="r2", server_assignor="range")
    await a.join()
    await b.join()
    await s.converge(a, b)
    await s.describe_consumers()
    await b.heartbeat(rack_id="r1")
    await a.heartbeat()
    await s.describe_consumers()
