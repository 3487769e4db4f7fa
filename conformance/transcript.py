"""Transcripts: the steps of a script and the responses, normalized.

Ids and addresses that differ from run to run get names, and lists without an order are sorted.
"""

import contextlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from kio.schema.index import api_key_map

from ..log.batch import BatchHeader, split
from ..log.errors import CorruptBatch
from ..log.records import records
from .broker import NODE_ID, STARTED_MS, TOPICS, ScriptBroker

Line = dict[str, Any]
Transcript = list[Line]

# Clients read the fields next to an error code only if it is one of these.
READ_AS_WHOLE = ("none", "member_id_required")
# Fields that identify the item to which an error code belongs.
IDENTIFYING = ("group_id", "name", "partition_index", "resource_name", "topic", "topic_name")
OLDER = "older"
"""The key that marks lines whose responses may be in older versions than Kafka's."""

# A member id consists of a prefix and a random UUID (version 4), as written by Java and Python or
# by other brokers. Without the lookbehind, the search of a megabyte of letters would be quadratic.
MEMBER_ID = re.compile(
    r"(?<![\w.])(?P<prefix>[\w.]*+)-"
    r"([0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|[0-9a-f]{32})"
)
# KIP-848 coordinators create ids of 22 characters: a UUID in base64.
BASE64_ID = re.compile(r"[\w-]{22}")
PRODUCER_ID = re.compile(r"(producer_id|producer_id_filters) \[?(\d+)")
# The broker's own times. Scripts set all other timestamps.
TIMES = (
    "last_caught_up_timestamp",
    "last_fetch_timestamp",
    "last_timestamp",
    "timestamp",
    "transaction_start_time",
)
FEATURES = ("group.version", "transaction.version")
NODES = ("broker_id", "controller_id", "leader", "leader_id", "node_id", "replica_id")
NODE_LISTS = ("isr_nodes", "replica_nodes")
LOCALHOST = "127.0.0.1"  # where transcripts were recorded
ITEMS_MAX = 100  # longer lists are shown as their length


class Normalizer:
    """Replaces what differs from run to run. A member id becomes the client id and a number: the
    second id of A is `A-2`."""

    def __init__(self, group: str, broker: ScriptBroker) -> None:
        self._group, self._broker = group, broker
        self._topics = {str(topic_id): name for name, topic_id in broker.topic_ids.items()}
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._generated: dict[str, str] = {}
        self._sessions: dict[int, str] = {}
        self._producers: dict[int, str] = {}
        self.cluster_id = "CLUSTER"

    def add_topic(self, name: str, topic_id: UUID) -> None:
        times = list(self._topics.values()).count(name)
        self._topics[str(topic_id)] = f"{name}, created again" if times else name

    def text(self, text: str) -> str:
        text = text.replace(self.cluster_id, "CLUSTER")
        for topic_id, name in self._topics.items():
            text = text.replace(topic_id, f"id of {name}")
        for session_id, name in self._sessions.items():
            text = text.replace(f"session_id {session_id},", f"session_id {name},")
        text = PRODUCER_ID.sub(self._producer, text)
        for member_id, name in self._generated.items():
            text = text.replace(member_id, name)
        # In the metadata of classic members, the length of a name precedes the name.
        for name in self._topics.values():
            if name.startswith(self._group):
                text = text.replace(f"\0{chr(len(name))}{name}", f"\0\0{name}")
        return MEMBER_ID.sub(self._name, text).replace(self._group, "G")

    def response(self, api: str, response: Any, *, names_topics: bool = False) -> Any:
        """Return a response, normalized. `names_topics`: whether the request names topics, so that
        the response contains no others."""
        if isinstance(response, dict) and api in ("ConsumerGroupHeartbeat", "JoinGroup"):
            member_id = response["member_id"]
            if member_id and BASE64_ID.fullmatch(member_id):
                self._generated.setdefault(member_id, f"id {len(self._generated) + 1}")
        return _sorted(api, self._normal(response), names_topics=names_topics)

    def _normal(self, value: Any) -> Any:
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, list):
            if len(value) > ITEMS_MAX and all(item == value[0] for item in value):
                return [{f"{len(value)} times": self._normal(value[0])}]
            return [self._normal(item) for item in value]
        if isinstance(value, dict):
            return {k: self._field(k, v) for k, v in value.items() if k != "throttle_time"}
        return value

    def _field(self, key: str, value: Any) -> Any:
        if key == "cluster_id":
            return "CLUSTER"
        if key == "port" and value in self._broker.ports:
            return "PORT"
        if key == "host" and value == self._broker.advertised_host:
            return LOCALHOST
        if key in NODES and value == self._broker.node_id:
            return NODE_ID
        if key in NODE_LISTS and value == [self._broker.node_id]:
            return [NODE_ID]
        if key == "client_host" and self._broker.client_host in value:
            return f"/{LOCALHOST}"
        if key == "session_id" and value:
            return self._sessions.setdefault(value, f"session {len(self._sessions) + 1}")
        if key == "producer_id" and value > 0:  # scripts do not use id 0
            return self._producers.setdefault(value, f"producer {len(self._producers) + 1}")
        if key == "records" and value:
            found = _whole_batches(value)
            if any(header.producer_id >= 0 for header, _ in found):
                return [self._batch(*each) for each in found]
        if key in TIMES and value is not None and _milliseconds(value) > STARTED_MS:
            return "NOW"
        return self._normal(value)

    def _batch(self, header: BatchHeader, whole: bytes) -> Any:
        """Return a batch of a producer as text, without its checksum."""
        batch = {
            "base_offset": header.base_offset,
            "attributes": header.attributes,
            "leader_epoch": header.leader_epoch,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "timestamp": header.max_timestamp,
            "keys and values": [[each.key, each.value] for each in records(whole)],
        }
        return self._normal(batch)

    def _producer(self, match: re.Match[str]) -> str:
        name = self._producers.get(int(match[2]))
        return match[0] if name is None else f"{match[1]} {name}"

    def _name(self, match: re.Match[str]) -> str:
        member_id, prefix = match[0], match["prefix"]
        if member_id not in self._names:
            self._counts[prefix] = self._counts.get(prefix, 0) + 1
            self._names[member_id] = f"{prefix}-{self._counts[prefix]}"
        return self._names[member_id]


