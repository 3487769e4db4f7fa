"""Things of the harness as JSON: the names that they have in Python."""

import base64
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

from ..broker.event_log import encode_line
from ..testing.asked import Asked
from ..testing.choreography import Hold
from ..testing.fake_members.puppet import Puppet
from ..testing.faults import Fault
from ..testing.group import Group
from ..testing.happened import Generation, Heard
from ..testing.members import Member
from ..testing.topic import StoredRecord

Json = dict[str, Any]
Encoding = Literal["text", "base64"]


def bytes_of(value: str | None, encoding: Encoding) -> bytes | None:
    """Raises ValueError for what is no base64."""
    if value is None:
        return None
    return value.encode() if encoding == "text" else base64.b64decode(value, validate=True)


def text_of(value: bytes | None, encoding: Encoding) -> str | None:
    """As text, what is not UTF-8 stands there as `\\xff`."""
    if value is None:
        return None
    if encoding == "base64":
        return base64.b64encode(value).decode()
    return value.decode(errors="backslashreplace")


def of_record(record: StoredRecord, encoding: Encoding) -> Json:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": text_of(record.key, encoding),
        "value": text_of(record.value, encoding),
        "headers": [
            {"key": key, "value": text_of(value, encoding)} for key, value in record.headers
        ],
    }


def of_member(member: Member) -> Json:
    return {**asdict(member), "partitions": _places(member.partitions)}


def of_group(group: Group) -> Json:
    return {
        "group": group.group_id,
        "state": group.state,
        "generation": group.generation,
        "node_id": group.node_id,
        "members": [of_member(each) for each in group.members],
        "explanation": group.explain(),
    }


def of_generation(generation: Generation) -> Json:
    said = asdict(generation)
    partitions = {member: _places(places) for member, places in generation.partitions.items()}
    return {"generation": said.pop("number"), **said, "partitions": partitions}


def of_request(asked: Asked) -> Json:
    return {
        "number": asked.number,
        "at_ms": asked.at_ms,
        "node_id": asked.node_id,
        "api": asked.api,
        "version": asked.version,
        "client_id": asked.client_id,
        "client_host": asked.client_host,
        "group": asked.group,
        "member_id": asked.member_id,
        "instance_id": asked.instance_id,
        "generation": asked.generation,
        "partitions": _places(asked.partitions),
        "offsets": [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in asked.offsets.items()
        ],
        "answered_ms": asked.answered_ms,
        "errors": list(asked.errors),
        "faults": list(asked.faults),
    }


def of_event(cluster_id: str, number: int, heard: Heard) -> Json:
    """With the columns of the event log (docs/events.md)."""
    line: Json = json.loads(
        encode_line(cluster_id, number, heard.at_ms, heard.node_id, heard.event)
    )
    return line


def of_fault(number: int, fault: Fault) -> Json:
    where = {key: value for key, value in asdict(fault.where).items() if value is not None}
    return {
        "fault": number,
        "api": fault.api,
        "what": fault.what,
        "where": where,
        "times": fault.times,
        "fired": len(fault.fired),
        "requests": [asked.number for asked in fault.fired],
    }


def of_hold(number: int, hold: Hold) -> Json:
    return {"hold": number, "requests": [of_request(each) for each in hold.requests]}


def of_puppet(number: int, puppet: Puppet) -> Json:
    return {
        "puppet": number,
        "client_id": puppet.client_id,
        "instance_id": puppet.instance_id,
        "member_id": puppet.member_id,
        "generation": puppet.generation,
        "owned": _places(puppet.owned),
        "errors": [{"api": each.api, "error": each.error} for each in puppet.errors],
    }


def _places(partitions: Iterable[tuple[str, int]]) -> list[Json]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]
