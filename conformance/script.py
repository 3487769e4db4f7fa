"""Scripts: requests of group members and other clients, one after the other, and their transcript.

A script contains no expectations. After each request its transcript has the response, or that the
request is held back, and responses to earlier requests that have arrived since.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from ..topics.acls import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from .broker import STEP_MS, ScriptBroker
from .members import ConsumerMember, Member
from .producers import Producer
from .records import NewRecord, build
from .transcript import OLDER, Normaliser, Transcript, shown
from .wire import AsyncClient

OnResponse = Callable[[Any], None]

TIMEOUT_MS = 20_000
RECORD_TIMESTAMP_MS = 1_700_000_000_000
TRANSACTION = 1  # the key type of FindCoordinator
GROUP = 32  # the resource type of IncrementalAlterConfigs
SET, DELETE = 0, 1
GROUP_CONFIG = 8  # the source of a config in DescribeConfigs
ALL_ACLS = {
    "resource_type_filter": AclResourceType.ANY,
    "pattern_type_filter": PatternType.ANY,
    "operation": AclOperation.ANY,
    "permission_type": AclPermission.ANY,
}
# Where the broker does not have the version of a request, a newer one than these, but not an older
# one, is played in the broker's newest version: it has the same meaning there, with fewer fields.
SAME_SINCE = {
    "DescribeGroups": 4,
    "Heartbeat": 3,
    "JoinGroup": 5,
    "LeaveGroup": 3,
    "OffsetCommit": 7,
    "SyncGroup": 3,
}
EPOCHS = ("assignment_epoch", "generation_id_or_member_epoch", "group_epoch", "member_epoch")
HELD_BACK = ("Fetch", "JoinGroup", "SyncGroup")  # they may wait for other requests


class ScriptFailed(Exception):
    """Something that a script waits for has not happened."""


class Diverged(Exception):
    """The last line of the transcript is not the expected one, and the rest is of no use."""


def shifted(value: Any, epochs: int) -> Any:
    """Add a number to epochs, at any depth; 0 and negative ones have a meaning of their own."""
    if not epochs:
        return value
    if isinstance(value, Mapping):
        return {
            key: each + epochs if key in EPOCHS and each > 0 else shifted(each, epochs)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [shifted(each, epochs) for each in value]
    return value


class Step:
    """A request. `response` is None while it is held back, and a text if the connection closes."""

    def __init__(
        self, api: str, text: str, on_response: OnResponse | None, epochs_ahead: int
    ) -> None:
        self.api, self.text, self._on_response = api, text, on_response
        self._epochs_ahead = epochs_ahead
        self.response: Any = None
        self.is_recorded = False

    def done(self, future: asyncio.Future[Any]) -> None:
        try:
            self.response = shifted(future.result(), self._epochs_ahead)
        except ConnectionError as error:
            self.response = str(error)
        else:
            if self._on_response is not None:
                self._on_response(self.response)


class Script:
    """The requests of one scenario. `keeps_delay`: it shows the initial delay of a group;
    `has_diverged`: whether the transcript so far ends with a difference, after which the script
    stops with Diverged."""

    def __init__(
        self,
        broker: ScriptBroker,
        group: str,
        *,
        keeps_delay: bool = False,
        has_diverged: Callable[["Script"], bool] = lambda _script: False,
    ) -> None:
        self.broker, self.group = broker, group
        self._keeps_delay, self._has_diverged = keeps_delay, has_diverged
        self.transcript: Transcript = []
        self._is_in_older_versions = False
        self.topic_ids = dict(broker.topic_ids)
        self.steps: list[Step] = []
        self._connections: dict[str | None, list[AsyncClient]] = {}  # by client id
        self._control: AsyncClient
        self._acls = 0
        self._has_transactions = False
        self._normaliser = Normaliser(group, broker)

    async def __aenter__(self) -> "Script":
        self._control = await self.broker.connect("control")
        return self

    async def __aexit__(self, *_: object) -> None:
        for connections in [[self._control], *self._connections.values()]:
            for connection in connections:
                connection.close()

    def member(self, name: str, **options: Any) -> Member:
        """See `Member`; sends nothing."""
        return Member(self, name, **options)

    def producer(self, name: str = "P", **options: Any) -> Producer:
        """See `Producer`; sends nothing."""
        return Producer(self, name, **options)

    def consumer(self, name: str, *topics: str, **options: Any) -> ConsumerMember:
        """See `ConsumerMember`; sends nothing."""
        return ConsumerMember(self, name, *topics, **options)

    async def converge(self, *members: ConsumerMember) -> None:
        """Let each report in turn until nothing changes any more."""
        before = None
        while before != (before := [(m.epoch, m.assigned) for m in members]):
            for member in members:
                await member.report()

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
        text: str | None = None,
        has_epochs: bool = False,
    ) -> Any:
        """Return the response, or None if the request is held back. `text`: what the transcript has
        instead of the values; `has_epochs`: it is a request of a KIP-848 group."""
        fields = text or ", ".join(f"{key} {shown(value)}" for key, value in values.items())
        request = f"{len(self.steps) + 1}. {client_id}: {api} v{version} "
        ahead = self.broker.epochs_ahead if has_epochs else 0
        step = Step(api, request + self._normaliser.text(fields), on_response, ahead)
        self.steps.append(step)
        connection = await self._free_connection(client_id)
        is_delayed = api == "JoinGroup" and await self._is_delayed(values["group_id"])
        played = self._played_version(connection, api, version)
        response = connection.send(api, played, **shifted(values, -ahead))
        response.add_done_callback(step.done)
        if api not in HELD_BACK:
            await asyncio.wait([response], timeout=TIMEOUT_MS / 1000)
        if is_delayed:
            await self._until_delay_ends(response)
        await self._settle()
        step.is_recorded = step.response is not None
        answer = self._normaliser.response(api, step.response) if step.is_recorded else "held back"
        self._record(step.text, answer)
        return step.response

    def _played_version(self, connection: AsyncClient, api: str, version: int) -> int:
        older = range(version, SAME_SINCE.get(api, version) - 1, -1)
        found = next((each for each in older if connection.supports(api, each)), version)
        self._is_in_older_versions |= found < version
        return found

    async def _is_delayed(self, group: str) -> bool:
        """Return True if the broker delays a join of the group that was recorded without delay."""
        if not self.broker.initial_delay_ms or self._keeps_delay:
            return False
        if not self._control.supports("DescribeGroups", 5):
            return True  # perhaps
        described = await self._control.call("DescribeGroups", 5, groups=(group,))
        return described["groups"][0]["group_state"] in ("Dead", "Empty")

    async def _until_delay_ends(self, response: asyncio.Future[Any]) -> None:
        for _ in range(self.broker.initial_delay_ms // STEP_MS + 1):
            await self.broker.round_trip(self._control)
            if response.done():
                return
            await self.broker.advance(STEP_MS)

    async def _free_connection(self, client_id: str | None) -> AsyncClient:
        connections = self._connections.setdefault(client_id, [])
        for connection in connections:
            if connection.is_free:
                return connection
        connections.append(await self.broker.connect(client_id))
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
        if self._is_in_older_versions:
            line[OLDER] = True
        self.transcript.append(line)
        if self._has_diverged(self):
            raise Diverged

    async def describe(self, version: int = 5, *groups: str) -> Any:
        return await self.send("DescribeGroups", version, {"groups": groups or (self.group,)})

    async def describe_consumers(self, version: int = 1, *groups: str) -> Any:
        values = {"group_ids": groups or (self.group,)}
        return await self.send("ConsumerGroupDescribe", version, values, has_epochs=True)

    async def list(self, version: int = 5, **filters: Any) -> Any:
        return await self.send("ListGroups", version, filters)

    async def configure(self, **configs: str | None) -> None:
        """Set configs of the group, or delete those that are None, and wait until they apply:
        `session_timeout_ms` stands for `consumer.session.timeout.ms`."""
        values = {f"consumer.{name.replace('_', '.')}": value for name, value in configs.items()}
        await self.send("IncrementalAlterConfigs", 1, self._altered(values))
        await self._until_configured(values)

    async def prepare_group(self, configs: Mapping[str, str]) -> None:
        """Set configs of the group, and wait until they apply; not in the transcript."""
        await self._control.call("IncrementalAlterConfigs", 1, **self._altered(configs))
        await self._until_configured(configs)

    def _altered(self, values: Mapping[str, str | None]) -> dict[str, Any]:
        changes = [
            {"name": name, "config_operation": DELETE if value is None else SET, "value": value}
            for name, value in values.items()
        ]
        group = {"resource_type": GROUP, "resource_name": self.group}
        return {"resources": [{**group, "configs": changes}]}

    async def _until_configured(self, values: Mapping[str, str | None]) -> None:
        group = {"resource_type": GROUP, "resource_name": self.group}
        for _ in range(TIMEOUT_MS // STEP_MS):
            described = await self._control.call("DescribeConfigs", 4, resources=[group])
            found = {
                config["name"]: config["value"]
                for config in described["results"][0]["configs"]
                if config["config_source"] == GROUP_CONFIG
            }
            if all(found.get(name) == value for name, value in values.items()):
                break
            await self.broker.advance(STEP_MS)
        else:
            raise ScriptFailed(f"not configured within {TIMEOUT_MS} ms: {described}")
        await self.broker.metadata_applied()

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
        group = {
            "group_id": self.group,
            "member_epoch": -1,
            "topics": self.fetch_topics(topics) or None,
        }
        return await self.send(
            "OffsetFetch", version, {"groups": [group]} if version >= 8 else group
        )

    # --- parts of requests

    def topic_partitions(self, owned: Mapping[str, Iterable[int]]) -> Sequence[Mapping[str, Any]]:
        """For ConsumerGroupHeartbeat."""
        return [
            {"topic_id": self.topic_ids[name], "partitions": tuple(indexes)}
            for name, indexes in owned.items()
        ]

    def commit_topics(
        self, offset: int, partitions: Iterable[tuple[str, int, str | None]] | None
    ) -> Sequence[Mapping[str, Any]]:
        """For OffsetCommit: (name, partition, metadata), or partition 0 of `orders`."""
        topics: dict[str, Any] = {}
        for name, index, metadata in [("orders", 0, "note")] if partitions is None else partitions:
            topic: dict[str, Any] = {
                "name": name,
                "topic_id": self.topic_ids.get(name),
                "partitions": [],
            }
            topics.setdefault(name, topic)["partitions"].append(
                {
                    "partition_index": index,
                    "committed_offset": offset,
                    "committed_leader_epoch": -1,
                    "committed_metadata": metadata,
                    "commit_timestamp": -1,
                }
            )
        return list(topics.values())

    def fetch_topics(self, topics: Mapping[str, Iterable[int]]) -> Sequence[Mapping[str, Any]]:
        """For OffsetFetch."""
        return [
            {"name": n, "topic_id": self.topic_ids.get(n), "partition_indexes": tuple(p)}
            for n, p in topics.items()
        ]

    # --- ACLs; not in the transcript

    async def allow(self, user: str, operation: str, resource: str, **options: str) -> None:
        """Allow the user an operation: `READ` on `topic orders`, `ALTER` on `cluster`. `options`:
        other fields of the ACL."""
        await self._create_acl(user, operation, resource, permission="ALLOW", **options)

    async def deny(self, user: str, operation: str, resource: str, **options: str) -> None:
        await self._create_acl(user, operation, resource, permission="DENY", **options)

    async def _create_acl(
        self,
        user: str,
        operation: str,
        resource: str,
        *,
        permission: str,
        pattern: str = "LITERAL",
        host: str = "*",
    ) -> None:
        type_, _, name = resource.partition(" ")
        acl = {
            "resource_type": AclResourceType[type_.upper()],
            "resource_name": name or CLUSTER_NAME,
            "resource_pattern_type": PatternType[pattern],
            "principal": f"User:{user}",
            "host": host,
            "operation": AclOperation[operation],
            "permission_type": AclPermission[permission],
        }
        created = await self._control.call("CreateAcls", 3, creations=[acl])
        if created["results"][0]["error_code"] != "none":
            raise ScriptFailed(f"CreateAcls failed: {created}")
        self._acls += 1
        await self._until_acls(self._acls)

    async def delete_acls(self) -> None:
        await self._control.call("DeleteAcls", 3, filters=[ALL_ACLS])
        self._acls = 0
        await self._until_acls(0)

    async def _until_acls(self, count: int) -> None:
        """Wait until the authorizer knows the ACLs."""
        for _ in range(TIMEOUT_MS // STEP_MS):
            described = await self._control.call("DescribeAcls", 3, **ALL_ACLS)
            if sum(len(each["acls"]) for each in described["resources"]) == count:
                return
            await self.broker.advance(STEP_MS)
        raise ScriptFailed(f"there are not {count} ACLs: {described}")

    # --- topics; not in the transcript

    async def topic(self, partitions: int, name: str = "topic") -> str:
        """Create a topic of this script, and wait until its partitions can be fetched."""
        name = f"{self.group}.{name}"
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
                await self.broker.metadata_applied()
                return name
            await self.broker.advance(STEP_MS)
        raise ScriptFailed(f"cannot fetch {name}: {response}")

    async def cluster_id(self) -> str:
        """Return the cluster id, which is CLUSTER in the transcript."""
        described = await self._control.call("DescribeCluster", 0)
        cluster_id: str = described["cluster_id"]
        self._normaliser.cluster_id = cluster_id
        return cluster_id

    async def log_dir(self) -> str:
        """Return the broker's log directory; not in the transcript."""
        described = await self._control.call("DescribeLogDirs", 4, topics=())
        path: str = described["results"][0]["log_dir"]
        return path

    async def delete_topic(self, name: str) -> None:
        topics = [{"name": name}]
        deleted = await self._control.call("DeleteTopics", 6, topics=topics, timeout=30_000)
        if deleted["responses"][0]["error_code"] != "none":
            raise ScriptFailed(f"DeleteTopics failed: {deleted}")
        await self._until_partitions(name, 0)

    async def add_partitions(self, name: str, count: int) -> None:
        """`count`: of all partitions."""
        topics = [{"name": name, "count": count}]
        created = await self._control.call("CreatePartitions", 3, topics=topics, timeout=30_000)
        if created["results"][0]["error_code"] != "none":
            raise ScriptFailed(f"CreatePartitions failed: {created}")
        await self._until_partitions(name, count)

    async def _until_partitions(self, name: str, count: int) -> None:
        topics = [{"name": name, "topic_id": None}]
        for _ in range(TIMEOUT_MS // STEP_MS):
            response = await self._control.call(
                "Metadata", 12, topics=topics, allow_auto_topic_creation=False
            )
            if len(response["topics"][0]["partitions"]) == count:
                break
            await self.broker.advance(STEP_MS)
        else:
            raise ScriptFailed(f"{name} has not {count} partitions: {response}")
        await self.broker.metadata_applied()

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
            await self.broker.round_trip(self._control)
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

    async def until_members(self, count: int) -> None:
        """Let time pass until the KIP-848 group has this number of members."""
        text = f"until the group has {count} members"
        await self._until_consumers(lambda group: len(group["members"]) == count, text, self.group)

    async def until_epoch(self, epoch: int, group: str | None = None) -> None:
        """Let time pass until the KIP-848 group has at least this epoch."""
        text = f"until the group epoch is {epoch}"
        name = self.group if group is None else group
        least = epoch - self.broker.epochs_ahead
        await self._until_consumers(lambda group: group["group_epoch"] >= least, text, name)

    async def until_assigned(self, epoch: int) -> None:
        """Let time pass until the KIP-848 group has a target assignment of this epoch."""
        text = f"until the assignment epoch is {epoch}"
        expected = epoch - self.broker.epochs_ahead
        await self._until_consumers(
            lambda group: group["assignment_epoch"] == expected, text, self.group
        )

    async def transactions_ready(self) -> None:
        """Wait until transactional ids have a coordinator, and the clocks are past STARTED_MS; not
        in the transcript."""
        if self._has_transactions:
            return
        self._has_transactions = True
        await self.broker.advance(STEP_MS)
        for _ in range(TIMEOUT_MS // STEP_MS):
            found = await self._control.call(
                "FindCoordinator", 4, key_type=TRANSACTION, coordinator_keys=("any",)
            )
            listed = await self._control.call("ListTransactions", 0)
            if found["coordinators"][0]["error_code"] == listed["error_code"] == "none":
                # Responses without a producer have id 0, which is the first that brokers allocate.
                await self._control.call("InitProducerId", 4, transactional_id=None)
                return
            await self.broker.advance(STEP_MS)
        raise ScriptFailed(f"no coordinator of transactions: {found}")

    async def use_epochs(self, transactional_id: str, until: int) -> None:
        """Initialize producers until one has this epoch; not in the transcript."""
        await self.broker.use_epochs(self._control, transactional_id, until)

    async def until_transaction(
        self, transactional_id: str, condition: Callable[[str], bool], text: str | None = None
    ) -> None:
        """Let time pass until the state of the transaction fulfils the condition. Without `text`,
        it is not in the transcript."""
        for _ in range(TIMEOUT_MS // STEP_MS):
            described = await self._control.call(
                "DescribeTransactions", 0, transactional_ids=(transactional_id,)
            )
            if condition(described["transaction_states"][0]["transaction_state"]):
                break
            await self.broker.advance(STEP_MS)
        else:
            raise ScriptFailed(f"not within {TIMEOUT_MS} ms: {described}")
        if text is not None:
            await self._settle()
            self._record("time goes by", text)

    async def _until_consumers(
        self, condition: Callable[[Any], bool], text: str, group: str
    ) -> None:
        for _ in range(TIMEOUT_MS // STEP_MS):
            response = await self._control.call("ConsumerGroupDescribe", 1, group_ids=(group,))
            if condition(response["groups"][0]):
                break
            await self.broker.advance(STEP_MS)
        else:
            raise ScriptFailed(f"timed out after {TIMEOUT_MS} ms {text}: {response}")
        await self._settle()
        self._record("time goes by", text)

    async def pass_ms(self, ms: int) -> None:
        await self.broker.advance(ms)
        await self._settle()
        self._record(f"{ms} ms go by", None)
