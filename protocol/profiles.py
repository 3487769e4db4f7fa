"""Older Kafkas, as far as the versions of APIs go: which of ours a broker of that release served.

What a 2.8 and a 3.9 broker told in ApiVersions (kafka-python keeps such answers, in
kafka/protocol/broker_version_data.py; both brokers ran with ZooKeeper), of the APIs that kohort
has. Its own lowest versions are those of Kafka 4 in all of them.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from .apis import APIS, BY_KEY, Api

Profile = Mapping[int, Api]
"""Key -> API, with the highest version of that release; those that it had not are left out."""

NEWEST: Final = "kafka-4.x"

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
