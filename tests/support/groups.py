"""One broker's topics and groups without a socket: topic_world with a coordinator beside it."""

from typing import Any

from kohort.broker.build import group_config
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.context import CoordinatorCodec, CoordinatorContext
from kohort.broker.event_log import EventPublisher
from kohort.broker.offset_cleanup import DeletedTopics
from kohort.broker.runtime import CoordinatorRuntime
from kohort.coordinator.coordinator import Coordinator
from kohort.offsets.store import OffsetsStore
from kohort.offsets.table import OffsetsCache, OffsetsTable
from support.broker import World as TopicWorld
from support.broker import milliseconds

PARTITIONS = 5
GROUP_CONFIG = group_config(BrokerConfig({"group.initial.rebalance.delay.ms": "0"}))


def _new_coordinator(_partition: int) -> tuple[Coordinator, OffsetsTable]:
    offsets = OffsetsTable()
    return Coordinator(GROUP_CONFIG, lambda: "id", CoordinatorCodec(), offsets), offsets


class World(TopicWorld):
    def __init__(self, **how: Any) -> None:
        super().__init__({"offsets.topic.num.partitions": str(PARTITIONS)}, **how)
        self.groups = CoordinatorRuntime(
            store=OffsetsStore(
                partitions=PARTITIONS,
                partition=self._partition,
                group_commit=self.group_commit,
                files=self.files,
            ),
            cache=OffsetsCache(0),
            clock=self.node.clock,
            timers=self.node.timers,
            scheduler=self.scheduler,
            new_context=lambda index: CoordinatorContext(
                index,
                *_new_coordinator(index),
                EventPublisher(""),
                self._partition(index).delayed_fetches,
            ),
            new_coordinator=_new_coordinator,
            leads=lambda _partition: True,
            deleted_topics=DeletedTopics(),
            retention_check_interval_ms=600_000,
        )
        self.node.coordinators = self.groups

    def _partition(self, index: int) -> Any:
        return self.topics.ensure_offsets_topic().partition(index)

    def commit(self, group_id: str, topic: str, *partitions: int) -> None:
        asked = tuple(
            self.part(
                "OffsetCommit",
                9,
                "OffsetCommitRequestPartition",
                partition_index=index,
                committed_offset=7,
                committed_metadata="",
            )
            for index in partitions
        )
        part = self.part(
            "OffsetCommit", 9, "OffsetCommitRequestTopic", name=topic, partitions=asked
        )
        answer = self.ask(
            "OffsetCommit",
            9,
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=(part,),
        )
        assert not any(p.error_code for p in answer.topics[0].partitions)

    def join(self, group_id: str) -> None:
        """A group with one member, which is the leader and owes its sync."""
        part = "JoinGroupRequestProtocol"
        self.send(
            "JoinGroup",
            3,
            group_id=group_id,
            session_timeout=milliseconds(10_000),
            rebalance_timeout=milliseconds(60_000),
            member_id="",
            protocol_type="consumer",
            protocols=(self.part("JoinGroup", 3, part, name="range", metadata=b"said"),),
        )
        self.turn()
        self.pass_time(0)
        self.turn()

    def sync(self, group_id: str) -> None:
        part = "SyncGroupRequestAssignment"
        given = self.part("SyncGroup", 2, part, member_id="tester-id", assignment=b"given")
        answer = self.ask(
            "SyncGroup",
            2,
            group_id=group_id,
            generation_id=1,
            member_id="tester-id",
            assignments=(given,),
        )
        assert not answer.error_code
