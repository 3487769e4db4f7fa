"""Scripts: requests of group members and other clients, one after the other, and their transcript.

A script contains no expectations. After each request its transcript has the response, or that the
request is held back, and responses to earlier requests that have arrived since.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from support.log import NewRecord, build
from support.wire import AsyncClient

from .brokers import ScriptBroker, round_trip
from .transcript import Normaliser, Transcript, shown

OnResponse = Callable[[Any], None]

STEP_MS = 50  # the resolution of time in scripts
TIMEOUT_MS = 20_000
RECORD_TIMESTAMP_MS = 1_700_000_000_000
# Not a valid subscription: it ends before the topics, so they are unknown.
RANGE = (("range", b"r"),)


class ScriptFailed(Exception):
    pass


class Step:
    """A request. `response` is None while it is held back, and a text if the connection closes."""

    def __init__(self, api: str, text: str, on_response: OnResponse | None) -> None:
        self.api, self.text, self._on_response = api, text, on_response
        self.response: Any = None
        self.is_recorded = False

    def done(self, future: asyncio.Future[Any]) -> None:
        try:
            self.response = future.result()
        except ConnectionError as error:
            self.response = str(error)
        else:
            if self._on_response is not None:
                self._on_response(self.response)


class Member:
    """A group member that stores its member id and generation. `name` is also its client id.

    Requests return the response, or None if they wait. Keyword arguments replace fields of the
    request by name: `a.heartbeat(generation_id=7)`. Sessions are a minute by default.
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


