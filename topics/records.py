"""What the registry remembers, record by record: JSON, so that a person can read the log.

The key says what a record is about, so that the newest record of a key is all that counts.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..log.log import Log
from ..log.records import records

__all__ = [
    "BrokerConfigsStored",
    "LeaderElected",
    "ProducerIdsReserved",
    "RegistryRecord",
    "TopicDeleted",
    "TopicGone",
    "TopicStored",
    "UnreadableRecord",
    "decode",
    "encode",
    "stored_in",
]


class TopicStored(NamedTuple):
    """The topic is there, with this many partitions and these overrides."""

    name: str
    id: uuid.UUID
    partitions: int
    configs: Mapping[str, str]


class TopicDeleted(NamedTuple):
    name: str


class TopicGone(NamedTuple):
    """Nothing is left of a topic that was deleted: no folder, and no offset that was committed for
    it. So nobody need remember its name."""

    name: str


class LeaderElected(NamedTuple):
    """Another node leads this partition since `epoch`. The id tells topics of one name apart."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    leader_id: int
    epoch: int


class BrokerConfigsStored(NamedTuple):
    """Dynamic values of broker keys; `resource` is a node id or "" for every broker."""

    resource: str
    configs: Mapping[str, str]


class ProducerIdsReserved(NamedTuple):
    """Every producer id below `end` may have been given away."""

    end: int


RegistryRecord = (
    TopicStored
    | TopicDeleted
    | TopicGone
    | LeaderElected
    | BrokerConfigsStored
    | ProducerIdsReserved
)


class UnreadableRecord(Exception):
    """A record of the registry that this version cannot read; the message shows its key."""


def encode(record: RegistryRecord) -> tuple[bytes, bytes | None]:
    """(key, value) of the record in the log; a value of None forgets the key."""
    match record:
        case TopicStored(name, id_, partitions, configs):
            value = {"id": str(id_), "partitions": partitions, "configs": dict(configs)}
            return _json({"topic": name}), _json(value)
        case TopicDeleted(name):
            return _json({"topic": name}), None
        case TopicGone(name):
            return _json({"topic": name}), _json({"gone": True})
        case LeaderElected(name, id_, partition, leader_id, epoch):
            value = {"id": str(id_), "leader": leader_id, "epoch": epoch}
            return _json({"leader": f"{name}-{partition}"}), _json(value)
        case BrokerConfigsStored(resource, configs):
            return _json({"broker": resource}), _json({"configs": dict(configs)})
        case ProducerIdsReserved(end):
            return _json({"producer_ids": "reserved"}), _json({"end": end})


def decode(key: bytes | None, value: bytes | None) -> RegistryRecord:
    """The record behind a key and value of the log; raises UnreadableRecord."""
    try:
        ((kind, name),) = json.loads(key or b"").items()
        if kind == "topic" and value is None:
            return TopicDeleted(name)
        content = json.loads(value or b"")
        if kind == "topic" and "gone" in content:
            return TopicGone(name)
        if kind == "topic":
            id_ = uuid.UUID(content["id"])
            return TopicStored(name, id_, int(content["partitions"]), content["configs"])
        if kind == "leader":
            topic, _, partition = name.rpartition("-")
            id_, leader_id = uuid.UUID(content["id"]), int(content["leader"])
            return LeaderElected(topic, id_, int(partition), leader_id, int(content["epoch"]))
        if kind == "broker":
            return BrokerConfigsStored(name, content["configs"])
        if kind == "producer_ids":
            return ProducerIdsReserved(int(content["end"]))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise UnreadableRecord(f"the registry's record {key!r} cannot be read") from error
    raise UnreadableRecord(f"the registry's record {key!r} is of a kind unknown here")


def stored_in(log: Log) -> Iterator[RegistryRecord]:
    """What the log says, from its start. Raises UnreadableRecord, OSError, LogError."""
    for header, batch in log.batches():
        if header.is_control:
            continue
        for stored in records(batch):
            try:
                yield decode(stored.key, stored.value)
            except UnreadableRecord as error:
                raise UnreadableRecord(f"{error} (offset {stored.offset})") from error


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
