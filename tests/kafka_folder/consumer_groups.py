"""Groups of the consumer protocol (KIP-848) whose members outlive the broker: `create` them with
one broker, and `resume` their members with another one on the same folder.

The names of the groups begin with `writer`.
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kohort.conformance.members import subscription
from kohort.testing.deadline import poll
from support.wire import Client

from .group_requests import TIMEOUT_SECONDS, call, call_until_loaded

TOPIC = "orders"  # of three partitions
CLASSIC = 0  # member type in ConsumerGroupDescribe
GROUPS = ("dynamic", "static", "racks", "pattern", "left", "revoking", "mixed")


class Member:
    """A member that stores its epoch and its partitions, by topic id."""

    def __init__(self, address: str, group: str, name: str, **joins: Any) -> None:
        self._address, self.group, self.id = address, group, name
        self.instance = joins.pop("instance_id", None)
        self.epoch = 0
        self.assigned: dict[str, list[int]] = {}
        self._joins = {"rebalance_timeout": 300_000, "subscribed_topic_names": [TOPIC], **joins}

    def join(self) -> Any:
        return self.heartbeat({}, **self._joins)

    def heartbeat(self, owned: Mapping[str, list[int]] | None = None, **fields: Any) -> Any:
        values = {
            "group_id": self.group,
            "member_id": self.id,
            "instance_id": self.instance,
            "member_epoch": self.epoch,
            **fields,
        }
        if owned is not None:
            values["topic_partitions"] = _topic_partitions(owned)
        response = call_until_loaded(self._address, "ConsumerGroupHeartbeat", 1, values)
        if response["error_code"] == "none":
            self.epoch = response["member_epoch"]
        if response["assignment"] is not None:
            listed = response["assignment"]["topic_partitions"]
            self.assigned = {each["topic_id"]: each["partitions"] for each in listed}
        return response

    def reconcile(self) -> Any:
        """Confirm the assignment of the previous response."""
        return self.heartbeat(self.assigned)


def _topic_partitions(owned: Mapping[str, list[int]]) -> list[dict[str, Any]]:
    return [{"topic_id": UUID(each), "partitions": owned[each]} for each in owned]


def create(address: str, writer: str) -> None:
    dynamic, static, racks, pattern, left, revoking, mixed = _names(writer)
    _create_pair(address, dynamic, {}, {})
    _, two = _create_pair(address, static, {"instance_id": "one"}, {"instance_id": "two"})
    two.heartbeat(member_epoch=-2)
    sides = [{"server_assignor": "range", "rack_id": rack} for rack in ("left", "right")]
    _create_pair(address, racks, *sides)
    matching = {"subscribed_topic_names": [], "subscribed_topic_regex": "ord.*"}
    member = Member(address, pattern, "a", **matching)
    member.join()
    assert poll(lambda: member.reconcile() and bool(member.assigned), TIMEOUT_SECONDS)
    member = Member(address, left, "a")
    member.join()
    member.heartbeat(member_epoch=-1)
    first, second = Member(address, revoking, "a"), Member(address, revoking, "b")
    first.join()
    second.join()
    first.heartbeat()  # the response takes partitions away
    _create_mixed(address, mixed)


def _names(writer: str) -> list[str]:
    return [f"{writer}-{name}" for name in GROUPS]


def _create_pair(
    address: str, group: str, first: dict[str, Any], second: dict[str, Any]
) -> tuple[Member, Member]:
    pair = Member(address, group, "a", **first), Member(address, group, "b", **second)
    for member in pair:
        member.join()
    for member in (*pair, *pair):
        member.reconcile()
    return pair


def _create_mixed(address: str, group: str) -> None:
    modern = Member(address, group, "a")
    modern.join()
    with Client(address, client_id="recorder") as classic:
        join = {
            "group_id": group,
            "member_id": "b",
            "session_timeout": 1_800_000,
            "rebalance_timeout": 300_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription(TOPIC)}],
        }
        classic.call("JoinGroup", 9, **join)
        modern.heartbeat()
        modern.reconcile()
        joined = classic.call("JoinGroup", 9, **join)
        protocol = {"protocol_type": "consumer", "protocol_name": "range"}
        member = {"member_id": "b", "generation_id": joined["generation_id"], **protocol}
        synced = classic.call("SyncGroup", 5, group_id=group, **member)
        assert synced["error_code"] == "none", synced


def described(address: str, writer: str) -> dict[str, Any]:
    """Return ConsumerGroupDescribe of the groups, with members and partitions in order."""
    groups = {}
    for name in _names(writer):
        values = {"group_ids": [name]}
        (group,) = call_until_loaded(address, "ConsumerGroupDescribe", 1, values)["groups"]
        group["members"].sort(key=lambda member: member["member_id"])
        groups[name] = _ordered(group)
    return groups


def _ordered(value: Any) -> Any:
    """Sort the partitions: their order in assignments has no meaning."""
    if isinstance(value, dict):
        return {key: _ordered(each) for key, each in value.items()}
    if isinstance(value, list):
        items = [_ordered(each) for each in value]
        return sorted(items) if all(isinstance(each, int) for each in items) else items
    return value


def resume(address: str, writer: str) -> dict[str, Any]:
    """Send the next heartbeat of every member, then complete the revocation. Return the responses,
    and the groups after them."""
    responses: dict[str, Any] = {}
    for name, group in described(address, writer).items():
        for found in group["members"]:
            responses[f"{name} {found['member_id']}"] = _resume_member(address, name, found)
    after = described(address, writer)
    revoking = f"{writer}-revoking"
    owner, other = (_member(address, revoking, found) for found in after[revoking]["members"])
    responses["revoked"] = owner.heartbeat(_target(after[revoking]["members"][0]))
    responses["released"] = other.heartbeat()
    assert other.assigned
    return {
        "responses": _ordered(responses),
        "heartbeats": after,
        "revoked": described(address, writer),
    }


def _resume_member(address: str, group: str, found: dict[str, Any]) -> Any:
    member_id, epoch = found["member_id"], found["member_epoch"]
    if found["member_type"] == CLASSIC:
        member = {"group_id": group, "member_id": member_id, "generation_id": epoch}
        return call(address, "Heartbeat", 4, member)
    if epoch == -2:  # it returns with another id, as clients do
        instance_id = found["instance_id"]
        return Member(address, group, f"{member_id}2", instance_id=instance_id).join()
    return _member(address, group, found).heartbeat()


def _member(address: str, group: str, found: dict[str, Any]) -> Member:
    """Return a described member as its client knows it."""
    member = Member(address, group, found["member_id"], instance_id=found["instance_id"])
    member.epoch = found["member_epoch"]
    return member


def _target(found: dict[str, Any]) -> dict[str, list[int]]:
    listed = found["target_assignment"]["topic_partitions"]
    return {each["topic_id"]: each["partitions"] for each in listed}
