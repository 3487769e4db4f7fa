"""A group member that remembers its member id and generation."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .script import Script

# Not a valid subscription: it ends before the topics, so they are unknown.
RANGE = (("range", b"r"),)


class Member:
    """`name` is also its client id. Keyword arguments of requests replace the member's own values,
    by the field's name: `a.heartbeat(generation_id=7)`.

    Requests return the response, or None if they wait. Sessions are a minute by default.
    """

    def __init__(
        self,
        script: "Script",
        name: str,
        *,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = 60_000,
        rebalance_ms: int = 60_000,
        client_id: str | None = "",
    ) -> None:
        self.name, self.instance, self.protocols = name, instance, protocols
        self.client_id = name if client_id == "" else client_id
        self.protocol_type = protocol_type
        self.session_ms, self.rebalance_ms = session_ms, rebalance_ms
        self.id = ""
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
        """Join for the first time: a dynamic member twice from version 4 on (KIP-394)."""
        response = await self.join(version, **fields)
        if version >= 4 and self.instance is None:
            response = await self.join(version, **fields)
        return response

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

    async def heartbeat(self, version: int = 4, **fields: Any) -> Any:
        return await self._send("Heartbeat", version, self._identity() | fields)

    async def commit(self, offset: int = 5, version: int = 9, **fields: Any) -> Any:
        """Commit for partition 0 of `orders`; `topics` are (name, partition, metadata)."""
        topics: dict[str, Any] = {}
        for name, index, metadata in fields.pop("topics", [("orders", 0, "note")]):
            topic_id = self._script.broker.topic_ids.get(name)
            topic = {"name": name, "topic_id": topic_id, "partitions": []}
            topics.setdefault(name, topic)["partitions"].append(
                {
                    "partition_index": index,
                    "committed_offset": offset,
                    "committed_leader_epoch": -1,
                    "committed_metadata": metadata,
                    "commit_timestamp": -1,
                }
            )
        identity = self._identity()
        identity["generation_id_or_member_epoch"] = identity.pop("generation_id")
        values = {**identity, "topics": list(topics.values()), "retention_time": -1}
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
