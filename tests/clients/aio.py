"""The adapter of aiokafka, whose event loop runs in its own thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import BrokerResponseError, CommitFailedError, GroupLoadInProgressError

from .adapter import (
    Admin,
    BrokerError,
    Client,
    Committed,
    Consumer,
    ConsumerSettings,
    Message,
    Partition,
    RebalanceCounter,
    Record,
    TransactionalProducer,
    records_of,
)
from .consumers import until

T = TypeVar("T")
TIMEOUT_SECONDS = 30
POLL_MS = 50


class LoopThread:
    """An event loop that also runs between the calls of a test, as in a service."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka")
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT_SECONDS)

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        async def call() -> T:
            return function(*args, **kwargs)

        return self.run(call())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(RebalanceCounter, ConsumerRebalanceListener):
    pass


class AioConsumer(Consumer):
    def __init__(self, loop: LoopThread, bootstrap: str, settings: ConsumerSettings) -> None:
        self._loop = loop
        self.rebalances = 0
        options = settings.python_options(bootstrap, ASSIGNORS)
        self._consumer = loop.call(AIOKafkaConsumer, **options)
        loop.run(self._consumer.start())

    def subscribe(self, *topics: str) -> None:
        self._loop.call(self._consumer.subscribe, list(topics), listener=Listener(self))

    def subscribe_pattern(self, pattern: str) -> None:
        self._loop.call(self._consumer.subscribe, pattern=pattern)

    def assign(self, *partitions: Partition) -> None:
        self._loop.call(self._consumer.assign, [TopicPartition(*each) for each in partitions])

    def poll(self, max_records: int = 500) -> list[Record]:
        polling = self._consumer.getmany(timeout_ms=POLL_MS, max_records=max_records)
        return records_of(self._loop.run(polling))

    def assignment(self) -> frozenset[Partition]:
        return frozenset(Partition(*partition) for partition in self._consumer.assignment())

    def commit(self, offsets: Mapping[Partition, Committed] | None = None) -> None:
        wanted = None
        if offsets is not None:
            wanted = {
                TopicPartition(*partition): tuple(each) for partition, each in offsets.items()
            }
        try:
            self._loop.run(self._consumer.commit(wanted))
        except (BrokerResponseError, CommitFailedError) as error:
            raise BrokerError(getattr(error, "errno", -1), str(error)) from error

    def committed(self, partition: Partition) -> int | None:
        offset: int | None = self._loop.run(self._consumer.committed(TopicPartition(*partition)))
        return offset

    def seek(self, partition: Partition, offset: int) -> None:
        self._loop.call(self._consumer.seek, TopicPartition(*partition), offset)

    def beginning_offset(self, partition: Partition) -> int:
        found = self._loop.run(self._consumer.beginning_offsets([TopicPartition(*partition)]))
        return int(found[TopicPartition(*partition)])

    def end_offset(self, partition: Partition) -> int:
        found = self._loop.run(self._consumer.end_offsets([TopicPartition(*partition)]))
        return int(found[TopicPartition(*partition)])

    def offset_for_time(self, partition: Partition, timestamp_ms: int) -> int | None:
        key = TopicPartition(*partition)
        found = self._loop.run(self._consumer.offsets_for_times({key: timestamp_ms}))[key]
        return None if found is None else int(found.offset)

    def close(self) -> None:
        self._loop.run(self._consumer.stop())


