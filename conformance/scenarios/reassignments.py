"""AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders, AlterReplicaLogDirs."""

from typing import Any

from ..scenario import scenario
from ..script import Script

Partitions = tuple[tuple[int, tuple[int, ...] | None], ...]
"""The replicas of partitions, by index; None cancels the reassignment."""


async def alter(s: Script, version: int = 1, **values: Any) -> None:
    await s.send("AlterPartitionReassignments", version, {"timeout": 30_000, **values})


def topic(name: str, *partitions: tuple[int, tuple[int, ...] | None]) -> dict[str, Any]:
    listed = [{"partition_index": index, "replicas": replicas} for index, replicas in partitions]
    return {"name": name, "partitions": listed}


@scenario("AlterPartitionReassignments: to the current replicas, in every version")
async def partitions_are_reassigned_to_their_replicas(s: Script) -> None:
    for version in (0, 1):
        await alter(s, version, topics=[topic("orders", (0, (1,)), (1, (1,)))])
        for allow in (False, True):
            topics = [topic("payments", (0, (1,)))]
            await alter(s, version, topics=topics, allow_replication_factor_change=allow)
            await alter(s, version, topics=(), allow_replication_factor_change=allow)
        await alter(s, version, topics=[topic("orders"), topic("nothing")])


@scenario("AlterPartitionReassignments: there is no reassignment to cancel")
async def reassignments_are_cancelled(s: Script) -> None:
    for version in (0, 1):
        await alter(s, version, topics=[topic("orders", (0, None), (1, None), (2, None))])
        await alter(s, version, topics=[topic("nothing", (0, None))])


@scenario("AlterPartitionReassignments: unknown topics and partitions, in the request's order")
async def unknown_partitions_are_reassigned(s: Script) -> None:
    for replicas in ((1,), (), (7,), (1, 1)):
        topics = [
            topic("nothing", (0, replicas)),
            topic("orders", (9, replicas), (-1, replicas)),
            topic("", (0, replicas)),
            topic("payments", (0, (1,))),
            topic("not a topic!", (0, replicas)),
        ]
        await alter(s, topics=topics)


@scenario("AlterPartitionReassignments: unknown or repeated replicas, or no replicas")
async def partitions_are_reassigned_to_other_replicas(s: Script) -> None:
    for version in (0, 1):
        for replicas in (
            *((), (7,), (-1,), (1, 1), (1, 7), (7, 1), (7, 8), (8, 7, -3), (7, 7)),
            *((2, 2, 1), (1, 1, 7, 7)),
        ):
            for allow in (False, True):
                topics = [topic("orders", (0, replicas), (1, (1,)))]
                await alter(s, version, topics=topics, allow_replication_factor_change=allow)


@scenario("AlterPartitionReassignments: repeated topics and partitions")
async def partitions_are_reassigned_twice(s: Script) -> None:
    twice = [
        topic("orders", (0, (1,)), (0, (7,)), (0, None)),
        topic("payments", (0, ())),
        topic("orders", (1, (1,)), (0, (1,))),
    ]
    await alter(s, topics=twice)


@scenario("AlterPartitionReassignments: a name that is too long for the message")
async def partitions_of_a_topic_with_a_long_name_are_reassigned(s: Script) -> None:
    topics = [topic("orders", (0, (1,))), topic("a" * 32_760, (0, (1,)))]
    await alter(s, topics=topics, allow_replication_factor_change=False)


@scenario("AlterPartitionReassignments, ListPartitionReassignments with a timeout of 0 or less")
async def reassignments_without_time(s: Script) -> None:
    for timeout in (0, -1):
        for topics in ((), [topic("orders", (0, (1,)))], [topic("nothing", (0, None))]):
            await alter(s, topics=topics, timeout=timeout)
        for listed in (None, (), [{"name": "orders", "partition_indexes": (0,)}]):
            values = {"timeout": timeout, "topics": listed}
            await s.send("ListPartitionReassignments", 0, values)


@scenario("ListPartitionReassignments: no partition is being reassigned")
async def reassignments_are_listed(s: Script) -> None:
    for topics in (
        None,
        (),
        [{"name": "orders", "partition_indexes": (0, 1)}],
        [{"name": "orders", "partition_indexes": ()}],
        [
            {"name": "nothing", "partition_indexes": (0,)},
            {"name": "orders", "partition_indexes": (9, -1, 0, 0)},
            {"name": "orders", "partition_indexes": (0,)},
            {"name": "", "partition_indexes": (0,)},
        ],
    ):
        await s.send("ListPartitionReassignments", 0, {"timeout": 30_000, "topics": topics})


async def move(s: Script, version: int, *dirs: tuple[str, dict[str, tuple[int, ...]]]) -> None:
    """Send AlterReplicaLogDirs. Each item has a path, in which DIR is the broker's log directory,
    and partitions by topic. The transcript does not contain that directory."""
    log_dir = await s.log_dir()
    listed = [
        {
            "path": path.replace("DIR", log_dir),
            "topics": [{"name": n, "partitions": p} for n, p in topics.items()],
        }
        for path, topics in dirs
    ]
    await s.send("AlterReplicaLogDirs", version, {"dirs": listed}, text=f"dirs {dirs}")


@scenario("ElectLeaders: nothing is done after the timeout")
async def leaders_are_elected_too_late(s: Script) -> None:
    wanted = [{"topic": "orders", "partitions": (0, 9)}, {"topic": "nothing", "partitions": (0,)}]
    for version in range(3):
        for timeout in (0, -1):
            for topics in (None, (), wanted):
                for type_ in (0, 9) if version else (0,):
                    values = {"topic_partitions": topics, "election_type": type_}
                    await s.send("ElectLeaders", version, {**values, "timeout": timeout})


@scenario("AlterReplicaLogDirs: to the directory that has the replica, in every version")
async def replicas_are_moved_to_their_directory(s: Script) -> None:
    for version in (1, 2):
        await move(s, version, ("DIR", {"orders": (0, 1), "payments": (0,)}))
        await move(s, version)
        await move(s, version, ("DIR", {}))
        await move(s, version, ("DIR", {"orders": ()}))
        await move(s, version, ("DIR", {"orders": (9, -1, 0), "nothing": (0,), "": (0,)}))


@scenario("AlterReplicaLogDirs: to a directory that the broker does not have")
async def replicas_are_moved_to_unknown_directories(s: Script) -> None:
    for path in ("/nowhere", "", "relative", "DIR/", "DIR/orders-0", "DIR/../data", "\0"):
        await move(s, 2, (path, {"orders": (0, 9), "nothing": (0,)}))


@scenario("AlterReplicaLogDirs: the last directory that the request names for a partition applies")
async def replicas_are_moved_to_several_directories(s: Script) -> None:
    here, elsewhere = ("DIR", {"orders": (0, 0)}), ("/nowhere", {"orders": (0,)})
    await move(s, 2, here, elsewhere)
    await move(s, 2, elsewhere, here)
    await move(s, 2, elsewhere, ("DIR", {"payments": (0,), "orders": (1,)}), here, elsewhere)
    await move(s, 2, ("DIR", {"nothing": (0,)}), ("/nowhere", {"nothing": (0,), "x": (1,)}))


@scenario("AlterReplicaLogDirs: the name of a future replica has at most 255 characters")
async def replicas_with_long_names_are_moved(s: Script) -> None:
    for path in ("DIR", "/nowhere"):
        for length in (212, 213, 214, 249):
            await move(s, 2, (path, {"a" * length: (0, 10, 1_000, -1)}))
