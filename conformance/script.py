"""Scripts: requests of group members and other clients, one after another.

A script contains no expectations; its transcript (recorder.py) is compared with Kafka's.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from ..topics.acls import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from .broker import GROUP
from .members import ConsumerMember, Member, Protocols, assignment, subscribed
from .producers import Producer
from .recorder import WITHIN, Recorder, ScriptFailed, has_error
from .records import NewRecord, build

RECORD_TIMESTAMP_MS = 1_700_000_000_000
SET, DELETE, APPEND, SUBTRACT = range(4)  # the operations of IncrementalAlterConfigs
GROUP_CONFIG = 8  # the source of a config in DescribeConfigs
ALL_ACLS = {
    "resource_type_filter": AclResourceType.ANY,
    "pattern_type_filter": PatternType.ANY,
    "operation": AclOperation.ANY,
    "permission_type": AclPermission.ANY,
}

Change = tuple[str, int, str | None]
"""The key, the operation and the value of a config."""


def altered(type_: int, name: str, *changes: Change) -> dict[str, Any]:
    """Return a resource for IncrementalAlterConfigs."""
    configs = [{"name": k, "config_operation": o, "value": v} for k, o, v in changes]
    return {"resource_type": type_, "resource_name": name, "configs": configs}


def acl(
    name: str,
    operation: int = AclOperation.READ,
    type_: int = AclResourceType.TOPIC,
    pattern: int = PatternType.LITERAL,
    permission: int = AclPermission.ALLOW,
    *,
    principal: str = "User:alice",
    host: str = "*",
) -> dict[str, Any]:
    return {
        "resource_type": type_,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": principal,
        "host": host,
        "operation": operation,
        "permission_type": permission,
    }


class Script(Recorder):
    """Sends the requests of one scenario, and sets up the topics, ACLs and configs it needs."""

    _acls = 0

    def member(self, name: str, **options: Any) -> Member:
        """Return a new Member, without sending a request."""
        return Member(self, name, **options)

    def producer(self, name: str = "P", **options: Any) -> Producer:
        """Return a new Producer, without sending a request."""
        return Producer(self, name, **options)

    def consumer(self, name: str, *topics: str, **options: Any) -> ConsumerMember:
        """Return a new ConsumerMember, without sending a request."""
        return ConsumerMember(self, name, *topics, **options)

    async def consumers(
        self, *names: str, topics: Sequence[str] = (), **options: Any
    ) -> list[ConsumerMember]:
        """Return members that have joined a KIP-848 group one after another."""
        return [await self.consumer(name, *topics, **options).joined() for name in names]

    async def converge(self, *members: ConsumerMember) -> None:
        """Send heartbeats of the members in turn until their assignments no longer change."""
        before = None
        while before != (before := [(m.epoch, m.assigned) for m in members]):
            for member in members:
                await member.report()

    async def joined(
        self, *names: str, instances: Mapping[str, str] | None = None, **options: Any
    ) -> list[Member]:
        """Return members that have joined one after another, but not synced; the first is the
        leader."""
        members: list[Member] = []
        for name in names:
            member = self.member(name, instance=(instances or {}).get(name), **options)
            await member.enter()
            for other in members:
                await other.join()
            members.append(member)
        return members

    async def stable(self, *names: str, **options: Any) -> list[Member]:
        """Return members that have joined, as with `joined`, and synced."""
        members = await self.joined(*names, **options)
        await members[0].sync({m: f"share of {m.name}" for m in members})
        for member in members[1:]:
            await member.sync()
        return members

    # --- requests

    async def describe(self, version: int = 5, *groups: str) -> Any:
        return await self.send("DescribeGroups", version, {"groups": groups or (self.group,)})

    async def describe_consumers(self, version: int = 1, *groups: str) -> Any:
        values = {"group_ids": groups or (self.group,)}
        return await self.send("ConsumerGroupDescribe", version, values, has_epochs=True)

    async def list(self, version: int = 5, **filters: Any) -> Any:
        return await self.send("ListGroups", version, filters)

    async def configure(self, **configs: str | None) -> None:
        """Set configs of the group, or delete configs that are None, and wait until the changes
        apply. `session_timeout_ms` stands for `consumer.session.timeout.ms`."""
        values = {f"consumer.{name.replace('_', '.')}": value for name, value in configs.items()}
        await self.send("IncrementalAlterConfigs", 1, self._altered(values))
        await self._until_configured(values)

    async def prepare_group(self, configs: Mapping[str, str]) -> None:
        """Set configs of the group, and wait until they apply, without recording the request."""
        await self.call("IncrementalAlterConfigs", 1, **self._altered(configs))
        await self._until_configured(configs)

    def _altered(self, values: Mapping[str, str | None]) -> dict[str, Any]:
        changes = ((k, DELETE if v is None else SET, v) for k, v in values.items())
        return {"resources": [altered(GROUP, self.group, *changes)]}

    async def _until_configured(self, values: Mapping[str, str | None]) -> None:
        def is_configured(described: Any) -> bool:
            found = {
                config["name"]: config["value"]
                for config in described["results"][0]["configs"]
                if config["config_source"] == GROUP_CONFIG
            }
            return all(found.get(name) == value for name, value in values.items())

        group = {"resource_type": GROUP, "resource_name": self.group}
        describe = partial(self.call, "DescribeConfigs", 4, resources=[group])
        await self.until(describe, is_configured, f"the configs did not apply {WITHIN}")
        await self.broker.metadata_applied()

    async def delete(self, *groups: str, version: int = 2) -> Any:
        return await self.send("DeleteGroups", version, {"groups_names": groups or (self.group,)})

    async def delete_offsets(self, *pairs: tuple[str, tuple[int, ...]], **more: Any) -> Any:
        """Delete the offsets of partitions, given as pairs of topic and partitions, or as
        `topic=partitions`."""
        topics = [
            {"name": name, "partitions": [{"partition_index": index} for index in partitions]}
            for name, partitions in (*pairs, *more.items())
        ]
        return await self.send("OffsetDelete", 0, {"group_id": self.group, "topics": topics})

    async def leave(self, *leaving: Member | tuple[str, str | None], version: int = 5) -> Any:
        """Let several members leave in one request. A pair is (member id, instance id)."""
        pairs = [(m.id, m.instance) if isinstance(m, Member) else m for m in leaving]
        members = [{"member_id": m, "group_instance_id": i} for m, i in pairs]
        return await self.send("LeaveGroup", version, {"group_id": self.group, "members": members})

    async def fetch(self, version: int = 8, **topics: tuple[int, ...]) -> Any:
        """Fetch the group's offsets of these topics; without topics, all of its offsets."""
        group = {
            "group_id": self.group,
            "member_epoch": -1,
            "topics": self.fetch_topics(topics) or None,
        }
        return await self.send(
            "OffsetFetch", version, {"groups": [group]} if version >= 8 else group
        )

    # --- ACLs; not in the transcript

    async def allow(
        self,
        user: str,
        operation: str,
        resource: str,
        *,
        permission: str = "ALLOW",
        pattern: str = "LITERAL",
        host: str = "*",
    ) -> None:
        """Allow the user an operation, for example `READ` on `topic orders` or `ALTER` on
        `cluster`."""
        type_, _, name = resource.partition(" ")
        new = acl(
            name or CLUSTER_NAME,
            AclOperation[operation],
            AclResourceType[type_.upper()],
            PatternType[pattern],
            AclPermission[permission],
            principal=f"User:{user}",
            host=host,
        )
        await self._succeed("CreateAcls", 3, creations=[new])
        self._acls += 1
        await self._until_acls(self._acls)

    async def allowing(self, request: Callable[[], Awaitable[None]], *permissions: str) -> None:
        """Call `request`, then grant alice each of these permissions, for example `READ topic
        orders`, and call `request` again after each."""
        await request()
        for permission in permissions:
            operation, _, resource = permission.partition(" ")
            await self.allow("alice", operation, resource)
            await request()

    async def deny(self, user: str, operation: str, resource: str, **options: str) -> None:
        await self.allow(user, operation, resource, permission="DENY", **options)

    async def delete_acls(self) -> None:
        await self.call("DeleteAcls", 3, filters=[ALL_ACLS])
        self._acls = 0
        await self._until_acls(0)

    async def _until_acls(self, count: int) -> None:
        """Wait until the broker lists this number of ACLs."""
        await self.until(
            partial(self.call, "DescribeAcls", 3, **ALL_ACLS),
            lambda found: sum(len(each["acls"]) for each in found["resources"]) == count,
            f"expected {count} ACLs {WITHIN}",
        )

    # --- topics; not in the transcript

    async def topic(self, partitions: int, name: str = "topic") -> str:
        """Create a topic of this script, wait until its partitions can be fetched, and return its
        name, which begins with the group id."""
        name = f"{self.group}.{name}"
        new = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        created = await self.call("CreateTopics", 7, topics=[new], timeout=30_000)
        self.topic_ids[name] = UUID(created["topics"][0]["topic_id"])
        self._normalizer.add_topic(name, self.topic_ids[name])
        fetched = [
            {"partition": index, "partition_max_bytes": 0, "current_leader_epoch": -1}
            for index in range(partitions)
        ]
        values = {"replica_id": -1, "session_epoch": -1, "max_bytes": 100}
        topics = [{"topic": name, "partitions": fetched}]
        fetch = partial(self.call, "Fetch", 12, **values, topics=topics)
        await self.until(fetch, lambda response: not has_error(response), f"cannot fetch {name}")
        await self.broker.metadata_applied()
        return name

    async def topic_and_producer(
        self, partitions: int = 1, name: str = "P", **options: Any
    ) -> tuple[str, Producer]:
        """Create a topic, and return its name and an initialized producer."""
        return await self.topic(partitions), await self.producer(name, **options).initialized()

    async def cluster_id(self) -> str:
        """Return the cluster id. The transcript shows it as CLUSTER."""
        described = await self.call("DescribeCluster", 0)
        cluster_id: str = described["cluster_id"]
        self._normalizer.cluster_id = cluster_id
        return cluster_id

    async def log_dir(self) -> str:
        """Return the broker's log directory, without recording the request."""
        described = await self.call("DescribeLogDirs", 4, topics=())
        path: str = described["results"][0]["log_dir"]
        return path

    async def delete_topic(self, name: str) -> None:
        await self._succeed("DeleteTopics", 6, topics=[{"name": name}], timeout=30_000)
        await self._until_partitions(name, 0)

    async def add_partitions(self, name: str, count: int) -> None:
        """Add partitions to a topic, up to `count` in total."""
        topics = [{"name": name, "count": count}]
        await self._succeed("CreatePartitions", 3, topics=topics, timeout=30_000)
        await self._until_partitions(name, count)

    async def _until_partitions(self, name: str, count: int) -> None:
        wanted = {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": False}
        await self.until(
            partial(self.call, "Metadata", 12, **wanted),
            lambda found: len(found["topics"][0]["partitions"]) == count,
            f"{name} does not have {count} partitions",
        )
        await self.broker.metadata_applied()

    async def produce(self, topic: str, index: int) -> None:
        records = build([NewRecord(b"key", b"value", RECORD_TIMESTAMP_MS)])
        data = [{"name": topic, "partition_data": [{"index": index, "records": records}]}]
        await self._succeed("Produce", 9, acks=-1, timeout=30_000, topic_data=data)

    async def delete_records(self, topic: str, index: int, before: int) -> None:
        topics = [{"name": topic, "partitions": [{"partition_index": index, "offset": before}]}]
        await self._succeed("DeleteRecords", 2, topics=topics, timeout=30_000)

    async def _succeed(self, api: str, version: int, **values: Any) -> None:
        """Send a request that must succeed."""
        response = await self.call(api, version, **values)
        if has_error(response):
            raise ScriptFailed(f"{api} failed: {response}")


async def classic_group(
    script: Script,
    shares: Mapping[str, Sequence[int]],
    *,
    topic: str = "orders",
    protocols: Protocols = (),
    **options: Any,
) -> list[Member]:
    """Return stable classic members with these partitions of a topic; the first is the leader."""
    protocols = protocols or subscribed(topic)
    members = await script.joined(*shares, protocols=protocols, **options)
    assigned = zip(members, shares.values(), strict=True)
    await members[0].sync({m: assignment(topic, *indexes) for m, indexes in assigned})
    for member in members[1:]:
        await member.sync()
    return members