class AioAdmin(Admin):
    def __init__(self, loop: LoopThread, bootstrap: str) -> None:
        self._loop = loop
        self._admin = loop.call(AIOKafkaAdminClient, bootstrap_servers=bootstrap)
        loop.run(self._admin.start())

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        wanted = NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))
        response = self._loop.run(self._admin.create_topics([wanted]))
        _check(response.topic_errors[0][1])

    def delete_topic(self, topic: str) -> None:
        response = self._loop.run(self._admin.delete_topics([topic]))
        _check(response.topic_error_codes[0][1])

    def topics(self) -> frozenset[str]:
        return frozenset(self._loop.run(self._admin.list_topics()))

    def partition_count(self, topic: str) -> int:
        # Uses the metadata of all topics, because aiokafka's request for one topic would create it.
        for described in self._loop.run(self._admin.describe_topics()):
            if described["topic"] == topic:
                return len(described["partitions"])
        raise BrokerError(3)

    def add_partitions(self, topic: str, total: int) -> None:
        try:
            self._loop.run(self._admin.create_partitions({topic: NewPartitions(total)}))
        except BrokerResponseError as error:
            raise BrokerError(error.errno, str(error)) from error

    def delete_records(self, partition: Partition, before_offset: int) -> int:
        wanted = {TopicPartition(*partition): RecordsToDelete(before_offset=before_offset)}
        try:
            (low_watermark,) = self._loop.run(self._admin.delete_records(wanted)).values()
        except BrokerResponseError as error:
            raise BrokerError(error.errno, str(error)) from error
        return int(low_watermark)

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._configs(ConfigResourceType.TOPIC, topic)

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        (response,) = self._loop.run(self._admin.alter_configs([resource]))
        _check(response.resources[0][0])

    def broker_configs(self) -> dict[str, str | None]:
        cluster = self._loop.run(self._admin.describe_cluster())
        return self._configs(ConfigResourceType.BROKER, str(cluster["brokers"][0]["node_id"]))

    def _configs(self, kind: Any, name: str) -> dict[str, str | None]:
        (response,) = self._loop.run(self._admin.describe_configs([ConfigResource(kind, name)]))
        code, _text, _kind, _name, entries = response.resources[0]
        _check(code)
        return {entry[0]: entry[1] for entry in entries}

    def group_offsets(self, group_id: str) -> dict[Partition, Committed]:
        # aiokafka ignores COORDINATOR_LOAD_IN_PROGRESS in the response to OffsetFetch, but not when
        # it lists groups.
        until(self._is_loaded, "all coordinators are loaded")
        offsets = self._loop.run(self._admin.list_consumer_group_offsets(group_id))
        return {
            Partition(*partition): Committed(o.offset, o.metadata)
            for partition, o in offsets.items()
        }

    def _is_loaded(self) -> bool:
        try:
            self._loop.run(self._admin.list_consumer_groups())
        except GroupLoadInProgressError:
            return False
        return True

    def brokers(self) -> list[tuple[str, int]]:
        cluster = self._loop.run(self._admin.describe_cluster())
        return [(broker["host"], broker["port"]) for broker in cluster["brokers"]]

    def close(self) -> None:
        self._loop.run(self._admin.close())


class AioTransactionalProducer(TransactionalProducer):
    def __init__(
        self, loop: LoopThread, bootstrap: str, transactional_id: str, timeout_ms: int
    ) -> None:
        self._loop = loop
        self._producer = loop.call(
            AIOKafkaProducer,
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            retry_backoff_ms=20,
        )

    def start(self) -> None:
        self._loop.run(self._producer.start())

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        self._loop.run(self._producer.send_and_wait(topic, value, key, partition=0))

    def send_offset(self, topic: str, offset: int, group_id: str) -> None:
        offsets = {TopicPartition(topic, 0): offset}
        self._loop.run(self._producer.send_offsets_to_transaction(offsets, group_id))

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.run(self._producer.stop())


def _check(code: int) -> None:
    if code:
        raise BrokerError(code)


class AioKafka(Client):
    name = "aiokafka"
    codecs = ("gzip", "snappy", "lz4", "zstd")
    creates_topics = "always"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._loop = LoopThread()

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
            sent = [
                await producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    partition=message.partition,
                    timestamp_ms=message.timestamp_ms,
                    headers=list(message.headers) or None,
                )
                for message in messages
            ]
            placed = await asyncio.gather(*sent)
        finally:
            await producer.stop()
        return [(at.partition, at.offset) for at in placed]

    def transactional_producer(
        self, transactional_id: str, timeout_ms: int
    ) -> TransactionalProducer:
        return AioTransactionalProducer(self._loop, self.bootstrap, transactional_id, timeout_ms)

    def consumer(self, settings: ConsumerSettings) -> Consumer:
        return AioConsumer(self._loop, self.bootstrap, settings)

    def admin(self) -> Admin:
        return AioAdmin(self._loop, self.bootstrap)

    def close(self) -> None:
        self._loop.close()
