"""Requests as plain values to any API that kio knows, and what a cluster says of its groups."""

import importlib
import re
import socket
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from frames import answer_in, framed
from parity.wire import entity_of, plain

PATIENCE_SECONDS = 60
TRANSIENT = {"coordinator_load_in_progress", "not_coordinator", "coordinator_not_available"}


def ask(address: str, api: str, version: int, values: Mapping[str, Any]) -> Any:
    """The answer as plain values, over a connection of its own."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api).lower()
    schema = f"kio.schema.{snake}.v{version}"
    made = getattr(importlib.import_module(f"{schema}.request"), f"{api}Request")
    request = entity_of(made, values)
    response = getattr(importlib.import_module(f"{schema}.response"), f"{api}Response")
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as client, client.makefile("rwb") as stream:
        stream.write(framed(request, correlation_id=7, client_id="recorder"))
        stream.flush()
        answer = stream.read(int.from_bytes(stream.read(4), "big"))
    assert answer, f"{api} v{version} was not answered"
    return plain(answer_in(answer, response)[1])


def ask_until_loaded(address: str, api: str, version: int, values: Mapping[str, Any]) -> Any:
    """The first answer that speaks of no coordinator on its way."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = ask(address, api, version, values)
        if not TRANSIENT & set(errors_in(answer)):
            return answer
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


def said_of_groups(address: str, groups: Iterable[str]) -> dict[str, Any]:
    """Of which kind each group is, and what it has committed."""
    said = {
        "committed": {name: committed(address, name, stable=False) for name in groups},
        "stable": {name: committed(address, name, stable=True) for name in groups},
        "described": {
            name: ask_until_loaded(address, "DescribeGroups", 6, {"groups": [name]})["groups"][0]
            for name in groups
        },
    }
    listed = ask_until_loaded(address, "ListGroups", 5, {})["groups"]
    return {"listed": sorted(listed, key=lambda group: group["group_id"]), **said}


def said_to_strangers(address: str, group_id: str, topic: str) -> dict[str, Any]:
    """What a group answers to those who take it for a classic one. Changes the group."""
    member = {"group_id": group_id, "member_id": "m", "generation_id": 1}
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [offset]}]
    as_member = {"member_id": "m", "generation_id_or_member_epoch": 1}
    join = {
        "group_id": group_id,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
    }
    asked = (
        ("Heartbeat", 4, member),
        ("SyncGroup", 5, {**member, "protocol_type": "consumer", "protocol_name": "range"}),
        ("LeaveGroup", 5, {"group_id": group_id, "members": [{"member_id": "m"}]}),
        ("OffsetCommit", 9, {"group_id": group_id, **as_member, "topics": topics}),
        (
            "OffsetFetch",
            9,
            {"groups": [{"group_id": group_id, "member_id": "m", "member_epoch": 1}]},
        ),
        (
            "OffsetCommit",
            9,
            {"group_id": group_id, "generation_id_or_member_epoch": -1, "topics": topics},
        ),
        (
            "OffsetDelete",
            0,
            {"group_id": group_id, "topics": [{"name": topic, "partitions": [{}]}]},
        ),
        ("JoinGroup", 9, join),
        ("DeleteGroups", 2, {"groups_names": [group_id]}),
    )
    said = {}
    committed(address, group_id, stable=False)  # heartbeats are well while a log is being read
    for number, (api, version, values) in enumerate(asked):
        said[f"{number} {api}"] = errors_in(ask_until_loaded(address, api, version, values))
    return said


def errors_in(answer: Any) -> list[str]:
    """Every error code in an answer, in its order."""
    if isinstance(answer, dict):
        found = [
            [value] if key == "error_code" else errors_in(value) for key, value in answer.items()
        ]
    else:
        found = [errors_in(each) for each in answer] if isinstance(answer, list) else []
    return [error for errors in found for error in errors]


def committed(address: str, group_id: str, *, stable: bool) -> Any:
    group = {"group_id": group_id, "member_id": None, "member_epoch": -1, "topics": None}
    asked = {"groups": [group], "require_stable": stable}
    return ask_until_loaded(address, "OffsetFetch", 9, asked)["groups"][0]


def commit_with_retention(address: str, group_id: str, topic: str, offset: int) -> None:
    """OffsetCommit v2, the oldest that Kafka 4 takes: it has a retention time, so value v1."""
    at = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "kept"}
    year = 366 * 24 * 3600 * 1000
    values = {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "retention_time": 20 * year,
        "topics": [{"name": topic, "partitions": [at]}],
    }
    answer = ask_until_loaded(address, "OffsetCommit", 2, values)
    assert answer["topics"][0]["partitions"][0]["error_code"] == "none", answer


def delete_offsets(address: str, group_id: str, topic: str, partition: int) -> None:
    topics = [{"name": topic, "partitions": [{"partition_index": partition}]}]
    answer = ask(address, "OffsetDelete", 0, {"group_id": group_id, "topics": topics})
    assert answer["topics"][0]["partitions"][0]["error_code"] == "none", answer


def join_share_group(address: str, group_id: str, topic: str) -> None:
    values = {
        "group_id": group_id,
        "member_id": str(uuid.uuid4()),
        "member_epoch": 0,
        "subscribed_topic_names": [topic],
    }
    answer = ask_until_loaded(address, "ShareGroupHeartbeat", 1, values)
    assert answer["error_code"] == "none", answer


def join_streams_group(address: str, group_id: str, topic: str) -> None:
    values = {
        "group_id": group_id,
        "member_id": str(uuid.uuid4()),
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "topology": {
            "epoch": 0,
            "subtopologies": [{"subtopology_id": "0", "source_topics": [topic]}],
        },
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "recorder",
        "client_tags": [],
    }
    answer = ask_until_loaded(address, "StreamsGroupHeartbeat", 0, values)
    assert answer["error_code"] == "none", answer