class Script:
    def __init__(self, broker: ScriptBroker, group: str) -> None:
        self.broker, self.group = broker, group
        self.transcript: Transcript = []
        self.topic_ids = dict(broker.topic_ids)
        self.steps: list[Step] = []
        self._connections: dict[str | None, list[AsyncClient]] = {}  # by client id
        self._control: AsyncClient
        self._normaliser = Normaliser(group, broker.port, broker.topic_ids)

    async def __aenter__(self) -> "Script":
        self._control = await AsyncClient.connect(self.broker.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        for connections in [[self._control], *self._connections.values()]:
            for connection in connections:
                connection.close()

    def member(self, name: str, **options: Any) -> Member:
        """See `Member`; sends nothing."""
        return Member(self, name, **options)

    async def joined(
        self, *names: str, instances: Mapping[str, str] | None = None, **options: Any
    ) -> list[Member]:
        """Members that have joined one after the other, but not synced; the first is leader."""
        members: list[Member] = []
        for name in names:
            member = self.member(name, instance=(instances or {}).get(name), **options)
            await member.enter()
            for other in members:
                await other.join()
            members.append(member)
        return members

    async def stable(self, *names: str, **options: Any) -> list[Member]:
        """As `joined`, and synced."""
        members = await self.joined(*names, **options)
        await members[0].sync({m: f"share of {m.name}" for m in members})
        for member in members[1:]:
            await member.sync()
        return members

    # --- requests

    async def send(
        self,
        api: str,
        version: int,
        values: Mapping[str, Any],
        *,
        client_id: str | None = "admin",
        on_response: OnResponse | None = None,
    ) -> Any:
        """Return the response, or None if the request is held back."""
        fields = ", ".join(f"{key} {shown(value)}" for key, value in values.items())
        text = f"{len(self.steps) + 1}. {client_id}: {api} v{version} "
        step = Step(api, text + self._normaliser.text(fields), on_response)
        self.steps.append(step)
        connection = await self._free_connection(client_id)
        connection.send(api, version, **values).add_done_callback(step.done)
        await self._settle()
        step.is_recorded = step.response is not None
        response = (
            self._normaliser.response(api, step.response) if step.is_recorded else "held back"
        )
        self._record(step.text, response)
        return step.response

    async def _free_connection(self, client_id: str | None) -> AsyncClient:
        connections = self._connections.setdefault(client_id, [])
        for connection in connections:
            if connection.is_free:
                return connection
        connections.append(await AsyncClient.connect(self.broker.port, client_id))
        return connections[-1]

    async def _settle(self) -> None:
        await self.broker.settle(
            self._control, lambda: sum(step.response is None for step in self.steps)
        )

    def _record(self, text: str, response: Any) -> None:
        line = {"step": text, "answer": response}
        freed = [step for step in self.steps if step.response is not None and not step.is_recorded]
        if freed:
            line["freed"] = {
                step.text.split(" v")[0]: self._normaliser.response(step.api, step.response)
                for step in freed
            }
        for step in freed:
            step.is_recorded = True
        self.transcript.append(line)

    async def describe(self, version: int = 5, *groups: str) -> Any:
        return await self.send("DescribeGroups", version, {"groups": groups or (self.group,)})

    async def list(self, version: int = 5, **filters: Any) -> Any:
        return await self.send("ListGroups", version, filters)

    async def delete(self, *groups: str, version: int = 2) -> Any:
        return await self.send("DeleteGroups", version, {"groups_names": groups or (self.group,)})

    async def delete_offsets(self, *pairs: tuple[str, tuple[int, ...]], **more: Any) -> Any:
        """Topics and partitions, as pairs or by the topic's name."""
        topics = [
            {"name": name, "partitions": [{"partition_index": index} for index in partitions]}
            for name, partitions in (*pairs, *more.items())
        ]
        return await self.send("OffsetDelete", 0, {"group_id": self.group, "topics": topics})

    async def leave(self, *leaving: Member | tuple[str, str | None], version: int = 5) -> Any:
        """Several members in one request; a pair is (member id, instance id)."""
        pairs = [(m.id, m.instance) if isinstance(m, Member) else m for m in leaving]
        members = [{"member_id": m, "group_instance_id": i} for m, i in pairs]
        return await self.send("LeaveGroup", version, {"group_id": self.group, "members": members})

    async def fetch(self, version: int = 8, **topics: tuple[int, ...]) -> Any:
        """Without topics, all offsets."""
        given = [
            {"name": n, "topic_id": self.broker.topic_ids.get(n), "partition_indexes": p}
            for n, p in topics.items()
        ]
        group = {"group_id": self.group, "member_epoch": -1, "topics": given or None}
        return await self.send(
            "OffsetFetch", version, {"groups": [group]} if version >= 8 else group
        )

    # --- topics; not in the transcript

    async def topic(self, partitions: int) -> str:
        """Create a topic of this script, and wait until its partitions can be fetched."""
        name = f"{self.group}.topic"
        new = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        created = await self._control.call("CreateTopics", 7, topics=[new], timeout=30_000)
        self.topic_ids[name] = UUID(created["topics"][0]["topic_id"])
        self._normaliser.add_topic(name, self.topic_ids[name])
        fetched = [
            {"partition": index, "partition_max_bytes": 0, "current_leader_epoch": -1}
            for index in range(partitions)
        ]
        values = {"replica_id": -1, "session_epoch": -1, "max_bytes": 100}
        for _ in range(TIMEOUT_MS // STEP_MS):
            topics = [{"topic": name, "partitions": fetched}]
            response = await self._control.call("Fetch", 12, **values, topics=topics)
            if all(p["error_code"] == "none" for p in response["responses"][0]["partitions"]):
                return name
            await self.broker.advance(STEP_MS)
        raise ScriptFailed(f"cannot fetch {name}: {response}")

    async def produce(self, topic: str, index: int) -> None:
        records = build([NewRecord(b"key", b"value", RECORD_TIMESTAMP_MS)])
        data = [{"name": topic, "partition_data": [{"index": index, "records": records}]}]
        response = await self._control.call("Produce", 9, acks=-1, timeout=30_000, topic_data=data)
        if response["responses"][0]["partition_responses"][0]["error_code"] != "none":
            raise ScriptFailed(f"Produce failed: {response}")

    async def delete_records(self, topic: str, index: int, before: int) -> None:
        topics = [{"name": topic, "partitions": [{"partition_index": index, "offset": before}]}]
        response = await self._control.call("DeleteRecords", 2, topics=topics, timeout=30_000)
        if response["topics"][0]["partitions"][0]["error_code"] != "none":
            raise ScriptFailed(f"DeleteRecords failed: {response}")

    # --- time

    async def until_freed(self) -> None:
        """Let time pass until a request that is held back has a response."""
        waiting = [step for step in self.steps if not step.is_recorded]
        if not waiting:
            raise ScriptFailed("no request is held back")
        for _ in range(TIMEOUT_MS // STEP_MS):
            if any(step.response is not None for step in waiting):
                break
            await self.broker.advance(STEP_MS)
            await round_trip(self._control)
        else:
            raise ScriptFailed(f"no response within {TIMEOUT_MS} ms: {waiting[0].text}")
        await self._settle()
        self._record("time goes by", "until a request is answered")

    async def until_state(self, state: str) -> None:
        """Let time pass until the group is in this state."""
        for _ in range(TIMEOUT_MS // STEP_MS):
            response = await self._control.call("DescribeGroups", 5, groups=(self.group,))
            if response["groups"][0]["group_state"] == state:
                break
            await self.broker.advance(STEP_MS)
        else:
            raise ScriptFailed(f"not {state} within {TIMEOUT_MS} ms: {response}")
        await self._settle()
        self._record("time goes by", f"until the group is {state}")

    async def pass_ms(self, ms: int) -> None:
        for _ in range(ms // STEP_MS):
            await self.broker.advance(STEP_MS)
        await self._settle()
        self._record(f"{ms} ms go by", None)
