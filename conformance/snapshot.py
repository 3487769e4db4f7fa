"""The state of a broker that scenarios can change: read before they run, restored afterwards."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Self

from ..topics.names import SHARE_TOPIC
from .broker import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPICS,
    RemoteBroker,
    Unusable,
)
from .script import DELETE, GROUP_CONFIG, SET, altered
from .wire import AsyncClient

State = Mapping[Any, Any]

POLL_SECONDS: Final = 0.1
APPLIED_SECONDS: Final = 10  # timeout for changes to become visible; Kafka needs less than a second
SHOWN_MAX: Final = 5  # maximum number of unrestored items that are named

# The source of a config that was set for a resource of a type (DescribeConfigs).
SOURCES: Final = {BROKER: 2, BROKER_LOGGER: 6, CLIENT_METRICS: 7, GROUP: GROUP_CONFIG}
DEFAULT_OF_BROKERS: Final = 3
ROOT: Final = "root"
LEAVES: Final = -1  # the epoch with which a member leaves

# The broker does not have such a resource, or the client may not describe it. In both cases,
# scenarios cannot change the resource.
OUT_OF_REACH: Final = ("group_authorization_failed", "invalid_request", "unsupported_version")
DENIED: Final = "cluster_authorization_failed"


class _Unreadable(Exception):
    """The broker does not list a part of its state. The message is the name of the error."""


def _check(response: Mapping[str, Any]) -> None:
    """Raise _Unreadable if items were not listed. Otherwise, `restore` would delete them, as if
    scenarios had created them."""
    if (error := response["error_code"]) not in ("none", *OUT_OF_REACH):
        raise _Unreadable(error)


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a broker's state. `needs`: the APIs that `read` and `undo` use; `undo` deletes keys
    that were created, and sets others to their old values if possible."""

    name: str
    needs: Mapping[str, int]
    read: Callable[[AsyncClient, RemoteBroker], Awaitable[State]]
    undo: Callable[[AsyncClient, Collection[Any], Mapping[Any, Any]], Awaitable[None]]
    names: Collection[str] | None = None
    """If keys are names, the names that scenarios use in every run. Other created names are deleted
    only if they contain the run (Snapshot)."""


async def _groups(control: AsyncClient, _broker: RemoteBroker) -> State:
    """Return the listed groups. Groups in partitions that are still being loaded are missing, but
    they are not from this run."""
    listed = await control.call("ListGroups", 4)
    return {each["group_id"]: each["protocol_type"] for each in listed["groups"]}


async def _delete_groups(
    control: AsyncClient, created: Collection[Any], _changed: Mapping[Any, Any]
) -> None:
    """Delete groups. Members whose sessions have not expired yet are removed first."""
    groups = tuple(created)
    for group in (await control.call("DescribeGroups", 5, groups=groups))["groups"]:
        members = [
            {name: member[name] for name in ("member_id", "group_instance_id")}
            for member in group["members"]
        ]
        if members:
            await control.call("LeaveGroup", 4, group_id=group["group_id"], members=members)
    if control.supports("ConsumerGroupDescribe", 0):
        described = await control.call("ConsumerGroupDescribe", 0, group_ids=groups)
        for group in described["groups"]:
            for member in group["members"]:
                leaving = {"member_id": member["member_id"], "instance_id": member["instance_id"]}
                values = {"group_id": group["group_id"], "member_epoch": LEAVES, **leaving}
                await control.call("ConsumerGroupHeartbeat", 0, **values)
    await control.call("DeleteGroups", 2, groups_names=groups)


async def _topics(control: AsyncClient, _broker: RemoteBroker) -> State:
    described = await control.call("Metadata", 1, topics=None)
    return {
        each["name"]: None
        for each in described["topics"]
        # Unlike other internal topics, SHARE_TOPIC can be deleted by clients.
        if not each["is_internal"] or each["name"] == SHARE_TOPIC
    }


async def _delete_topics(
    control: AsyncClient, created: Collection[Any], _changed: Mapping[Any, Any]
) -> None:
    topics = [{"name": name} for name in created]
    await control.call("DeleteTopics", 6, topics=topics, timeout=30_000)