def _whole_batches(fetched: bytes) -> list[tuple[BatchHeader, bytes]]:
    """Return the batches in a response, without a truncated one, which clients ignore."""
    whole = []
    with contextlib.suppress(CorruptBatch):
        for at, header in split(fetched):
            whole.append((header, fetched[at : at + header.size]))
    return whole


def _milliseconds(time: int | datetime) -> int:
    return time if isinstance(time, int) else int(time.timestamp() * 1000)


# The fields by which lists without an order, such as those from Kafka's hash maps, are sorted: by
# API and the name of the list. Without fields, the items are compared as a whole.
Orders = Mapping[str, tuple[str, ...]]
MEMBERS: Orders = {
    "groups": ("group_id",),
    "members": ("member_id",),
    "subscribed_topic_names": (),
    "topic_partitions": ("topic_name",),
    "partitions": (),
}
TOPIC_NAMES: Orders = {"topics": ("name",), "partitions": ("partition_index",)}
ORDERS: Mapping[str, Orders] = {
    "AddPartitionsToTxn": {
        "results_by_transaction": ("transactional_id",),
        "topic_results": ("name",),
        "results_by_topic_v3_and_below": ("name",),
        "results_by_partition": ("partition_index",),
    },
    "AlterReplicaLogDirs": {"results": ("topic_name",), "partitions": ("partition_index",)},
    "ApiVersions": {"supported_features": ("name",), "finalized_features": ("name",)},
    "ConsumerGroupDescribe": MEMBERS,
    "ConsumerGroupHeartbeat": {"topic_partitions": ("topic_id",), "partitions": ()},
    "CreatePartitions": {"results": ("name",)},
    "CreateTopics": TOPIC_NAMES,
    "DeleteAcls": {"matching_acls": ()},
    "DeleteGroups": {"results": ("group_id",)},
    "DeleteRecords": TOPIC_NAMES,
    "DeleteTopics": {"responses": ("name", "topic_id")},
    "DescribeAcls": {"resources": (), "acls": ()},
    "DescribeClientQuotas": {"entity": ("entity_type",), "values": ("key",)},
    "DescribeConfigs": {"results": ("resource_type", "resource_name"), "configs": ("name",)},
    "DescribeGroups": MEMBERS,
    "DescribeProducers": {"active_producers": ("producer_id",)},
    "DescribeTopicPartitions": TOPIC_NAMES,
    "DescribeTransactions": {"topics": ("topic",), "partitions": ()},
    "JoinGroup": {"members": ("member_id",)},
    "ListConfigResources": {"config_resources": ("resource_name",)},
    "ListGroups": {"groups": ("group_id",)},
    "ListOffsets": TOPIC_NAMES,
    "ListTransactions": {"transaction_states": ("transactional_id",)},
    "Metadata": TOPIC_NAMES,
    "OffsetFetch": {"topics": ("name", "topic_id"), "partitions": ("partition_index",)},
    "OffsetForLeaderEpoch": {"topics": ("topic",)},
    "Produce": {"responses": ("name",), "partition_responses": ("index",)},
    "TxnOffsetCommit": TOPIC_NAMES,
    "WriteTxnMarkers": {"topics": ("name",), "partitions": ("partition_index",)},
}
OWN_TOPICS = ("topics", "name", ("G", *TOPICS))
# For responses to requests that name no items, which also contain items of other scripts on the
# same broker: the list, the field, and the name prefixes of the script's own items.
OWN: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "DescribeTopicPartitions": OWN_TOPICS,
    "ListConfigResources": ("config_resources", "resource_name", ("G",)),
    "ListGroups": ("groups", "group_id", ("G",)),
    "ListTransactions": ("transaction_states", "transactional_id", ("G",)),
    "Metadata": OWN_TOPICS,
}


