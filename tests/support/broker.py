"""One broker without a socket or an event loop: requests go to the handlers, responses are encoded
by us and decoded by kio, the disk is in memory, and the test advances the clock and runs
callbacks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.event_loop.scheduler import SLICE_SECONDS, Scheduler
from kohort.broker.maintenance import Maintenance
from kohort.broker.network.request import RequestContext, Routes
from kohort.broker.security.metering import metered
from kohort.broker.security.principal import ANONYMOUS
from kohort.broker.security.session import ClientSession
from kohort.conformance.wire import decode_frame, message_type, request_of
from kohort.log.group_commit import Durability
from kohort.log.log import Log
from kohort.log.write_ahead import WriteAheadLog
from kohort.protocol.apis import BY_KEY
from kohort.testing.faults.files import FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from kohort.topics.topic import Topic
from support.log import NewRecord, build, content, sync_each
from support.runtime import DATA, NOW_MS, ManualClock, ManualTimers, run_now
from support.virtual_broker import LISTENER, VirtualBroker

APIS = {api.name: api for api in BY_KEY.values()}
OFFSETS_PARTITIONS = 5
DEFAULTS = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "group.initial.rebalance.delay.ms": "0",
    # Tests do not retry because their request created a topic.
    "kohort.auto.create.immediate": "true",
}


def batch(*values: bytes, at_ms: int = NOW_MS, key: bytes | None = b"k") -> bytes:
    """A batch as producers send it, with base offset 0."""
    return build([NewRecord(key, value, at_ms) for value in values], base_offset=0)


class PendingRequest:
    """A request and its channel. `response` is None until the broker has responded."""

    def __init__(self, response_type: Any) -> None:
        self.client = ClientSession(LISTENER, "/10.0.0.5")
        self.is_disconnected = False
        self.is_muted = False
        self.close_reason = ""
        self.throttled_ms = 0
        self.context: RequestContext | None = None
        self._response_type = response_type

    def response_ready(self, context: RequestContext) -> None:
        self.context = context

    def mute(self, _context: RequestContext) -> None:
        self.is_muted = True

    def throttle(self, ms: int) -> None:
        self.throttled_ms = ms

    def close_after_responses(self, reason: str) -> None:
        self.close_reason = reason

    @property
    def is_done(self) -> bool:
        return self.context is not None

    @property
    def response(self) -> Any:
        if self.context is None or not (frame := self.context.response_bytes):
            return None
        return decode_frame(frame[4:], self._response_type)[1]


class BrokerHarness(VirtualBroker):
    """A broker, to which requests go at `node`, the first one by default.

    `call` sends a request and runs the callbacks; `send` leaves that to the test (`run_loop`). A
    request without a version has the newest one, so that a new version is tested at once.
    Requests are plain values, as in support/wire.py.
    """

    def __init__(
        self,
        config: dict[str, str] | None = None,
        *,
        durability: Durability = "fsync",
        files: FaultyFiles | None = None,
        nodes: int = 1,
        has_write_ahead: bool = False,
    ) -> None:
        self.principal = ANONYMOUS
        self.callbacks: list[Callable[[], None]] = []
        self._ids = itertools.count(1 + (NOW_MS << 64))
        self._routes = Routes()
        files = files or FaultyFiles()
        files.make_folder(DATA)
        super().__init__(
            DATA,
            files,
            ManualTimers(ManualClock()),
            nodes=nodes,
            config=BrokerConfig({**DEFAULTS, **(config or {})}),
            offsets_partitions=OFFSETS_PARTITIONS,
            durability=durability,
            write_ahead=WriteAheadLog(DATA, files) if has_write_ahead else None,
        )
        self.configs = self.topics.configs
        self.node = self.cluster.nodes[1]

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def sync_all(
        self, syncs: Sequence[Callable[[], None]], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        self.callbacks.append(partial(done, sync_each(syncs)))

    def new_id(self) -> UUID:
        return UUID(int=next(self._ids))

    def new_member_id(self) -> str:
        return "id"

    @property
    def now_ms(self) -> int:
        return self.clock.ms

    def run_loop(self) -> None:
        """Run callbacks until there are none."""
        while self.callbacks:
            self.callbacks.pop(0)()

    def advance(self, ms: int) -> None:
        self.timers.advance(ms)

    def restart(self, durability: Durability = "fsync", nodes: int | None = None) -> BrokerHarness:
        """Return another broker on the same disk, by default with as many nodes."""
        self.run_loop()
        nodes = nodes or len(self.topics.nodes.ids)
        return BrokerHarness(durability=durability, files=self.files, nodes=nodes)

    def load(self) -> None:
        """Load the coordinators with what is stored, as Broker does."""
        for node in self.cluster.nodes.values():
            for name, runtime in (
                (OFFSETS_TOPIC, node.coordinators),
                (TRANSACTION_TOPIC, node.transactions),
            ):
                topic = self.topics.get(name)
                names = () if topic is None else [each.name for each in topic.partitions]
                runtime.load(n for n, each in enumerate(names) if self.files.exists(DATA / each))
        self.run_loop()

    def send(self, api: str, version: int | None = None, /, **values: Any) -> PendingRequest:
        if version is None:
            version = APIS[api].max_version
        pending = PendingRequest(message_type(api, version, "Response"))
        pending.client.principal = self.principal
        request = request_of(api, version, values)
        route = self._routes.find(APIS[api].key, version)
        if self.node.security.quotas.is_active:
            route = metered(route)
        self.last_context = RequestContext(pending, route, (7,), "tester", request)
        route.handle(self.last_context, self.node)
        return pending

    def call(self, api: str, version: int | None = None, /, **values: Any) -> Any:
        pending = self.send(api, version, **values)
        self.run_loop()
        assert pending.response is not None, f"no response to {api}: {pending.close_reason}"
        return pending.response

    # --- topics and records

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> Topic:
        topic = self.topics.create(
            name, partitions, {key.replace("_", "."): value for key, value in configs.items()}
        )
        self.run_loop()
        return topic

    def topic(self, name: str = "orders") -> Topic:
        topic = self.topics.get(name)
        assert topic is not None
        return topic

    def log(self, topic: str = "orders") -> Log:
        """The log of the topic's first partition."""
        return self.topic(topic).partitions[0].log

    def produce(self, topic: Any, data: bytes | None, partition: int = 0, **values: Any) -> Any:
        """Produce to one partition; return that partition of the response."""
        pending = self.send_produce(topic, {partition: data}, **values)
        self.run_loop()
        return pending.response.responses[0].partition_responses[0]

    def send_produce(
        self,
        topic: Any,
        data: dict[int, bytes | None],
        *,
        version: int = 12,
        acks: int = -1,
        transactional_id: str | None = None,
    ) -> PendingRequest:
        """`topic`: its name, or its id from version 13 on."""
        partitions = [{"index": index, "records": records} for index, records in data.items()]
        return self.send(
            "Produce",
            version,
            transactional_id=transactional_id,
            acks=acks,
            timeout=1000,
            topic_data=[
                {"topic_id" if version >= 13 else "name": topic, "partition_data": partitions}
            ],
        )

    def send_fetch(
        self,
        topic: Any,
        offsets: dict[int, int],
        *,
        version: int = 12,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        max_bytes: int = 2**31 - 1,
        partition_max_bytes: int = 2**20,
        isolation_level: int = 0,
        session: tuple[int, int] = (0, -1),
        **partition_values: Any,
    ) -> PendingRequest:
        """`topic`: its name, or its id from version 13 on."""
        partitions = [
            {
                "partition": index,
                "fetch_offset": offset,
                "partition_max_bytes": partition_max_bytes,
                **partition_values,
            }
            for index, offset in offsets.items()
        ]
        return self.send(
            "Fetch",
            version,
            max_wait=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_id=session[0],
            session_epoch=session[1],
            topics=[{"topic_id" if version >= 13 else "topic": topic, "partitions": partitions}],
        )

    def fetch(self, topic: Any, offset: int = 0, partition: int = 0, **values: Any) -> Any:
        """Return the partition of a FetchResponse that does not wait for records."""
        pending = self.send_fetch(topic, {partition: offset}, **{"max_wait_ms": 0, **values})
        return pending.response.responses[0].partitions[0]

    # --- groups

    def commit(self, group_id: str, topic: str, *partitions: int) -> None:
        """Commit offset 7 without a member id."""
        entries = [{"partition_index": n, "committed_offset": 7} for n in partitions]
        topics = [{"name": topic, "partitions": entries}]
        response = self.call("OffsetCommit", 9, group_id=group_id, topics=topics)
        assert not any(p.error_code for p in response.topics[0].partitions)

    def join(self, group_id: str) -> None:
        """Create a group with one member, `tester-id`, which leads and has not synced."""
        self.send(
            "JoinGroup",
            3,
            group_id=group_id,
            session_timeout=10_000,
            rebalance_timeout=60_000,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"subscription"}],
        )
        self.run_loop()
        self.advance(0)
        self.run_loop()

    def sync(self, group_id: str) -> None:
        assignments = [{"member_id": "tester-id", "assignment": b"assigned"}]
        member = {"group_id": group_id, "generation_id": 1, "member_id": "tester-id"}
        assert not self.call("SyncGroup", 2, **member, assignments=assignments).error_code


