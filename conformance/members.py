"""The group members of scripts, of the classic protocol and of KIP-848."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from .recorder import Recorder
from .wire import kio_bytes, message_of

# The metadata is not a valid subscription, so the broker does not know the topics.
RANGE = (("range", b"r"),)

Protocols = Sequence[tuple[str, bytes]]
Owned = Mapping[str, Iterable[int]]
"""Partitions by topic name."""


def subscription(
    *topics: str,
    version: int = 3,
    owned: Owned | None = None,
    generation: int = -1,
    rack: str | None = None,
    user_data: bytes | None = None,
) -> bytes:
    """Return the metadata of a classic member in JoinGroup: a ConsumerProtocolSubscription."""
    module = importlib.import_module(f"kio.schema.consumer_protocol_subscription.v{version}")
    values = {
        "topics": topics,
        "user_data": user_data,
        "owned_partitions": [
            {"topic": name, "partitions": tuple(indexes)} for name, indexes in (owned or {}).items()
        ],
        "generation_id": generation,
        "rack_id": rack,
    }
    message = message_of(module.ConsumerProtocolSubscription, values)
    return version.to_bytes(2, "big") + kio_bytes(message)


def assignment(topic: str, *partitions: int, version: int = 3, user_data: bytes = b"") -> str:
    """Return a ConsumerProtocolAssignment, which a leader sends in SyncGroup for each member."""
    module = importlib.import_module(f"kio.schema.consumer_protocol_assignment.v{version}")
    assigned = [{"topic": topic, "partitions": partitions}]
    values = {"assigned_partitions": assigned, "user_data": user_data}
    message = message_of(module.ConsumerProtocolAssignment, values)
    return (version.to_bytes(2, "big") + kio_bytes(message)).decode()


def subscribed(*topics: str, protocol: str = "range", **fields: Any) -> Protocols:
    """Return the protocols of a classic member. `fields`: see `subscription`."""
    return ((protocol, subscription(*topics, **fields)),)


class Member:
    """A group member that stores its member id and generation. `name` is also its client id.

    The methods that send requests return the response, or None while the request is held back.
    Keyword arguments replace fields of the request by name: `a.heartbeat(generation_id=7)`. A
    session lasts a minute by default.
    """

    def __init__(
        self,
        script: Recorder,
        name: str,
        *,
        instance: str | None = None,
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 60_000,
        rebalance_ms: int = 60_000,
        client_id: str | None = "",
        member_id: str = "",
    ) -> None:
        self.name, self.instance, self.protocols = name, instance, protocols
        self.client_id = name if client_id == "" else client_id
        self.protocol_type = protocol_type
        self.session_ms, self.rebalance_ms = session_ms, rebalance_ms
        self.id = member_id
        self.generation = -1
        self._script = script

    async def join(self, version: int = 9, **fields: Any) -> Any:
        protocols = fields.pop("protocols", self.protocols)
        values = {
            "member_id": self.id,
            "group_instance_id": self.instance,
            "session_timeout": self.session_ms,
            "rebalance_timeout": self.rebalance_ms,
            "protocol_type": self.protocol_type,
            "protocols": [{"name": name, "metadata": data} for name, data in protocols],
        }
        return await self._send("JoinGroup", version, values | fields, self._joined)

    async def enter(self, version: int = 9, **fields: Any) -> Any:
        """Join for the first time. From version 4 on, a dynamic member joins twice (KIP-394)."""
        response = await self.join(version, **fields)
        if version >= 4 and self.instance is None:
            response = await self.join(version, **fields)
        return response

    async def joined(self) -> Self:
        """Send one JoinGroup, and return this member."""
        await self.join()
        return self

    async def entered(self) -> Self:
        """Join for the first time (`enter`), and return this member."""
        await self.enter()
        return self

    async def sync(
        self,
        assignments: "Mapping[Member | str, str] | None" = None,
        version: int = 5,
        **fields: Any,
    ) -> Any:
        values = {
            **self._identity(),
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocols[0][0],
            "assignments": [
                {"member_id": m.id if isinstance(m, Member) else m, "assignment": text.encode()}
                for m, text in (assignments or {}).items()
            ],
        }
        return await self._send("SyncGroup", version, values | fields)

    async def rebalance(self) -> Self:
        """Join and sync, as a follower does in a rebalance, and return this member."""
        await self.join()
        await self.sync()
        return self

    async def heartbeat(self, version: int = 4, **fields: Any) -> Any:
        return await self._send("Heartbeat", version, self._identity() | fields)

    async def commit(self, offset: int = 5, version: int = 9, **fields: Any) -> Any:
        """Commit for partition 0 of `orders`, or for `topics`: tuples (name, partition,
        metadata)."""
        topics = self._script.commit_topics(offset, fields.pop("topics", None))
        identity = self._identity()
        identity["generation_id_or_member_epoch"] = identity.pop("generation_id")
        values = {**identity, "topics": topics, "retention_time": -1}
        return await self._send("OffsetCommit", version, values | fields)

    async def leave(self, version: int = 5) -> Any:
        member = {"member_id": self.id, "group_instance_id": self.instance}
        values = member if version < 3 else {"members": [member]}
        return await self._send("LeaveGroup", version, values)

    def _identity(self) -> dict[str, Any]:
        return {
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }

    def _joined(self, response: Any) -> None:
        self.id = response["member_id"] or self.id
        if response["error_code"] == "none":
            self.generation = response["generation_id"]

    async def _send(
        self, api: str, version: int, values: Mapping[str, Any], on_response: Any = None
    ) -> Any:
        values = {"group_id": self._script.group, **values}
        return await self._script.send(
            api, version, values, client_id=self.client_id, on_response=on_response
        )


class ConsumerMember:
    """A member of a KIP-848 group that stores its member id, epoch and assignment.

    `name` is its client id and also its member id, which clients choose. A heartbeat contains the
    member's ids, its epoch and the given fields; without arguments, it reports no changes. Keyword
    arguments replace fields.
    """

    def __init__(
        self,
        script: Recorder,
        name: str,
        *topics: str,
        instance: str | None = None,
        rebalance_ms: int = 60_000,
        **subscribed: Any,
    ) -> None:
        self.name = self.id = name
        self.instance = instance
        self.epoch = 0
        self.assigned: dict[str, list[int]] = {}
        self._joins = {
            "rebalance_timeout": rebalance_ms,
            "subscribed_topic_names": topics or ("orders",),
            "topic_partitions": (),
            **subscribed,
        }
        self._script = script

    async def join(self, version: int = 1, **fields: Any) -> Any:
        """Send all fields, with `member_epoch` 0 by default. With another epoch, the member has
        already joined, and sends all fields again."""
        return await self.heartbeat(version, **{"member_epoch": 0, **self._joins, **fields})

    async def joined(self) -> Self:
        """Join, and return this member."""
        await self.join()
        return self

    async def heartbeat(
        self, version: int = 1, *, owned: Owned | None = None, **fields: Any
    ) -> Any:
        """Send a heartbeat. `owned`: the partitions that the member owns. Fields that are None are
        omitted."""
        values = {"member_id": self.id, "member_epoch": self.epoch, "instance_id": self.instance}
        if owned is not None:
            values["topic_partitions"] = self._script.topic_partitions(owned)
        values |= fields
        values = {name: value for name, value in values.items() if value is not None}
        return await self._send("ConsumerGroupHeartbeat", version, values, self._received)

    async def report(self) -> Any:
        """Send a heartbeat that reports exactly the assigned partitions as owned."""
        return await self.heartbeat(owned=self.assigned)

    async def leave(self, epoch: int = -1) -> Any:
        """Leave the group. With epoch -2, a static member announces that it will return."""
        return await self.heartbeat(member_epoch=epoch)

    async def commit(self, offset: int = 5, version: int = 9, **fields: Any) -> Any:
        """Commit for partition 0 of `orders`, or for `topics`: tuples (name, partition,
        metadata)."""
        values = {
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.id,
            "topics": self._script.commit_topics(offset, fields.pop("topics", None)),
        }
        return await self._send("OffsetCommit", version, values | fields)

    async def fetch(self, version: int = 9, **fields: Any) -> Any:
        """Fetch all offsets of the group, or of `topics` (partitions by topic name)."""
        group = {
            "group_id": self._script.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "topics": self._script.fetch_topics(fields.pop("topics", {})) or None,
            **fields,
        }
        values = {"groups": [group]}
        return await self._script.send(
            "OffsetFetch", version, values, client_id=self.name, has_epochs=True
        )

    def _received(self, response: Any) -> None:
        if response["error_code"] != "none":
            return
        self.id, self.epoch = response["member_id"], response["member_epoch"]
        if response["assignment"] is not None:
            names = {str(topic_id): name for name, topic_id in self._script.topic_ids.items()}
            topics = response["assignment"]["topic_partitions"]
            assigned = {
                names.get(t["topic_id"], "deleted"): sorted(t["partitions"]) for t in topics
            }
            self.assigned = dict(sorted(assigned.items()))

    async def _send(
        self, api: str, version: int, values: Mapping[str, Any], on_response: Any = None
    ) -> Any:
        values = {"group_id": self._script.group, **values}
        return await self._script.send(
            api, version, values, client_id=self.name, on_response=on_response, has_epochs=True
        )