def _sorted(api: str, response: Any, *, names_topics: bool) -> Any:
    """Return a response whose lists without an order are sorted, without items of other scripts."""
    if not isinstance(response, dict):
        return response
    if api == "ApiVersions":
        _shorten_versions(response)
    if api in OWN and not names_topics:
        name, field, own = OWN[api]
        response[name] = [each for each in response[name] if str(each[field]).startswith(own)]
    _sort(response, ORDERS.get(api, {}))
    return response


def _shorten_versions(response: dict[str, Any]) -> None:
    """Show versions by the name of the API, and only the features of groups and transactions."""
    response["api_keys"] = {
        api_key_map.get(each["api_key"], each["api_key"]): (
            f"{each['min_version']}-{each['max_version']}"
        )
        for each in response["api_keys"]
    }
    for kind in ("supported_features", "finalized_features"):
        if kind in response:
            response[kind] = [each for each in response[kind] if each["name"] in FEATURES]


def _sort(value: Any, orders: Orders) -> None:
    if isinstance(value, list):
        for each in value:
            _sort(each, orders)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name in orders and isinstance(each, list):
                each.sort(key=partial(_sort_key, orders[name]))
            _sort(each, orders)


def _sort_key(fields: Sequence[str], item: Any) -> list[tuple[bool, int, str]]:
    """Return a sort key. Numbers come first."""
    values = [item.get(field) for field in fields] if fields else [item]
    return [(False, v, "") if isinstance(v, int) else (True, 0, str(v)) for v in values]


def shown(value: Any) -> str:
    """Return a value of a request as the transcript shows it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} {shown(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        if len(value) > ITEMS_MAX:
            return f"({len(value)} items)"
        return "[" + ", ".join(map(shown, value)) + "]"
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return text if len(text) < 200 else f"({len(text)} characters)"


def hide(value: Any, fields: Sequence[str]) -> Any:
    """Return the value with an ellipsis in place of these fields' values, at any depth."""
    if isinstance(value, list):
        return [hide(item, fields) for item in value]
    if isinstance(value, dict):
        return {key: "…" if key in fields else hide(item, fields) for key, item in value.items()}
    return value


def without(value: Any, fields: Sequence[str]) -> Any:
    """Return the value without these fields, at any depth."""
    if isinstance(value, list):
        return [without(item, fields) for item in value]
    if isinstance(value, dict):
        return {key: without(item, fields) for key, item in value.items() if key not in fields}
    return value


def without_details(value: Any) -> Any:
    """Return a response without the parts that clients do not read: the message of an error, other
    fields next to an error code, the heartbeat interval of a member that leaves, and whether the
    metadata of an offset is null or empty."""
    if isinstance(value, list):
        return [without_details(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("error_code", "none") not in READ_AS_WHOLE:
        names = [key for key in value if key in ("error_code", *IDENTIFYING)]
        return {key: without_details(value[key]) for key in names}
    read = {key: without_details(each) for key, each in value.items() if key != "error_message"}
    if read.get("member_epoch", 0) < 0:  # the member has left
        read.pop("heartbeat_interval", None)
    if "metadata" in read:
        read["metadata"] = read["metadata"] or ""
    return read
