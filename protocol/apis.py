"""The API table: APIs and versions served by kohort, and by older Kafka releases.

ApiVersions, request routing and a table in docs/compatibility.md are derived from it. Importing
this module loads neither kio nor schemas. kohort serves the versions that both Kafka 4.3 and kio
support.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Api:
    """An API and its served versions. Versions from `flexible_from` on have tagged fields, compact
    lengths and newer headers (KIP-482)."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    max_version_in_2_8: int | None = None
    """Highest version in Kafka 2.8, or None if that release lacks the API."""
    max_version_in_3_9: int | None = None
    advertised_from: int | None = None
    """The lowest version in ApiVersions, if it differs from `min_version`."""
    is_listed: bool = True
    """Whether ApiVersions lists the API."""

    @property
    def advertised_min_version(self) -> int:
        return self.min_version if self.advertised_from is None else self.advertised_from

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


# Key, name, lowest and highest served version, first flexible version, highest version in Kafka 2.8
# and in 3.9. The last two come from ApiVersions responses of ZooKeeper-based brokers, in
# kafka-python's kafka/protocol/broker_version_data.py.
APIS: tuple[Api, ...] = (
    # librdkafka before 2.8 assumes that a broker without Produce v0 lacks message format v2
    # (KAFKA-18659), so Kafka 4 advertises v0 but rejects v0 to v2.
    Api(0, "Produce", 3, 13, 9, 9, 11, advertised_from=0),
    Api(1, "Fetch", 4, 18, 12, 12, 17),
    Api(2, "ListOffsets", 1, 11, 6, 6, 9),
    Api(3, "Metadata", 0, 13, 9, 11, 12),
    Api(8, "OffsetCommit", 2, 10, 8, 8, 9),
    Api(9, "OffsetFetch", 1, 10, 6, 7, 9),
    Api(10, "FindCoordinator", 0, 6, 3, 3, 6),
    Api(11, "JoinGroup", 0, 9, 6, 7, 9),
    Api(12, "Heartbeat", 0, 4, 4, 4, 4),
    Api(13, "LeaveGroup", 0, 5, 4, 4, 5),
    Api(14, "SyncGroup", 0, 5, 4, 5, 5),
    Api(15, "DescribeGroups", 0, 6, 5, 5, 5),
    Api(16, "ListGroups", 0, 5, 3, 4, 5),
    Api(17, "SaslHandshake", 0, 1, 2, 1, 1),
    Api(18, "ApiVersions", 0, 4, 3, 3, 4),
    Api(19, "CreateTopics", 2, 7, 5, 7, 7),
    Api(20, "DeleteTopics", 1, 6, 4, 6, 6),
    Api(21, "DeleteRecords", 0, 2, 2, 2, 2),
    Api(22, "InitProducerId", 0, 5, 2, 4, 5),
    Api(23, "OffsetForLeaderEpoch", 2, 4, 4, 4, 4),
    Api(24, "AddPartitionsToTxn", 0, 5, 3, 3, 5),
    Api(25, "AddOffsetsToTxn", 0, 4, 3, 3, 4),
    Api(26, "EndTxn", 0, 5, 3, 3, 4),
    Api(27, "WriteTxnMarkers", 1, 2, 1, 1, 1),
    Api(28, "TxnOffsetCommit", 0, 5, 3, 3, 4),
    Api(29, "DescribeAcls", 1, 3, 2, 2, 3),
    Api(30, "CreateAcls", 1, 3, 2, 2, 3),
    Api(31, "DeleteAcls", 1, 3, 2, 2, 3),
    Api(32, "DescribeConfigs", 1, 4, 4, 4, 4),
    Api(33, "AlterConfigs", 0, 2, 2, 2, 2),
    Api(34, "AlterReplicaLogDirs", 1, 2, 2, 2, 2),
    Api(35, "DescribeLogDirs", 1, 5, 2, 2, 4),
    Api(36, "SaslAuthenticate", 0, 2, 2, 2, 2),
    Api(37, "CreatePartitions", 0, 3, 2, 3, 3),
    Api(38, "CreateDelegationToken", 1, 3, 2, 2, 3),
    Api(39, "RenewDelegationToken", 1, 2, 2, 2, 2),
    Api(40, "ExpireDelegationToken", 1, 2, 2, 2, 2),
    Api(41, "DescribeDelegationToken", 1, 3, 2, 2, 3),
    Api(42, "DeleteGroups", 0, 2, 2, 2, 2),
    Api(43, "ElectLeaders", 0, 2, 2, 2, 2),
    Api(44, "IncrementalAlterConfigs", 0, 1, 1, 1, 1),
    Api(45, "AlterPartitionReassignments", 0, 1, 0, 0, 0),
    Api(46, "ListPartitionReassignments", 0, 0, 0, 0, 0),
    Api(47, "OffsetDelete", 0, 0, 1, 0, 0),
    Api(48, "DescribeClientQuotas", 0, 1, 1, 1, 1),
    Api(49, "AlterClientQuotas", 0, 1, 1, 1, 1),
    Api(50, "DescribeUserScramCredentials", 0, 0, 0, 0, 0),
    Api(51, "AlterUserScramCredentials", 0, 0, 0, 0, 0),
    Api(55, "DescribeQuorum", 0, 2, 0),
    Api(57, "UpdateFeatures", 0, 2, 0, 0, 1),
    Api(60, "DescribeCluster", 0, 2, 0, 0, 1),
    Api(61, "DescribeProducers", 0, 0, 0, 0, 0),
    Api(64, "UnregisterBroker", 0, 0, 0),
    Api(65, "DescribeTransactions", 0, 0, 0, None, 0),
    Api(66, "ListTransactions", 0, 2, 0, None, 1),
    Api(68, "ConsumerGroupHeartbeat", 0, 1, 0, None, 0),
    Api(69, "ConsumerGroupDescribe", 0, 1, 0, None, 0),
    # Served but not listed, as in Kafka without a client metrics receiver.
    Api(71, "GetTelemetrySubscriptions", 0, 0, 0, is_listed=False),
    Api(72, "PushTelemetry", 0, 0, 0, is_listed=False),
    Api(74, "ListConfigResources", 0, 1, 0),
    Api(75, "DescribeTopicPartitions", 0, 0, 0),
    Api(80, "AddRaftVoter", 0, 1, 0),
    Api(81, "RemoveRaftVoter", 0, 0, 0),
)

BY_KEY: Mapping[int, Api] = MappingProxyType({api.key: api for api in APIS})

STRING_BYTES_MAX = 0x7FFF
"""Maximum string length in a message, compact strings included (upstream: MessageDataGenerator)."""

API_VERSIONS = 18
"""The key of ApiVersions, the only API whose unknown versions get a response (KIP-511)."""

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


# Older releases, for clients under test

Profile = Mapping[int, Api]
"""The APIs of a release by key, with the highest versions that it serves."""

NEWEST: Final = "kafka-4.x"


def _profile(max_versions: Iterable[int | None]) -> Profile:
    # All profiles use the lowest versions of Kafka 4.
    return MappingProxyType(
        {
            api.key: replace(api, max_version=version)
            for api, version in zip(APIS, max_versions, strict=True)
            if version is not None
        }
    )


PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {
        "kafka-2.8": _profile(api.max_version_in_2_8 for api in APIS),
        "kafka-3.9": _profile(api.max_version_in_3_9 for api in APIS),
        NEWEST: BY_KEY,
    }
)
