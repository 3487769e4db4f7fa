"""One broker's topics and groups without a socket: topic_world with a coordinator beside it."""

from typing import Any

from kohort.broker.offset_cleanup import DeletedTopics
from kohort.broker.runtime import GroupRuntime
from kohort.coordinator.config import GroupConfig
from kohort.coordinator.coordinator import Coordinator
from kohort.offsets.store import OffsetsStore
from topic_world import World as TopicWorld
from topic_world import milliseconds

PARTITIONS = 5


class World(TopicWorld):
    def __init__(self, **how: Any) -> None:
        super().__init__({"offsets.topic.num.partitions": str(PARTITIONS)}, **how)
        self.groups = GroupRuntime(
            store=OffsetsStore(
                partitions=PARTITIONS,
                partition=self._partition,
                group_commit=self.group_commit,
                files=self.files,
            ),
            clock=self.node.clock,
            timers=self.node.timers,
            new_coordinator=lambda _partition: Coordinator(
                GroupConfig(group_initial_rebalance_delay_ms=0), lambda: "id"
            ),
            call_soon=self._turns.append,
            leads=lambda _partition: True,
            waiters=lambda index: self._partition(index).waiters,
            deleted_topics=DeletedTopics(),
        )
        self.node.groups = self.groups

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