async def _configs(control: AsyncClient, broker: RemoteBroker) -> State:
    """Return the values of configs by type of resource, its name, and key; None for a secret."""
    node = str(broker.node_id)
    resources = [(BROKER, node), (BROKER, ""), (BROKER_LOGGER, node)]
    if control.supports("ListConfigResources", 1):
        types = (CLIENT_METRICS, GROUP)
        listed = await control.call("ListConfigResources", 1, resource_types=types)
        _check(listed)
        found = listed["config_resources"]
        resources += [(each["resource_type"], each["resource_name"]) for each in found]
    described = await control.call(
        "DescribeConfigs",
        4,
        resources=[{"resource_type": type_, "resource_name": name} for type_, name in resources],
    )
    for result in described["results"]:
        _check(result)
    return {
        (result["resource_type"], result["resource_name"], config["name"]): config["value"]
        for result in described["results"]
        for config in result["configs"]
        if config["config_source"] == _source(result["resource_type"], result["resource_name"])
    }


def _source(type_: int, name: str) -> int:
    return DEFAULT_OF_BROKERS if (type_, name) == (BROKER, "") else SOURCES[type_]


async def _restore_configs(
    control: AsyncClient, created: Collection[Any], changed: Mapping[Any, Any]
) -> None:
    if any(type_ == BROKER_LOGGER and key == ROOT for type_, _, key in changed):
        # Other loggers may have the level of the root logger, and are restored with it.
        changed = {
            each: value
            for each, value in changed.items()
            if each[0] != BROKER_LOGGER or each[2] == ROOT
        }
    operations: dict[Any, tuple[int, str | None]] = dict.fromkeys(created, (DELETE, None))
    operations |= {each: (SET, value) for each, value in changed.items()}
    resources = [
        altered(type_, name, *((key[2], *operations[key]) for key in keys))
        for (type_, name), keys in groupby(sorted(operations), lambda each: each[:2])
    ]
    await control.call("IncrementalAlterConfigs", 1, resources=resources)


async def _quotas(control: AsyncClient, _broker: RemoteBroker) -> State:
    """Return the values of quotas by entity and key."""
    values = {"components": (), "strict": False}
    described = await control.call("DescribeClientQuotas", 1, **values)
    _check(described)
    return {
        (frozenset((e["entity_type"], e["entity_name"]) for e in entry["entity"]), each["key"]): (
            each["value"]
        )
        for entry in described["entries"] or ()
        for each in entry["values"]
    }


async def _restore_quotas(
    control: AsyncClient, created: Collection[Any], changed: Mapping[Any, Any]
) -> None:
    entries: dict[Any, list[dict[str, Any]]] = {}
    for entity, key in created:
        entries.setdefault(entity, []).append({"key": key, "value": 0.0, "remove": True})
    for (entity, key), value in changed.items():
        entries.setdefault(entity, []).append({"key": key, "value": value, "remove": False})
    values = [
        {
            "entity": [{"entity_type": type_, "entity_name": name} for type_, name in entity],
            "ops": operations,
        }
        for entity, operations in entries.items()
    ]
    await control.call("AlterClientQuotas", 1, entries=values, validate_only=False)


async def _scram_users(control: AsyncClient, _broker: RemoteBroker) -> State:
    """Return the iterations of SCRAM credentials by user and mechanism."""
    described = await control.call("DescribeUserScramCredentials", 0, users=None)
    _check(described)
    return {
        (result["user"], each["mechanism"]): each["iterations"]
        for result in described["results"]
        for each in result["credential_infos"]
    }


async def _delete_scram_users(
    control: AsyncClient, created: Collection[Any], _changed: Mapping[Any, Any]
) -> None:
    deletions = [{"name": user, "mechanism": mechanism} for user, mechanism in created]
    await control.call("AlterUserScramCredentials", 0, deletions=deletions, upsertions=())


