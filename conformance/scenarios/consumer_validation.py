"""ConsumerGroupHeartbeat: which requests are invalid, and in which order the fields are checked."""

from typing import Any
from uuid import UUID

from ..scenario import consumer_scenario
from ..script import Script


@consumer_scenario("heartbeat: an empty group id, before all other fields")
async def a_consumer_heartbeat_without_a_group_id(s: Script) -> None:
    a = s.consumer("A")
    for version in (0, 1):
        await a.join(version, group_id="")
        await a.join(version, group_id=" ")
        await a.join(version, group_id="", member_id="", instance_id="", rack_id="")


@consumer_scenario("heartbeat: an empty member id, when joining: v0 creates one")
async def a_consumer_joins_without_a_member_id(s: Script) -> None:
    a, b = s.consumer("A"), s.consumer("B")
    await a.join(1, member_id="")
    await a.join(0, member_id="")
    await b.join(0)
    await s.describe_consumers()


@consumer_scenario("heartbeat: an empty member id, at every epoch")
async def consumer_heartbeats_without_a_member_id(s: Script) -> None:
    await s.consumer("A").join()
    for version in (0, 1):
        for epoch in (1, -1, -2, -3):
            await s.consumer("B").heartbeat(version, member_id="", member_epoch=epoch)


@consumer_scenario("heartbeat: blank member ids")
async def a_consumer_with_a_blank_member_id(s: Script) -> None:
    for version in (0, 1):
        await s.consumer("A").join(version, member_id=" ")
        await s.consumer("A").join(version, member_id="\t")
    await s.describe_consumers()


@consumer_scenario("heartbeat: empty instance ids and rack ids, at every epoch")
async def consumers_with_empty_instance_and_rack_ids(s: Script) -> None:
    a = s.consumer("A")
    for epoch in (0, 1, -1, -2):
        for value in ("", " "):
            await a.join(member_epoch=epoch, instance_id=value)
            await a.join(member_epoch=epoch, rack_id=value)
    await a.join(0, instance_id="", rack_id="")


@consumer_scenario("heartbeat: joins without a required field")
async def consumers_join_without_required_fields(s: Script) -> None:
    a = s.consumer("A")
    for version in (0, 1):
        await a.join(version, rebalance_timeout=None)
        await a.join(version, rebalance_timeout=-1)
        await a.join(version, topic_partitions=None)
        await a.join(version, subscribed_topic_names=None)
        await a.heartbeat(version, member_epoch=0)
    await a.heartbeat(rebalance_timeout=1)
    await a.heartbeat(rebalance_timeout=1, topic_partitions=())
    await s.describe_consumers()


@consumer_scenario("heartbeat: joins that own partitions")
async def consumers_join_with_partitions(s: Script) -> None:
    a = s.consumer("A")
    for version in (0, 1):
        await a.join(version, owned={"orders": [0]})
        await a.join(version, topic_partitions=s.topic_partitions({"orders": [0]}))
        await a.join(version, topic_partitions=s.topic_partitions({"orders": []}))


@consumer_scenario("heartbeat: joins with unusual values that are valid")
async def consumers_join_with_unusual_values(s: Script) -> None:
    joins: dict[str, dict[str, Any]] = {
        "A": {"rebalance_timeout": 0},
        "B": {"rebalance_timeout": -2},
        "C": {"subscribed_topic_names": ()},
        "D": {"subscribed_topic_names": ("orders", "orders")},
        "E": {"subscribed_topic_names": ("",)},
        "F": {"subscribed_topic_names": ("not a topic!", "unknown")},
        "H": {"member_id": "x" * 300},
    }
    for name, fields in joins.items():
        await s.consumer(name, server_assignor="range").join(**fields)
    await s.consumer("I", server_assignor="range").join(0, subscribed_topic_names=())
    await s.describe_consumers()


@consumer_scenario("heartbeat: epochs below -2, and -2 without an instance id")
async def consumer_heartbeats_with_negative_epochs(s: Script) -> None:
    a = await s.consumer("A").joined()
    for version in (0, 1):
        for epoch in (-3, -100, -(2**31)):
            await a.heartbeat(version, member_epoch=epoch)
        await a.heartbeat(version, member_epoch=-2)
    await a.heartbeat(member_epoch=-2, instance_id="i1")
    await a.heartbeat()


@consumer_scenario("heartbeat: names of assignors")
async def consumers_with_unknown_assignors(s: Script) -> None:
    a = s.consumer("A")
    for name in ("unknown", "", " ", "Uniform", "RANGE", "org.apache.kafka.RangeAssignor"):
        await a.join(server_assignor=name)
    for name in ("range", "uniform"):
        await a.join(server_assignor=name, group_id=f"{s.group}/{name}")
        await s.describe_consumers(1, f"{s.group}/{name}")


@consumer_scenario("heartbeat: an unknown assignor at every epoch")
async def live_consumers_with_unknown_assignors(s: Script) -> None:
    a = await s.consumer("A", instance="i1").joined()
    await a.heartbeat(server_assignor="unknown")
    await a.heartbeat(server_assignor="unknown", member_epoch=7)
    await a.heartbeat(server_assignor="unknown", member_epoch=-2)
    await a.heartbeat(server_assignor="unknown", member_epoch=-1)
    await s.describe_consumers()


@consumer_scenario("heartbeat: which of several mistakes is reported")
async def consumer_heartbeats_with_several_mistakes(s: Script) -> None:
    a = s.consumer("A")
    wrong = {
        "group_id": "",
        "member_id": "",
        "instance_id": "",
        "rack_id": "",
        "rebalance_timeout": -1,
        "topic_partitions": s.topic_partitions({"orders": [0]}),
        "subscribed_topic_names": None,
        "subscribed_topic_regex": "(",
        "server_assignor": "unknown",
    }
    right = {
        "group_id": s.group,
        "member_id": "A",
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": 60_000,
        "topic_partitions": (),
        "subscribed_topic_names": ("orders",),
        "subscribed_topic_regex": None,
        "server_assignor": None,
    }
    for version in (1, 0):
        given = dict(wrong)
        for field, value in right.items():
            await a.heartbeat(version, member_epoch=0, **given)
            given[field] = value
        await a.heartbeat(version, member_epoch=0, **given)


@consumer_scenario("heartbeat: the owned partitions of a member are not validated")
async def consumers_own_partitions_that_do_not_exist(s: Script) -> None:
    a = await s.consumer("A").joined()
    await a.heartbeat(owned={"orders": [0, 1, 99]})
    await a.heartbeat(owned={"payments": [0]})
    await a.heartbeat(owned={"orders": [0, 0]})
    unknown = UUID("00000000-0000-4000-8000-000000000001")
    await a.heartbeat(topic_partitions=[{"topic_id": unknown, "partitions": (0,)}])
    await a.heartbeat(owned={})
    await a.report()


@consumer_scenario("heartbeat: unknown groups and unknown members, at every epoch")
async def heartbeats_of_unknown_consumers(s: Script) -> None:
    a, b = s.consumer("A"), s.consumer("B", instance="i1")
    for version in (0, 1):
        for epoch in (1, -1, 2**31 - 1):
            await a.heartbeat(version, member_epoch=epoch)
        await b.heartbeat(version, member_epoch=-2)
    await s.consumer("C").join()
    for version in (0, 1):
        for epoch in (1, -1, 2**31 - 1):
            await a.heartbeat(version, member_epoch=epoch)
            await b.heartbeat(version, member_epoch=epoch)
        await b.heartbeat(version, member_epoch=-2)
    await s.describe_consumers()
