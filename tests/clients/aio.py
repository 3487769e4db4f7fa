"""aiokafka behind the common shape; its loop has a thread of its own, so stories are plain code."""

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterable, Mapping
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
    Client,
    Committed,
    Consumer,
    ConsumerSettings,
    Counting,
    Message,
    Place,
    Record,
    RefusedError,
)
from .stories import until

T = TypeVar("T")
ANSWER_S = 30
POLL_MS = 50


class LoopThread:
    """An event loop that goes on between the calls of a story, as a service's would."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_S)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(Counting, ConsumerRebalanceListener):
    pass


class AioConsumer(Consumer):
    def __init__(self, loop: LoopThread, bootstrap: str, settings: ConsumerSettings) -> None:
        self._loop = loop
        self._consumer = loop.run(self._start(bootstrap, settings))

    @staticmethod
    async def _start(bootstrap: str, settings: ConsumerSettings) -> AIOKafkaConsumer:
        options: dict[str, Any] = {}
        strategies = settings.strategies or tuple(ASSIGNORS[name] for name in settings.assignors)
        if strategies:
            options["partition_assignment_strategy"] = strategies
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=settings.group_id,
            group_instance_id=settings.group_instance_id,
            enable_auto_commit=settings.auto_commit,
            auto_commit_interval_ms=settings.auto_commit_interval_ms,
            auto_offset_reset=settings.auto_offset_reset,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
            max_poll_interval_ms=settings.max_poll_interval_ms,
            fetch_max_wait_ms=settings.fetch_max_wait_ms,
            metadata_max_age_ms=settings.metadata_max_age_ms,
            **options,
        )
        await consumer.start()
        return consumer

    def subscribe(self, *topics: str) -> None:
        async def subscribe() -> None:
            self._consumer.subscribe(list(topics), listener=Listener(self))

        self._loop.run(subscribe())

    def subscribe_pattern(self, pattern: str) -> None:
        async def subscribe() -> None:
            self._consumer.subscribe(pattern=re.compile(pattern).pattern)

        self._loop.run(subscribe())

    def assign(self, *places: Place) -> None:
        async def assign() -> None:
            self._consumer.assign([TopicPartition(*place) for place in places])

        self._loop.run(assign())

    def poll(self, max_records: int = 500) -> list[Record]:
        fetched = self._loop.run(
            self._consumer.getmany(timeout_ms=POLL_MS, max_records=max_records)
        )
        return [
            Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
            for records in fetched.values()
            for r in records
        ]

    def assignment(self) -> frozenset[Place]:
        return frozenset(Place(*place) for place in self._consumer.assignment())

    def commit(self, offsets: Mapping[Place, Committed] | None = None) -> None:
        wanted = None
        if offsets is not None:
            wanted = {TopicPartition(*place): tuple(said) for place, said in offsets.items()}
        try:
            self._loop.run(self._consumer.commit(wanted))
        except (BrokerResponseError, CommitFailedError) as error:
            raise RefusedError(getattr(error, "errno", -1), str(error)) from error

    def committed(self, place: Place) -> int | None:
        offset: int | None = self._loop.run(self._consumer.committed(TopicPartition(*place)))
        return offset

    def seek(self, place: Place, offset: int) -> None:
        async def seek() -> None:
            self._consumer.seek(TopicPartition(*place), offset)

        self._loop.run(seek())

    def beginning_offset(self, place: Place) -> int:
        found = self._loop.run(self._consumer.beginning_offsets([TopicPartition(*place)]))
        return int(found[TopicPartition(*place)])

    def end_offset(self, place: Place) -> int:
        found = self._loop.run(self._consumer.end_offsets([TopicPartition(*place)]))
        return int(found[TopicPartition(*place)])

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        asked = {TopicPartition(*place): timestamp_ms}
        answer = self._loop.run(self._consumer.offsets_for_times(asked))[TopicPartition(*place)]
        return None if answer is None else int(answer.offset)

    def close(self) -> None:
        self._loop.run(self._consumer.stop())


class AioAdmin(Admin):
    def __init__(self, loop: LoopThread, bootstrap: str) -> None:
        self._loop = loop
        self._admin = loop.run(self._start(bootstrap))

    @staticmethod
    async def _start(bootstrap: str) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        return admin

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        wanted = NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))
        answer = self._loop.run(self._admin.create_topics([wanted]))
        _check(answer.topic_errors[0][1])

    def delete_topic(self, topic: str) -> None:
        answer = self._loop.run(self._admin.delete_topics([topic]))
        _check(answer.topic_error_codes[0][1])

    def topics(self) -> frozenset[str]:
        return frozenset(self._loop.run(self._admin.list_topics()))

    def partition_count(self, topic: str) -> int:
        # By the metadata of all topics: asking for one would create it (aiokafka's choice).
        for described in self._loop.run(self._admin.describe_topics()):
            if described["topic"] == topic:
                return len(described["partitions"])
        raise RefusedError(3)

    def add_partitions(self, topic: str, total: int) -> None:
        try:
            self._loop.run(self._admin.create_partitions({topic: NewPartitions(total)}))
        except BrokerResponseError as error:
            raise RefusedError(error.errno, str(error)) from error

    def delete_records(self, place: Place, before_offset: int) -> int:
        wanted = {TopicPartition(*place): RecordsToDelete(before_offset=before_offset)}
        try:
            (low_watermark,) = self._loop.run(self._admin.delete_records(wanted)).values()
        except BrokerResponseError as error:
            raise RefusedError(error.errno, str(error)) from error
        return int(low_watermark)

    def topic_configs(self, topic: str) -> dict[str, str | None]:
        return self._configs(ConfigResourceType.TOPIC, topic)

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        (answer,) = self._loop.run(self._admin.alter_configs([resource]))
        _check(answer.resources[0][0])

    def broker_configs(self) -> dict[str, str | None]:
        cluster = self._loop.run(self._admin.describe_cluster())
        return self._configs(ConfigResourceType.BROKER, str(cluster["brokers"][0]["node_id"]))

    def _configs(self, kind: Any, name: str) -> dict[str, str | None]:
        (answer,) = self._loop.run(self._admin.describe_configs([ConfigResource(kind, name)]))
        code, _text, _kind, _name, entries = answer.resources[0]
        _check(code)
        return {entry[0]: entry[1] for entry in entries}

    def group_offsets(self, group_id: str) -> dict[Place, Committed]:
        # Asked for offsets, aiokafka says nothing of an error: a coordinator that reads its log
        # has none, to it. Listing groups it does.
        until(self._is_loaded, "all coordinators have read their logs")
        offsets = self._loop.run(self._admin.list_consumer_group_offsets(group_id))
        return {Place(*place): Committed(o.offset, o.metadata) for place, o in offsets.items()}

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


def _check(code: int) -> None:
    if code:
        raise RefusedError(code)


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

    def consumer(self, settings: ConsumerSettings) -> Consumer:
        return AioConsumer(self._loop, self.bootstrap, settings)

    def admin(self) -> Admin:
        return AioAdmin(self._loop, self.bootstrap)

    def close(self) -> None:
        self._loop.close()