# --- configurations

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def broker_with_configs() -> BrokerHarness:
    broker = BrokerHarness({"log.retention.hours": "1", "message.max.bytes": "5000"})
    broker.create_topic("orders", retention_ms="77")
    return broker


def describe_configs(
    broker: BrokerHarness,
    resource_type: int,
    name: str,
    *keys: str,
    version: int = 4,
    documentation: bool = False,
    synonyms: bool = True,
) -> Any:
    resource = {"resource_type": resource_type, "resource_name": name}
    response = broker.call(
        "DescribeConfigs",
        version,
        resources=[{**resource, "configuration_keys": keys or None}],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    return response.results[0]


def configs_by_name(result: Any) -> dict[str, Any]:
    return {config.name: config for config in result.configs}


def incremental_alter_configs(
    broker: BrokerHarness,
    resource_type: int,
    name: str,
    *changes: tuple[str, int, str | None],
    version: int = 1,
    validate_only: bool = False,
) -> Any:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": configs}
    response = broker.call(
        "IncrementalAlterConfigs",
        version,
        resources=[resource],
        validate_only=validate_only,
    )
    return response.responses[0]


def alter_configs(
    broker: BrokerHarness,
    resource_type: int,
    name: str,
    *configs: tuple[str, str | None],
    version: int = 2,
) -> Any:
    values = [{"name": key, "value": value} for key, value in configs]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": values}
    return broker.call("AlterConfigs", version, resources=[resource]).responses[0]


# --- maintenance

DAY_MS = 24 * 3600 * 1000
BACKOFF_MS = 15_000
CHECK_MS = 300_000
LARGE_VALUE = b"x" * 300 * 1024  # the fourth batch rolls a segment of 1 MiB


class MaintenanceHarness(BrokerHarness):
    """A broker with maintenance. Work for threads runs as a separate callback."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.slices = 0
        ticks = itertools.count()
        self.scheduler = Scheduler(
            self._call_soon,
            lambda work, done: self.callbacks.append(partial(run_now, work, done)),
            seconds=lambda: next(ticks) * SLICE_SECONDS / 2,
        )
        self.maintenance = Maintenance(self.node, self.scheduler)

    def _call_soon(self, callback: Callable[[], None]) -> None:
        self.slices += 1
        self.callbacks.append(callback)

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> Topic:
        return super().create_topic(name, partitions, segment_bytes=str(1024 * 1024), **configs)

    def fill(self, count: int, keys: int = 2, topic: str = "orders") -> None:
        for number in range(count):
            data = batch(LARGE_VALUE, at_ms=self.now_ms, key=b"key %d" % (number % keys))
            assert not self.produce(topic, data).error_code

    def advance_and_run(self, ms: int = BACKOFF_MS) -> None:
        self.advance(ms)
        self.run_loop()
        while any(timer.deadline_ms <= self.now_ms for timer in self.timers.timers):
            self.advance(0)
            self.run_loop()

    def offsets(self, topic: str = "orders") -> list[int]:
        """The offsets of the records in the topic's first partition."""
        return [offset for offset, _, _ in content(self.log(topic))]

    def checkpoint(self, name: str) -> str:
        return self.files.read_bytes(DATA / name).decode()
