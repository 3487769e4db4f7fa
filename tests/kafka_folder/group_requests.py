"""Requests with plain values to any API of kio, and the state of all groups of a cluster."""

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, cast

from kohort.testing.deadline import poll
from support.wire import Client

TIMEOUT_SECONDS = 60
TRANSIENT = {"coordinator_load_in_progress", "not_coordinator", "coordinator_not_available"}


def call(address: str, api: str, version: int, values: Mapping[str, Any]) -> Any:
    """Send one request over a new connection and return the response."""
    with Client(address, client_id="recorder") as client:
        return client.call(api, version, **values)


def call_until_loaded(address: str, api: str, version: int, values: Mapping[str, Any]) -> Any:
    """Repeat the request until the coordinator is available."""

    def loaded() -> Any:
        response = call(address, api, version, values)
        return None if TRANSIENT & set(error_codes(response)) else response

    response = poll(loaded, TIMEOUT_SECONDS)
    assert response is not None, f"{api}: the coordinator is not available"
    return response


def group_state(address: str, groups: Iterable[str]) -> dict[str, Any]:
    """Return type, description and committed offsets of the groups, as in the JSON file."""
    state: dict[str, Any] = {
        "committed": {name: committed(address, name, stable=False) for name in groups},
        "stable": {name: committed(address, name, stable=True) for name in groups},
        "described": {
            name: call_until_loaded(address, "DescribeGroups", 6, {"groups": [name]})["groups"][0]
            for name in groups
        },
    }
    listed = call_until_loaded(address, "ListGroups", 5, {})["groups"]
    state["listed"] = sorted(listed, key=lambda group: group["group_id"])
    text = json.dumps(state, default=lambda data: data.decode("latin-1"))
    return cast("dict[str, Any]", json.loads(text))


def classic_protocol_errors(address: str, group_id: str, topic: str) -> dict[str, Any]:
    """Return the error codes of classic-protocol requests to a group. The requests change the
    group."""
    member = {"group_id": group_id, "member_id": "m", "generation_id": 1}
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [offset]}]
    as_member = {"member_id": "m", "generation_id_or_member_epoch": 1}
    fetching = {"member_id": "m", "member_epoch": 1}
    standalone = {"generation_id_or_member_epoch": -1}
    partition_0 = {"name": topic, "partitions": [{}]}
    join = {
        "group_id": group_id,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}],
    }
    requests = (
        ("Heartbeat", 4, member),
        ("SyncGroup", 5, {**member, "protocol_type": "consumer", "protocol_name": "range"}),
        ("LeaveGroup", 5, {"group_id": group_id, "members": [{"member_id": "m"}]}),
        ("OffsetCommit", 9, {"group_id": group_id, **as_member, "topics": topics}),
        ("OffsetFetch", 9, {"groups": [{"group_id": group_id, **fetching}]}),
        ("OffsetCommit", 9, {"group_id": group_id, **standalone, "topics": topics}),
        ("OffsetDelete", 0, {"group_id": group_id, "topics": [partition_0]}),
        ("JoinGroup", 9, join),
        ("DeleteGroups", 2, {"groups_names": [group_id]}),
    )
    errors = {}
    committed(address, group_id, stable=False)  # heartbeats succeed while the group is loading
    for number, (api, version, values) in enumerate(requests):
        errors[f"{number} {api}"] = error_codes(call_until_loaded(address, api, version, values))
    return errors


def error_codes(response: Any) -> list[str]:
    """Return all error codes in a response, in order."""
    if isinstance(response, dict):
        found = [
            [value] if key == "error_code" else error_codes(value)
            for key, value in response.items()
        ]
    else:
        found = [error_codes(each) for each in response] if isinstance(response, list) else []
    return [error for errors in found for error in errors]


def committed(address: str, group_id: str, *, stable: bool) -> Any:
    group = {"group_id": group_id, "member_id": None, "member_epoch": -1, "topics": None}
    values = {"groups": [group], "require_stable": stable}
    return call_until_loaded(address, "OffsetFetch", 9, values)["groups"][0]


def commit_with_retention(address: str, group_id: str, topic: str, offset: int) -> None:
    """OffsetCommit v2, the oldest version of Kafka 4; its retention time needs value version 1."""
    at = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "kept"}
    year = 366 * 24 * 3600 * 1000
    values = {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "retention_time": 20 * year,
        "topics": [{"name": topic, "partitions": [at]}],
    }
    response = call_until_loaded(address, "OffsetCommit", 2, values)
    assert response["topics"][0]["partitions"][0]["error_code"] == "none", response


def delete_offsets(address: str, group_id: str, topic: str, partition: int) -> None:
    topics = [{"name": topic, "partitions": [{"partition_index": partition}]}]
    response = call(address, "OffsetDelete", 0, {"group_id": group_id, "topics": topics})
    assert response["topics"][0]["partitions"][0]["error_code"] == "none", response


def join_share_group(address: str, group_id: str, topic: str) -> None:
    values = {
        "group_id": group_id,
        "member_id": str(uuid.uuid4()),
        "member_epoch": 0,
        "subscribed_topic_names": [topic],
    }
    response = call_until_loaded(address, "ShareGroupHeartbeat", 1, values)
    assert response["error_code"] == "none", response


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
    response = call_until_loaded(address, "StreamsGroupHeartbeat", 0, values)
    assert response["error_code"] == "none", response
