"""One broker's topics without a socket: requests are kio messages, answers went through our own
writer and kio's reader, the disk is in memory, time and the loop's turns are the test's."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kio.serial import entity_reader
from kohort.broker.build import group_config
from kohort.broker.cluster import Cluster
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.fetch_sessions import FetchSessionCache
from kohort.broker.request import RequestContext, Routes
from kohort.broker.scheduler import Scheduler
from kohort.log.group_commit import Durability, GroupCommit
from kohort.log.log import Log
from kohort.protocol.apis import APIS, Api
from kohort.protocol.messages import request_module, response_module
from kohort.testing.faulty_files import FaultyFiles
from kohort.topics.configs import Configs
from kohort.topics.registry import Topics, TopicsView
from kohort.topics.topic import Nodes, Topic
from support.log import NewRecord, build, sync_each
from support.runtime import HandTimer, run_now

FOLDER = Path("/data")
NOW_MS = 1_700_000_000_000
BY_NAME = {api.name: api for api in APIS}
Settled = Callable[[Sequence[OSError | None]], None]


def milliseconds(count: int) -> timedelta:
    return timedelta(milliseconds=count)


def batch(*values: bytes, at_ms: int = NOW_MS, key: bytes | None = b"k") -> bytes:
    """What a producer sends: one batch with base offset 0."""
    return build([NewRecord(key, value, at_ms) for value in values], base_offset=0)


class Asked:
    """A request on its way; `answer` is None until there is one."""

    def __init__(self, api: Api, version: int) -> None:
        self.client_host = "/10.0.0.5"
        self.client_software: str | None = None
        self.is_disconnected = False
        self.is_held = False
        self.ended_because = ""
        self.call: RequestContext | None = None
        self._api, self._version = api, version

    def response_ready(self, call: RequestContext) -> None:
        self.call = call

    def mute(self, call: RequestContext) -> None:
        self.is_held = True

    def close_after_responses(self, reason: str) -> None:
        self.ended_because = reason

    @property
    def is_over(self) -> bool:
        return self.call is not None

    @property
    def answer(self) -> Any:
        if self.call is None or not (frame := self.call.response_bytes):
            return None
        module = response_module(self._api.key, self._version)
        entity = getattr(module, f"{self._api.name}Response")
        read_header = entity_reader(entity.__header_schema__)
        _, size = read_header(frame, 4)
        message, _ = entity_reader(entity)(frame, 4 + size)
        return message


class World:
    """`turn()` is one turn of the loop: what was gathered is written, synced and told."""

    def __init__(
        self,
        config: dict[str, str] | None = None,
        *,
        durability: Durability = "fsync",
        files: FaultyFiles | None = None,
    ) -> None:
        self.files = files or FaultyFiles()
        self.now_ms = NOW_MS
        self.config = BrokerConfig(config)
        self.timers: list[HandTimer] = []
        self._turns: list[Callable[[], None]] = []
        self._ids = 0
        self._routes = Routes()
        self.group_commit = GroupCommit(
            durability=durability, call_soon=self._turns.append, sync_all=self._sync
        )
        self.configs = Configs(self.config, self.config.node_id)
        self.scheduler = Scheduler(self._turns.append, run_now, slice_seconds=0)
        self.files.make_folder(FOLDER)
        self.topics = Topics(
            folder=FOLDER,
            files=self.files,
            group_commit=self.group_commit,
            configs=self.configs,
            nodes=Nodes([1]),
            new_id=self._new_id,
            now_ms=lambda: self.now_ms,
            call_soon=self.scheduler.call,
        )
        cluster = SimpleNamespace(id="kqTQaMhSSk2QIGlhVrdiyw", controller_id=1)
        self.node: Any = SimpleNamespace(
            node_id=1,
            cluster=cluster,
            address=("broker.test", 9092),
            config=self.config,
            configs=self.configs,
            group_config=group_config(self.config),
            clock=SimpleNamespace(now_ms=lambda: self.now_ms),
            timers=SimpleNamespace(call_at=self._call_at),
            client_timers=SimpleNamespace(call_at=self._call_at, now_ms=lambda: self.now_ms),
            group_commit=self.group_commit,
            topics=self.topics,
            view=TopicsView(self.topics),
            fetch_sessions=FetchSessionCache(8, Random(0).randrange),
        )
        cluster.up = [self.node]

    # --- the world's side

    def _new_id(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids + (NOW_MS << 64))

    def _call_at(self, deadline_ms: int, callback: Callable[[], None]) -> HandTimer:
        self.timers.append(HandTimer(deadline_ms, callback))
        return self.timers[-1]

    def _sync(self, logs: Sequence[Log], done: Settled) -> None:
        self._turns.append(partial(done, sync_each(logs)))

    def turn(self) -> None:
        while self._turns:
            self._turns.pop(0)()

    def pass_time(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        for timer in [each for each in self.timers if each.deadline_ms <= self.now_ms]:
            self.timers.remove(timer)
            if timer.callback is not None:
                timer.callback()

    def restarted(self, durability: Durability = "fsync") -> "World":
        """Another broker on the same disk."""
        self.turn()
        return World(durability=durability, files=self.files)

    # --- the client's side

    def send(self, name: str, version: int, /, **fields: Any) -> Asked:
        api = BY_NAME[name]
        module = request_module(api.key, version)
        request = getattr(module, f"{name}Request")(**fields)
        asked = Asked(api, version)
        route = self._routes.find(api.key, version)
        asked.call = None
        call = RequestContext(asked, route, (7,), "tester", request)
        route.handle(call, self.node)
        self.last_call = call
        return asked

    def ask(self, name: str, version: int, /, **fields: Any) -> Any:
        """The answer, after the loop had its turn."""
        asked = self.send(name, version, **fields)
        self.turn()
        assert asked.answer is not None, f"{name} has no answer yet"
        return asked.answer

    def part(self, api: str, version: int, part: str, /, **fields: Any) -> Any:
        """A nested class of a request, by its name in Kafka's schema."""
        return getattr(request_module(BY_NAME[api].key, version), part)(**fields)

    def make(self, name: str, partitions: int = 1, **overrides: str) -> Topic:
        configs = {key.replace("_", "."): value for key, value in overrides.items()}
        topic = self.topics.create(name, partitions, configs)
        self.turn()
        return topic

    def produce(self, topic: str, data: bytes | None, partition: int = 0, **how: Any) -> Any:
        """The partition's part of the answer."""
        version = how.pop("version", 12)
        asked = self.send_produce(topic, {partition: data}, version=version, **how)
        self.turn()
        return asked.answer.responses[0].partition_responses[0]

    def send_produce(
        self,
        topic: Any,
        data: dict[int, bytes | None],
        *,
        version: int = 12,
        acks: int = -1,
        transactional_id: str | None = None,
    ) -> Asked:
        part = partial(self.part, "Produce", version)
        named = {"topic_id": topic} if version >= 13 else {"name": topic}
        partitions = tuple(
            part("PartitionProduceData", index=index, records=records)
            for index, records in data.items()
        )
        return self.send(
            "Produce",
            version,
            transactional_id=transactional_id,
            acks=acks,
            timeout=milliseconds(1000),
            topic_data=(part("TopicProduceData", partition_data=partitions, **named),),
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
        **fields: Any,
    ) -> Asked:
        part = partial(self.part, "Fetch", version)
        named = {"topic_id": topic} if version >= 13 else {"topic": topic}
        partitions = tuple(
            part(
                "FetchPartition",
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
                **fields,
            )
            for index, offset in offsets.items()
        )
        extra: dict[str, Any] = {} if version >= 15 else {"replica_id": -1}
        if version >= 7:
            extra |= {"forgotten_topics_data": ()}
            extra |= {"session_id": session[0], "session_epoch": session[1]}
        return self.send(
            "Fetch",
            version,
            max_wait=milliseconds(max_wait_ms),
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            topics=(part("FetchTopic", partitions=partitions, **named),),
            **extra,
        )

    def fetch(self, topic: Any, offset: int = 0, partition: int = 0, **how: Any) -> Any:
        """The partition's part of an answer that comes at once."""
        asked = self.send_fetch(topic, {partition: offset}, **{"max_wait_ms": 0, **how})
        return asked.answer.responses[0].partitions[0]


def three_nodes() -> World:
    """Nodes 1, 2 and 3 lead t-0, t-1 and t-2; requests are asked of node 1."""
    world = World()
    world.topics.nodes = Nodes([1, 2, 3])
    cluster = Cluster("kqTQaMhSSk2QIGlhVrdiyw", world.topics, world.scheduler)
    world.node.cluster = cluster
    for node_id in (1, 2, 3):
        fields = {**vars(world.node), "node_id": node_id, "address": ("node.test", node_id)}
        fields["configs"] = world.configs.at(node_id)
        cluster.nodes[node_id] = SimpleNamespace(**fields)  # type: ignore[assignment]
    world.make("t", 3)
    return world
