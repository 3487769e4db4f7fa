"""DescribeQuorum, AddRaftVoter, RemoveRaftVoter, UnregisterBroker, UpdateFeatures."""

from typing import Any
from uuid import UUID

from ..scenario import scenario
from ..script import Script

METADATA = "__cluster_metadata"
OTHER = "epoch and offsets are from another log; no listener belongs to a controller"
HIDDEN = ("leader_epoch", "high_watermark", "log_end_offset", "listeners")


async def describe(s: Script, version: int, *topics: tuple[str, tuple[int, ...]]) -> None:
    listed = [
        {"topic_name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in topics
    ]
    await s.send("DescribeQuorum", version, {"topics": listed})


@scenario("DescribeQuorum: one voter, in every version", excuse=OTHER, hides=HIDDEN)
async def the_quorum_is_described(s: Script) -> None:
    await s.pass_ms(50)
    for version in range(3):
        await describe(s, version, (METADATA, (0,)))


@scenario("DescribeQuorum: anything but one partition of the metadata log")
async def the_quorum_of_other_partitions_is_described(s: Script) -> None:
    for version in range(3):
        await describe(s, version)
        await describe(s, version, ("orders", (0, 1)), ("nothing", (0,)))
        await describe(s, version, (METADATA, (1,)))
        await describe(s, version, (METADATA, (0, 0)))
        await describe(s, version, (METADATA, ()))
        await describe(s, version, (METADATA, (0,)), (METADATA, (0,)))
        await describe(s, version, (METADATA, (0,)), ("orders", (0,)))


DIRECTORY = UUID(int=5)
LISTENERS = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 9}]


@scenario("AddRaftVoter: no voter can be added to a static quorum")
async def voters_are_added(s: Script) -> None:
    cluster_id = await s.cluster_id()
    for version in (0, 1):
        for cluster in (cluster_id, None, "another", ""):
            for directory in (DIRECTORY, None):
                for voter in (1, 7, 0, -1):
                    values = {"cluster_id": cluster, "timeout": 1000, "voter_id": voter}
                    values |= {"voter_directory_id": directory, "listeners": LISTENERS}
                    await s.send("AddRaftVoter", version, values)


@scenario("RemoveRaftVoter: no voter can be removed from a static quorum")
async def voters_are_removed(s: Script) -> None:
    cluster_id = await s.cluster_id()
    for cluster in (cluster_id, None, "another", ""):
        for directory in (DIRECTORY, None):
            for voter in (1, 7, 0, -1):
                values = {"cluster_id": cluster, "voter_id": voter, "voter_directory_id": directory}
                await s.send("RemoveRaftVoter", 0, values)


@scenario("UnregisterBroker: unknown brokers")
async def unknown_brokers_are_unregistered(s: Script) -> None:
    for broker in (7, 0, -1):
        await s.send("UnregisterBroker", 0, {"broker_id": broker})


UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


async def update(
    s: Script, version: int, *updates: tuple[str, int, int], timeout: int = 30_000, **values: Any
) -> None:
    """Send UpdateFeatures. Each update is (feature, level, type)."""
    listed = [
        {
            "feature": feature,
            "max_version_level": level,
            "upgrade_type": type_,
            "allow_downgrade": type_ != UPGRADE,
        }
        for feature, level, type_ in updates
    ]
    values = {"timeout": timeout, "feature_updates": listed, **values}
    await s.send("UpdateFeatures", version, values)


@scenario("UpdateFeatures: to the current level of a feature, in every version")
async def features_are_updated_to_their_level(s: Script) -> None:
    for version in range(3):
        await update(s, version)
        for type_ in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            await update(s, version, ("group.version", 1, type_))
            await update(s, version, ("transaction.version", 2, type_), validate_only=True)
        await update(s, version, ("group.version", 1, UPGRADE), ("transaction.version", 2, UPGRADE))


@scenario("UpdateFeatures: unknown features")
async def unknown_features_are_updated(s: Script) -> None:
    for version in range(3):
        for level in (-1, 0, 1, 99):
            for feature in ("nonsense", ""):
                await update(s, version, (feature, level, UPGRADE))
        await update(s, version, ("nonsense", 1, UPGRADE), validate_only=True)
        await update(s, version, ("nonsense", 0, SAFE_DOWNGRADE))


@scenario("UpdateFeatures: levels that do not exist")
async def features_are_updated_to_unknown_levels(s: Script) -> None:
    for version in range(3):
        for type_ in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            for level in (-1, -32_768, 2, 32_767):
                await update(s, version, ("group.version", level, type_))
                await update(s, version, ("transaction.version", level, type_), validate_only=True)


@scenario("UpdateFeatures: to a lower level as an upgrade; unknown types")
async def features_are_updated_with_other_types(s: Script) -> None:
    for version in range(3):
        await update(s, version, ("group.version", 0, UPGRADE))
        await update(s, version, ("transaction.version", 1, UPGRADE), validate_only=True)
    for version in (1, 2):
        for type_ in (0, 4, -1, 127):
            for level in (-1, 0, 1, 9):
                await update(s, version, ("group.version", level, type_))
            await update(s, version, ("nonsense", 1, type_))


@scenario("UpdateFeatures: several features, one of which cannot be updated")
async def several_features_are_updated(s: Script) -> None:
    for version in range(3):
        await update(s, version, ("group.version", 1, UPGRADE), ("nonsense", 1, UPGRADE))
        await update(s, version, ("nonsense", 1, UPGRADE), ("group.version", 1, UPGRADE))
        await update(s, version, ("group.version", 9, UPGRADE), ("group.version", 1, UPGRADE))
        await update(s, version, ("group.version", 1, UPGRADE), ("group.version", 9, UPGRADE))


@scenario("UpdateFeatures, AddRaftVoter, RemoveRaftVoter: names that are too long for the message")
async def long_names_are_rejected(s: Script) -> None:
    name = "a" * 32_760
    for version in range(3):
        await update(s, version, (name, 1, UPGRADE))
    for api in ("AddRaftVoter", "RemoveRaftVoter"):
        await s.send(api, 0, {"cluster_id": name, "voter_id": 7})


@scenario("UpdateFeatures with a timeout of 0 or less")
async def features_are_updated_without_time(s: Script) -> None:
    for timeout in (0, -1):
        await update(s, 2, timeout=timeout)
        await update(s, 2, ("group.version", 1, UPGRADE), timeout=timeout)
        await update(s, 2, ("nonsense", 1, UPGRADE), timeout=timeout)
    await update(s, 1, ("group.version", 1, UPGRADE), timeout=0)
