"""Converts objects of the harness to JSON. Most fields are named after the Python attributes.

msgspec encodes dataclasses without help; this module contains only the exceptions.
"""

import base64
import json
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from ..broker.event_log import encode_line
from ..testing.fake_members.fake_member import FakeMember
from ..testing.faults.disk import DiskFault
from ..testing.faults.faults import Fault
from ..testing.generations import Generation, MemberAssignment, RecordedEvent
from ..testing.group import Group
from ..testing.group_control import Hold
from ..testing.group_view import Member
from ..testing.history import TransactionChange
from ..testing.recorded_request import RecordedRequest
from ..testing.topic import StoredRecord
from ..testing.transaction_view import Transaction

Json = dict[str, Any]
Encoding = Literal["text", "base64"]

_REQUEST_FIELDS: Final = (
    *("number", "at_ms", "node_id", "api", "version", "client_id", "client_host", "group"),
    *("member_id", "instance_id", "generation", "transactional_id", "producer_id"),
    *("producer_epoch", "response_at_ms", "errors", "faults"),
)


def decode_value(value: str | None, encoding: Encoding) -> bytes | None:
    """Decode a value. Raises ValueError for invalid base64."""
    if value is None:
        return None
    return value.encode() if encoding == "text" else base64.b64decode(value, validate=True)


def encode_value(value: bytes | None, encoding: Encoding) -> str | None:
    """Encode a value. As text, bytes that are not UTF-8 are escaped, for example as `\\xff`."""
    if value is None:
        return None
    if encoding == "base64":
        return base64.b64encode(value).decode()
    return value.decode(errors="backslashreplace")


def record_json(record: StoredRecord, encoding: Encoding) -> Json:
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": encode_value(record.key, encoding),
        "value": encode_value(record.value, encoding),
        "headers": [
            {"key": key, "value": encode_value(value, encoding)} for key, value in record.headers
        ],
    }


def group_json(group: Group) -> Json:
    return {
        "group": group.group_id,
        "state": group.state,
        "generation": group.generation,
        "node_id": group.node_id,
        "members": [with_partitions(each) for each in group.members],
        "explanation": group.explain(),
    }


def with_partitions(item: Member | MemberAssignment | Transaction | TransactionChange) -> Json:
    """Return the fields of a dataclass, some of which are partitions."""
    fields: Json = msgspec.to_builtins(item)
    own = fields.keys() & {"partitions", "target", "revoking"}
    return fields | {name: partitions_json(getattr(item, name)) for name in own}


def generation_json(generation: Generation) -> Json:
    fields = msgspec.to_builtins(generation)
    partitions = {who: partitions_json(what) for who, what in generation.partitions.items()}
    return {"generation": fields.pop("number"), **fields, "partitions": partitions}


def request_json(request: RecordedRequest) -> Json:
    return {
        **{name: getattr(request, name) for name in _REQUEST_FIELDS},
        "principal": str(request.principal),
        "partitions": partitions_json(request.partitions),
        "offsets": offsets_json(request.offsets),
    }


def event_json(cluster_id: str, number: int, recorded: RecordedEvent) -> Json:
    """Return an event with the columns of the event log (docs/events.md)."""
    line = encode_line(cluster_id, number, recorded.at_ms, recorded.node_id, recorded.event)
    event: Json = json.loads(line)
    return event


def fault_json(number: int, fault: Fault | DiskFault) -> Json:
    if isinstance(fault, DiskFault):
        facts = {"description": fault.description, "times": fault.times, "fired": fault.fired}
        return {"fault": number, "api": None, "where": {}, "requests": [], **facts}
    where = msgspec.to_builtins(fault.where)
    return {
        "fault": number,
        "api": fault.api,
        "description": fault.description,
        "where": {key: value for key, value in where.items() if value is not None},
        "times": fault.times,
        "fired": len(fault.fired),
        "requests": [request.number for request in fault.fired],
    }


def hold_json(number: int, hold: Hold) -> Json:
    return {"hold": number, "requests": [request_json(each) for each in hold.requests]}


def fake_member_json(number: int, member: FakeMember) -> Json:
    return {
        "fake_member": number,
        "client_id": member.client_id,
        "instance_id": member.instance_id,
        "member_id": member.member_id,
        "generation": member.generation,
        "owned": partitions_json(member.owned),
        "errors": [each._asdict() for each in member.errors],
    }


def partitions_json(partitions: Iterable[tuple[str, int]]) -> list[Json]:
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]


def offsets_json(offsets: dict[tuple[str, int], int]) -> list[Json]:
    return [
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in offsets.items()
    ]