CONFIGS: Final = Part(
    "configurations",
    {"DescribeConfigs": 4, "IncrementalAlterConfigs": 1},
    _configs,
    _restore_configs,
)
QUOTAS: Final = Part(
    "quotas",
    {"DescribeClientQuotas": 1, "AlterClientQuotas": 1},
    _quotas,
    _restore_quotas,
)
SCRAM_USERS: Final = Part(
    "SCRAM users",
    {"DescribeUserScramCredentials": 0, "AlterUserScramCredentials": 0},
    _scram_users,
    _delete_scram_users,
)
PARTS: Final = (
    # Groups come before their topics, because a deleted topic changes the assignments of members.
    Part(
        "groups",
        {"ListGroups": 4, "DescribeGroups": 5, "LeaveGroup": 4, "DeleteGroups": 2},
        _groups,
        _delete_groups,
        names=(),
    ),
    Part(
        "topics",
        {"DeleteTopics": 6},
        _topics,
        _delete_topics,
        names=(*TOPICS, SHARE_TOPIC),
    ),
    CONFIGS,
    QUOTAS,
    SCRAM_USERS,
)
BROKER_WIDE: Final = (CONFIGS,)
"""The parts in which the changes of a scenario would affect other scenarios."""


class Snapshot:
    """The state of a broker. `run`: part of the names of scenarios' groups and topics. Other groups
    and topics are not touched, except those in `Part.names`."""

    def __init__(self, broker: RemoteBroker, run: str, states: Mapping[Part, State]) -> None:
        self._broker, self._run, self._states = broker, run, states

    @classmethod
    async def take(cls, broker: RemoteBroker, run: str, parts: Collection[Part] = PARTS) -> Self:
        """Read the state, except for parts that the broker cannot list, or that the client may not
        change. Raises Unusable."""
        states: dict[Part, State] = {}
        for part in parts:
            control = await broker.connect(None)
            if all(control.supports(*each) for each in part.needs.items()):
                try:
                    states[part] = await part.read(control, broker)
                except TimeoutError:
                    # Kafka does not respond to a client that may not describe SCRAM users. Such a
                    # client cannot create any either, so there is nothing to restore.
                    if part is not SCRAM_USERS:
                        raise
                except _Unreadable as error:
                    if str(error) != DENIED:
                        text = f"its {part.name} cannot be read: {str(error).upper()}"
                        raise Unusable(text) from None
            control.close()
        return cls(broker, run, states)

    async def restore(self) -> list[str]:
        """Restore the state. Return what could not be restored, as lines of text."""
        try:
            control = await self._broker.connect(None)
        except OSError as error:
            names = ", ".join(each.name for each in self._states)
            return [f"{names}: cannot connect: {error.strerror or error or 'no response'}"]
        failures = [await self._restore(control, part) for part in self._states]
        control.close()
        return [each for each in failures if each]

    async def _restore(self, control: AsyncClient, part: Part) -> str:
        remaining: list[Any] = []
        try:
            for _ in range(int(APPLIED_SECONDS / POLL_SECONDS)):
                created, changed = await self._changes(control, part)
                remaining = [*created, *changed]
                if not remaining:
                    return ""
                await part.undo(control, created, changed)
                await asyncio.sleep(POLL_SECONDS)
        except Exception as error:  # any error that an unexpected response causes
            return f"{part.name}: {type(error).__name__}: {error}"
        more = len(remaining) - SHOWN_MAX
        shown = ", ".join(map(str, remaining[:SHOWN_MAX]))
        return f"{part.name}: {shown}" + (f" and {more} more" if more > 0 else "")

    async def _changes(self, control: AsyncClient, part: Part) -> tuple[list[Any], dict[Any, Any]]:
        """Return the keys that were created, and the old values of keys that have changed."""
        before, now = self._states[part], await part.read(control, self._broker)
        created = [key for key in now if key not in before]
        if part.names is not None:
            return [name for name in created if self._run in name or name in part.names], {}
        return created, {k: v for k, v in before.items() if k not in now or now[k] != v}


@asynccontextmanager
async def restored(
    broker: RemoteBroker, run: str, report: Callable[[str], None]
) -> AsyncIterator[None]:
    """At the end, restore the broker as far as its APIs allow. `report` gets each line of
    `Snapshot.restore`."""
    snapshot = await Snapshot.take(broker, run)
    try:
        yield
    finally:
        restoring = asyncio.create_task(snapshot.restore())
        try:
            await asyncio.shield(restoring)
        finally:  # Ctrl-C may cancel the wait above, but it does not cancel `restoring`
            for line in await restoring:
                report(line)
