"""The adapter of aiokafka, whose event loop runs in its own thread."""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import BrokerResponseError, CommitFailedError, GroupLoadInProgressError
from kohort.testing.loop_thread import LoopThread

from .adapter import (
    Admin,
    BrokerError,
    Client,
    Committed,
    ConsumerSettings,
    GroupDescription,
    Message,
    Partition,
    PythonConsumer,
    RebalanceListener,
    Record,
    TransactionalProducer,
    committed_of,
    records_of,
)
from .consumers import until

POLL_MS = 50


class Loop(LoopThread):
    """An event loop that also runs between the calls of a test, as in a service."""

    def invoke(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Return the result of a function or coroutine function of the library."""

        async def call() -> Any:
            result = function(*args, **options)
            return await result if inspect.isawaitable(result) else result

        return self.run(call())


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(RebalanceListener, ConsumerRebalanceListener):
    pass


class AioConsumer(PythonConsumer):
    partition_type = TopicPartition
    listener_type = Listener

    def __init__(self, loop: Loop, bootstrap: str, settings: ConsumerSettings) -> None:
        super().__init__()
        self._loop = loop
        options = settings.python_options(bootstrap, ASSIGNORS)
        self._consumer = loop.invoke(AIOKafkaConsumer, **options)
        self.call("start")

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        return self._loop.invoke(getattr(self._consumer, method), *args, **options)

    def subscribe_pattern(self, pattern: str) -> None:
        self.call("subscribe", pattern=pattern)

    def poll(self, max_records: int = 500) -> list[Record]:
        return records_of(self.call("getmany", timeout_ms=POLL_MS, max_records=max_records))

    def commit(self, offsets: Mapping[Partition, Committed] | None = None) -> None:
        wanted = None
        if offsets is not None:
            wanted = {self.key(partition): tuple(each) for partition, each in offsets.items()}
        try:
            self.call("commit", wanted)
        except (BrokerResponseError, CommitFailedError) as error:
            raise BrokerError(getattr(error, "errno", -1), str(error)) from error

    def close(self) -> None:
        self.call("stop")


class AioAdmin(Admin):
    delete_group = None

    def __init__(self, loop: Loop, bootstrap: str) -> None:
        self._loop = loop
        self._admin = loop.invoke(AIOKafkaAdminClient, bootstrap_servers=bootstrap)
        self._call("start")

    def _call(self, method: str, *args: Any) -> Any:
        try:
            return self._loop.invoke(getattr(self._admin, method), *args)
        except BrokerResponseError as error:
            raise BrokerError(error.errno, str(error)) from error

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        wanted = NewTopic(topic, partitions, len(self.brokers()), topic_configs=dict(configs or {}))
        response = self._call("create_topics", [wanted])
        _check(response.topic_errors[0][1])

    def delete_topic(self, topic: str) -> None:
        response = self._call("delete_topics", [topic])
        _check(response.topic_error_codes[0][1])

    def topics(self) -> frozenset[str]:
        return frozenset(self._call("list_topics"))

    def partition_count(self, topic: str) -> int:
        # Uses the metadata of all topics, because aiokafka's request for one topic would create it.
        for described in self._call("describe_topics"):
            if described["topic"] == topic:
                return len(described["partitions"])
        raise BrokerError(3)

    def add_partitions(self, topic: str, total: int) -> None:
        self._call("create_partitions", {topic: NewPartitions(total)})

    def delete_records(self, partition: Partition, before_offset: int) -> int:
        wanted = {TopicPartition(*partition): RecordsToDelete(before_offset=before_offset)}
        (low_watermark,) = self._call("delete_records", wanted).values()
        return int(low_watermark)

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._configs(ConfigResourceType.TOPIC, topic)

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        (response,) = self._call("alter_configs", [resource])
        _check(response.resources[0][0])

    def broker_configs(self) -> dict[str, str | None]:
        cluster = self._call("describe_cluster")
        return self._configs(ConfigResourceType.BROKER, str(cluster["brokers"][0]["node_id"]))

    def _configs(self, kind: Any, name: str) -> dict[str, str | None]:
        (response,) = self._call("describe_configs", [ConfigResource(kind, name)])
        code, _text, _kind, _name, entries = response.resources[0]
        _check(code)
        return {entry[0]: entry[1] for entry in entries}

    def groups(self) -> set[str]:
        return {group[0] for group in self._call("list_consumer_groups")}

    def describe_group(self, group_id: str) -> GroupDescription:
        (response,) = self._call("describe_consumer_groups", [group_id])
        ((_error, _group, state, _type, protocol, members, *_),) = response.groups
        return GroupDescription(state, protocol, len(members))

    def group_offsets(self, group_id: str) -> dict[Partition, Committed]:
        # aiokafka ignores COORDINATOR_LOAD_IN_PROGRESS in the response to OffsetFetch, but not when
        # it lists groups.
        until(self._is_loaded, "all coordinators are loaded")
        return committed_of(self._call("list_consumer_group_offsets", group_id))

    def _is_loaded(self) -> bool:
        try:
            self._call("list_consumer_groups")
        except BrokerError as error:
            if error.code != GroupLoadInProgressError.errno:
                raise
            return False
        return True

    def brokers(self) -> list[tuple[str, int]]:
        cluster = self._call("describe_cluster")
        return [(broker["host"], broker["port"]) for broker in cluster["brokers"]]

    def close(self) -> None:
        self._call("close")


class AioTransactionalProducer(TransactionalProducer):
    def __init__(self, loop: Loop, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._loop = loop
        self._producer = producer = loop.invoke(
            AIOKafkaProducer,
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            retry_backoff_ms=20,
        )
        self.start = partial(loop.invoke, producer.start)
        self.begin = partial(loop.invoke, producer.begin_transaction)
        self.commit = partial(loop.invoke, producer.commit_transaction)
        self.abort = partial(loop.invoke, producer.abort_transaction)
        self.close = partial(loop.invoke, producer.stop)

    def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        self._loop.invoke(self._producer.send_and_wait, topic, value, key, partition=0)

    def send_offset(self, topic: str, offset: int, group_id: str) -> None:
        offsets = {TopicPartition(topic, 0): offset}
        self._loop.invoke(self._producer.send_offsets_to_transaction, offsets, group_id)


def _check(code: int) -> None:
    if code:
        raise BrokerError(code)


class AioKafka(Client):
    name = "aiokafka"
    codecs = ("gzip", "snappy", "lz4", "zstd")
    consumer_type = AioConsumer
    admin_type = AioAdmin
    producer_type = AioTransactionalProducer

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._loop = Loop("aiokafka").__enter__()
        self.connection = self._loop, bootstrap

    def produce(
        self,
        topic: str,
        messages: Iterable[Message],
        *,
        codec: str | None = None,
        idempotent: bool = False,
    ) -> list[tuple[int, int]]:
        return self._loop.run(self._produce(topic, messages, codec, idempotent))

    async def _produce(
        self, topic: str, messages: Iterable[Message], codec: str | None, idempotent: bool
    ) -> list[tuple[int, int]]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all",
            compression_type=codec,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        await producer.start()
        try:
            sent = [await producer.send(topic, **each.python_options()) for each in messages]
            placed = await asyncio.gather(*sent)
        finally:
            await producer.stop()
        return [(at.partition, at.offset) for at in placed]

    def close(self) -> None:
        self._loop.__exit__()
