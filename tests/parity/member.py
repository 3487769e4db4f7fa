"""A member of a group: it remembers the id and the generation that it was told last."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .script import Script

# Not a subscription: it ends before it has named its topics, which leaves them unknown.
RANGE = (("range", b"r"),)


class Member:
    """`name` is its client id too. What a request says otherwise than the member would, a script
    gives by the field's name: `a.heartbeat(generation_id=7)`.

    Sessions are a minute unless the script is about them.
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
        self.leader = ""
        self._script = script

    async def join(self, version: int = 9, **otherwise: Any) -> Any:
        protocols = otherwise.pop("protocols", self.protocols)
        said = {
            "member_id": self.id,
            "group_instance_id": self.instance,
            "session_timeout": self.session_ms,
            "rebalance_timeout": self.rebalance_ms,
            "protocol_type": self.protocol_type,
            "protocols": [{"name": name, "metadata": data} for name, data in protocols],
        }
        return await self._ask("JoinGroup", version, said, otherwise, self._joined)

    async def enter(self, version: int = 9, **otherwise: Any) -> Any:
        """Both steps of a dynamic member's first join, the only one of others."""
        answer = await self.join(version, **otherwise)
        if version >= 4 and self.instance is None:
            answer = await self.join(version, **otherwise)
        return answer

    async def sync(
        self, shares: "Mapping[Member | str, str] | None" = None, version: int = 5, **otherwise: Any
    ) -> Any:
        assignments = [
            {"member_id": m.id if isinstance(m, Member) else m, "assignment": share.encode()}
            for m, share in (shares or {}).items()
        ]
        said = {
            **self._identity(),
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocols[0][0],
            "assignments": assignments,
        }
        return await self._ask("SyncGroup", version, said, otherwise)

    async def heartbeat(self, version: int = 4, **otherwise: Any) -> Any:
        return await self._ask("Heartbeat", version, self._identity(), otherwise)

    async def commit(self, offset: int = 5, version: int = 9, **otherwise: Any) -> Any:
        """Of `orders` 0, with the member's identity; `topics` are (name, partition, metadata)."""
        topics: dict[str, Any] = {}
        for name, index, metadata in otherwise.pop("topics", [("orders", 0, "note")]):
            topic_id = self._script.peer.topic_ids.get(name)
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
        said = {**identity, "topics": list(topics.values()), "retention_time": -1}
        return await self._ask("OffsetCommit", version, said, otherwise)

    async def leave(self, version: int = 5) -> Any:
        member = {"member_id": self.id, "group_instance_id": self.instance}
        said = member if version < 3 else {"members": [member]}
        return await self._ask("LeaveGroup", version, said, {})

    def _identity(self) -> dict[str, Any]:
        return {
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
        }

    def _joined(self, answer: Any) -> None:
        self.id = answer.member_id or self.id
        if answer.error_code.name == "none":
            self.generation, self.leader = answer.generation_id, answer.leader

    async def _ask(
        self,
        api: str,
        version: int,
        said: Mapping[str, Any],
        otherwise: Mapping[str, Any],
        learn: Any = None,
    ) -> Any:
        values = {"group_id": self._script.group, **said, **otherwise}
        return await self._script.ask(api, version, values, who=self.client_id, learn=learn)
