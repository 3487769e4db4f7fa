"""The words of a script: members who send requests, and what the transcript says of the answers.

A script never says what it expects. It sends one request after the other, and after each the
transcript notes the answer or that it was held back, and which earlier requests were answered then.
"""

from collections.abc import Callable, Mapping
from typing import Any

from support.log import NewRecord, build

from .member import Member
from .peers import STEP_MS, Peer, call, round_trip
from .transcript import ITEMS_MAX, Normaliser
from .wire import Connection, connect, request_of

Learn = Callable[[Any], None]  # is called with an answer, as kio reads it

PATIENCE_MS = 20_000
PRODUCED_AT_MS = 1_700_000_000_000


class ScriptFailed(Exception):
    """What a script waits for did not come."""


class Step:
    """One request: `answer` is None as long as it is held back."""

    def __init__(self, api: str, text: str, learn: Learn | None) -> None:
        self.api, self.text, self._learn = api, text, learn
        self.answer: Any = None
        self.is_noted = False

    def done(self, answer: Any) -> None:
        self.answer = answer
        if self._learn is not None and not isinstance(answer, str):
            self._learn(answer)


class Script:
    """One playing of a scenario. `transcript` is what vectors hold."""

    def __init__(self, peer: Peer, group: str) -> None:
        self.peer, self.group = peer, group
        self.transcript: list[dict[str, Any]] = []
        self._steps: list[Step] = []
        self._connections: list[Connection] = []
        self._control: Connection
        self._normal = Normaliser(group, peer.port, peer.topic_ids)
        self.topic_ids = dict(peer.topic_ids)

    async def __aenter__(self) -> "Script":
        self._control = await connect(self.peer.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in [*self._connections, self._control]:
            connection.close()

    def member(self, name: str, **how: Any) -> Member:
        """See `Member`; nothing is sent yet."""
        return Member(self, name, **how)

    async def stable(
        self, *names: str, instances: Mapping[str, str] | None = None, **how: Any
    ) -> list[Member]:
        """Members who come one after the other, synced; the first one leads."""
        members: list[Member] = []
        for name in names:
            member = self.member(name, instance=(instances or {}).get(name), **how)
            await member.enter()
            for other in members:
                await other.join()
            members.append(member)
        await members[0].sync({m: f"share of {m.name}" for m in members})
        for member in members[1:]:
            await member.sync()
        return members

    # --- requests

    async def ask(
        self,
        api: str,
        version: int,
        values: Mapping[str, Any],
        *,
        who: str | None = "admin",
        learn: Learn | None = None,
    ) -> Any:
        """Send it and note what comes of it. The answer, or None when it is held back."""
        said = ", ".join(f"{key} {_brief(value)}" for key, value in values.items())
        text = f"{len(self._steps) + 1}. {who}: {api} v{version} {self._normal.text(said)}"
        step = Step(api, text, learn)
        self._steps.append(step)
        connection = await self._free_connection()
        connection.send(api, version, who, request_of(api, version, values), step.done)
        await self._settle()
        step.is_noted = step.answer is not None
        self._note(
            text, "held back" if step.answer is None else self._normal.answer(api, step.answer)
        )
        return step.answer

    async def describe(self, version: int = 5, *groups: str) -> Any:
        return await self.ask("DescribeGroups", version, {"groups": groups or (self.group,)})

    async def list(self, version: int = 5, **filters: Any) -> Any:
        return await self.ask("ListGroups", version, filters)

    async def delete(self, *groups: str, version: int = 2) -> Any:
        return await self.ask("DeleteGroups", version, {"groups_names": groups or (self.group,)})

    async def delete_offsets(self, **topics: tuple[int, ...]) -> Any:
        asked = [
            {"name": name, "partitions": [{"partition_index": index} for index in partitions]}
            for name, partitions in topics.items()
        ]
        return await self.ask("OffsetDelete", 0, {"group_id": self.group, "topics": asked})

    async def leave(self, *leaving: "Member | tuple[str, str | None]", version: int = 5) -> Any:
        """A batch; a pair is (member id, instance id)."""
        pairs = [(m.id, m.instance) if isinstance(m, Member) else m for m in leaving]
        members = [{"member_id": m, "group_instance_id": i} for m, i in pairs]
        return await self.ask("LeaveGroup", version, {"group_id": self.group, "members": members})

    async def fetch(self, version: int = 8, **topics: tuple[int, ...]) -> Any:
        """Without topics, all of them."""
        asked = [
            {"name": n, "topic_id": self.peer.topic_ids.get(n), "partition_indexes": p}
            for n, p in topics.items()
        ]
        group = {"group_id": self.group, "member_epoch": -1, "topics": asked or None}
        values = {"groups": [group]} if version >= 8 else group
        return await self.ask("OffsetFetch", version, values)

    # --- topics; of these words the transcript says nothing

    async def topic(self, partitions: int) -> str:
        """One of its own, once its partitions can be read and written everywhere."""
        name = f"{self.group}.topic"
        new = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        made = await call(self._control, "CreateTopics", 7, {"topics": [new], "timeout": 30_000})
        self._normal.topic_is(name, made.topics[0].topic_id)
        self.topic_ids[name] = made.topics[0].topic_id
        asked = [
            {"partition": index, "partition_max_bytes": 0, "current_leader_epoch": -1}
            for index in range(partitions)
        ]
        topics = [{"topic": name, "partitions": asked}]
        values = {"replica_id": -1, "session_epoch": -1, "max_bytes": 100, "topics": topics}
        for _ in range(PATIENCE_MS // STEP_MS):
            found = await call(self._control, "Fetch", 12, values)
            if all(one.error_code.name == "none" for one in found.responses[0].partitions):
                return name
            await self.peer.pass_ms(STEP_MS)
        raise ScriptFailed(f"{name} cannot be read: {found}")

    async def produce(self, topic: str, index: int, value: bytes = b"value") -> None:
        records = build([NewRecord(b"key", value, PRODUCED_AT_MS)])
        data = [{"name": topic, "partition_data": [{"index": index, "records": records}]}]
        values = {"acks": -1, "timeout": 30_000, "topic_data": data}
        done = await call(self._control, "Produce", 9, values)
        if done.responses[0].partition_responses[0].error_code.name != "none":
            raise ScriptFailed(f"not produced: {done}")

    async def delete_records(self, topic: str, index: int, before: int) -> None:
        part = {"partition_index": index, "offset": before}
        values = {"topics": [{"name": topic, "partitions": [part]}], "timeout": 30_000}
        done = await call(self._control, "DeleteRecords", 2, values)
        if done.topics[0].partitions[0].error_code.name != "none":
            raise ScriptFailed(f"not deleted: {done}")

    # --- time

    async def until_freed(self) -> None:
        """Let time go by until a request that was held back is answered."""
        held = [step for step in self._steps if not step.is_noted]
        if not held:
            raise ScriptFailed("nothing is held back")
        for _ in range(PATIENCE_MS // STEP_MS):
            if any(step.answer is not None for step in held):
                break
            await self.peer.pass_ms(STEP_MS)
            await round_trip(self._control)
        else:
            raise ScriptFailed(f"not answered in {PATIENCE_MS} ms: {held[0].text}")
        await self._settle()
        self._note("time goes by", "until a request is answered")

    async def until_state(self, state: str) -> None:
        """Let time go by until DescribeGroups says so."""
        for _ in range(PATIENCE_MS // STEP_MS):
            described = await call(self._control, "DescribeGroups", 5, {"groups": (self.group,)})
            if described.groups[0].group_state == state:
                break
            await self.peer.pass_ms(STEP_MS)
        else:
            raise ScriptFailed(f"not {state} in {PATIENCE_MS} ms: {described}")
        await self._settle()
        self._note("time goes by", f"until the group is {state}")

    async def pass_ms(self, ms: int) -> None:
        """Here time itself is what the script is about; nothing is waited for."""
        for _ in range(ms // STEP_MS):
            await self.peer.pass_ms(STEP_MS)
        await self._settle()
        self._note(f"{ms} ms go by", None)

    # --- inside

    async def _free_connection(self) -> Connection:
        for connection in self._connections:
            if connection.is_free:
                return connection
        self._connections.append(await connect(self.peer.port))
        return self._connections[-1]

    async def _settle(self) -> None:
        await self.peer.settle(
            self._control, lambda: sum(step.answer is None for step in self._steps)
        )

    def _note(self, text: str, answer: Any) -> None:
        line = {"step": text, "answer": answer}
        freed = [step for step in self._steps if step.answer is not None and not step.is_noted]
        if freed:
            line["freed"] = {
                step.text.split(" v")[0]: self._normal.answer(step.api, step.answer)
                for step in freed
            }
        for step in freed:
            step.is_noted = True
        self.transcript.append(line)


def _brief(value: Any) -> str:
    """A request's value as a transcript shows it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} {_brief(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        if len(value) > ITEMS_MAX:
            return f"({len(value)} items)"
        return "[" + ", ".join(map(_brief, value)) + "]"
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return text if len(text) < 200 else f"({len(text)} characters)"
