"""The API table: which APIs and versions are served, by us and by older Kafka releases.

ApiVersions, request routing and the table in the README are made from it. Importing it loads
neither kio nor any schema. Our versions are those that both Kafka 4.3 and kio have.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Api:
    """An API and its served versions. Those from `flexible_from` on have tagged fields, compact
    lengths and the newer headers (KIP-482)."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    advertised_min_version: int
    """The lowest version that ApiVersions lists."""

    @property
    def schema(self) -> str:
        """The name in snake case, as in `offset_commit`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()

    @property
    def handler(self) -> str:
        """The module in `broker/handlers`, as in `k08_offset_commit`."""
        return f"k{self.key:02d}_{self.schema}"

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version


def _api(
    key: int,
    name: str,
    versions: tuple[int, int],
    flexible_from: int,
    advertised_from: int | None = None,
) -> Api:
    low, high = versions
    advertised = low if advertised_from is None else advertised_from
    return Api(key, name, low, high, flexible_from, advertised)


APIS: tuple[Api, ...] = (
    # librdkafka before 2.8 takes a broker without Produce v0 for one without message format v2
    # (KAFKA-18659); Kafka 4 lists it from 0 and rejects 0 to 2.
    _api(0, "Produce", (3, 13), 9, advertised_from=0),
    _api(1, "Fetch", (4, 18), 12),
    _api(2, "ListOffsets", (1, 11), 6),
    _api(3, "Metadata", (0, 13), 9),
    _api(8, "OffsetCommit", (2, 10), 8),
    _api(9, "OffsetFetch", (1, 10), 6),
    _api(10, "FindCoordinator", (0, 6), 3),
    _api(11, "JoinGroup", (0, 9), 6),
    _api(12, "Heartbeat", (0, 4), 4),
    _api(13, "LeaveGroup", (0, 5), 4),
    _api(14, "SyncGroup", (0, 5), 4),
    _api(15, "DescribeGroups", (0, 6), 5),
    _api(16, "ListGroups", (0, 5), 3),
    _api(18, "ApiVersions", (0, 4), 3),
    _api(19, "CreateTopics", (2, 7), 5),
    _api(20, "DeleteTopics", (1, 6), 4),
    _api(21, "DeleteRecords", (0, 2), 2),
    _api(22, "InitProducerId", (0, 5), 2),
    _api(23, "OffsetForLeaderEpoch", (2, 4), 4),
    _api(29, "DescribeAcls", (1, 3), 2),
    _api(30, "CreateAcls", (1, 3), 2),
    _api(31, "DeleteAcls", (1, 3), 2),
    _api(32, "DescribeConfigs", (1, 4), 4),
    _api(33, "AlterConfigs", (0, 2), 2),
    _api(35, "DescribeLogDirs", (1, 5), 2),
    _api(37, "CreatePartitions", (0, 3), 2),
    _api(42, "DeleteGroups", (0, 2), 2),
    _api(43, "ElectLeaders", (0, 2), 2),
    _api(44, "IncrementalAlterConfigs", (0, 1), 1),
    _api(47, "OffsetDelete", (0, 0), 1),
    _api(48, "DescribeClientQuotas", (0, 1), 1),
    _api(50, "DescribeUserScramCredentials", (0, 0), 0),
    _api(60, "DescribeCluster", (0, 2), 0),
    _api(61, "DescribeProducers", (0, 0), 0),
    _api(65, "DescribeTransactions", (0, 0), 0),
    _api(66, "ListTransactions", (0, 2), 0),
    _api(74, "ListConfigResources", (0, 1), 0),
    _api(75, "DescribeTopicPartitions", (0, 0), 0),
)

BY_KEY: Mapping[int, Api] = MappingProxyType({api.key: api for api in APIS})

STRING_BYTES_MAX = 0x7FFF
"""The longest string in any message, with a compact length too (upstream: MessageDataGenerator)."""

API_VERSIONS = 18
"""The key of ApiVersions, the only API whose unknown versions get a response (KIP-511)."""


# Older releases, for clients under test

Profile = Mapping[int, Api]
"""The APIs of a release by key, with its highest versions."""

NEWEST: Final = "kafka-4.x"

# From the ApiVersions responses of brokers of these releases, which kafka-python has in
# kafka/protocol/broker_version_data.py; both ran with ZooKeeper. Lowest versions are those of
# Kafka 4: it supports no lower ones.

_IN_2_8: Final = {
    "Produce": 9,
    "Fetch": 12,
    "ListOffsets": 6,
    "Metadata": 11,
    "OffsetCommit": 8,
    "OffsetFetch": 7,
    "FindCoordinator": 3,
    "JoinGroup": 7,
    "Heartbeat": 4,
    "LeaveGroup": 4,
    "SyncGroup": 5,
    "DescribeGroups": 5,
    "ListGroups": 4,
    "ApiVersions": 3,
    "CreateTopics": 7,
    "DeleteTopics": 6,
    "DeleteRecords": 2,
    "InitProducerId": 4,
    "OffsetForLeaderEpoch": 4,
    "DescribeAcls": 2,
    "CreateAcls": 2,
    "DeleteAcls": 2,
    "DescribeConfigs": 4,
    "AlterConfigs": 2,
    "DescribeLogDirs": 2,
    "CreatePartitions": 3,
    "DeleteGroups": 2,
    "ElectLeaders": 2,
    "IncrementalAlterConfigs": 1,
    "OffsetDelete": 0,
    "DescribeClientQuotas": 1,
    "DescribeUserScramCredentials": 0,
    "DescribeCluster": 0,
    "DescribeProducers": 0,
}

_IN_3_9: Final = {
    **_IN_2_8,
    "Produce": 11,
    "Fetch": 17,
    "ListOffsets": 9,
    "Metadata": 12,
    "OffsetCommit": 9,
    "OffsetFetch": 9,
    "FindCoordinator": 6,
    "JoinGroup": 9,
    "LeaveGroup": 5,
    "ListGroups": 5,
    "ApiVersions": 4,
    "InitProducerId": 5,
    "DescribeAcls": 3,
    "CreateAcls": 3,
    "DeleteAcls": 3,
    "DescribeLogDirs": 4,
    "DescribeCluster": 1,
    "DescribeTransactions": 0,
    "ListTransactions": 1,
}


def _profile(max_versions: Mapping[str, int]) -> Profile:
    return MappingProxyType(
        {
            api.key: replace(api, max_version=max_versions[api.name])
            for api in APIS
            if api.name in max_versions
        }
    )


PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {"kafka-2.8": _profile(_IN_2_8), "kafka-3.9": _profile(_IN_3_9), NEWEST: BY_KEY}
)
