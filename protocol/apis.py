"""The API table: what is served, in which versions. ApiVersions, the dispatcher and the README's
table are made from it. Importing it costs nothing: no kio, no schema.

Versions are those that both Kafka 4.3 and kio have.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Api:
    """One API: `min_version` … `max_version` are served; versions from `flexible_from` on have
    tagged fields and the newer headers (KIP-482)."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    advertised_min_version: int
    """What ApiVersions lists as the lowest version."""

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
    listed_from: int | None = None,
) -> Api:
    low, high = versions
    return Api(key, name, low, high, flexible_from, low if listed_from is None else listed_from)


APIS: tuple[Api, ...] = (
    # librdkafka before 2.8 takes a broker without Produce v0 for one that cannot do message
    # format v2 (KAFKA-18659); Kafka 4 lists it from 0 and refuses 0 … 2 when they are used.
    _api(0, "Produce", (3, 13), 9, listed_from=0),
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
"""The one API whose unknown versions are answered (KIP-511)."""
