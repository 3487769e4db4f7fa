"""A client that does everything right, on one connection, and notices whatever goes wrong.

Real clients reconnect and try again without a word; this one does neither.
"""

import socket
import threading
import time
from datetime import timedelta
from typing import Any

from frames import answer_in, framed
from kio.schema.create_topics import v5 as create_topics
from kio.schema.errors import ErrorCode
from kio.schema.fetch import v11 as fetch
from kio.schema.find_coordinator import v3 as find_coordinator
from kio.schema.heartbeat import v4 as heartbeat
from kio.schema.join_group import v5 as join_group
from kio.schema.offset_commit import v8 as offset_commit
from kio.schema.offset_fetch import v7 as offset_fetch
from kio.schema.produce import v8 as produce
from kio.schema.sync_group import v5 as sync_group
from kio.static.primitive import i32Timedelta
from kohort.log.batch import NewRecord, build
from kohort.log.records import records

ANSWER_SECONDS = 30
TOPIC = "the-good-ones-topic"
GROUP = "the-good-ones-group"


class GoodClient:
    """A member of a group of one that produces, fetches, commits, looks up, and stays a member."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, ANSWER_SECONDS)
        self._stream = self._socket.makefile("rb")
        self._asked = 0
        self._member_id = ""
        self._generation = -1
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="good client")
        self.turns = 0
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._stream.close()
        self._socket.close()

    def _run(self) -> None:
        try:
            self._settle()
            while not self._stopping.is_set():
                self._turn()
        except BaseException as error:  # told by the test, in its own thread
            self.failure = error

    def _ask(self, request: Any, response_type: Any) -> Any:
        self._asked += 1
        self._socket.sendall(framed(request, correlation_id=self._asked, client_id="good"))
        frame = self._exactly(int.from_bytes(self._exactly(4), "big"))
        correlation_id, answer = answer_in(frame, response_type)
        assert correlation_id == self._asked
        return answer

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        assert len(data) == size, "the broker closed the good client's connection"
        return data

    def _settle(self) -> None:
        topic = create_topics.request.CreatableTopic(
            name=TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        made = self._ask(
            create_topics.request.CreateTopicsRequest(topics=(topic,)),
            create_topics.response.CreateTopicsResponse,
        )
        assert made.topics[0].error_code is ErrorCode.none
        found = self._ask(
            find_coordinator.request.FindCoordinatorRequest(key=GROUP),
            find_coordinator.response.FindCoordinatorResponse,
        )
        assert found.error_code is ErrorCode.none
        joined = self._join()
        assert joined.error_code is ErrorCode.member_id_required
        self._member_id = joined.member_id
        joined = self._join()
        assert joined.error_code is ErrorCode.none
        assert joined.leader == self._member_id
        self._generation = joined.generation_id
        assignment = sync_group.request.SyncGroupRequestAssignment(
            member_id=self._member_id, assignment=b"all of it"
        )
        synced = self._ask(
            sync_group.request.SyncGroupRequest(
                group_id=GROUP,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=(assignment,),
            ),
            sync_group.response.SyncGroupResponse,
        )
        assert synced.error_code is ErrorCode.none
        assert synced.assignment == b"all of it"

    def _join(self) -> Any:
        protocol = join_group.request.JoinGroupRequestProtocol(name="range", metadata=b"any")
        return self._ask(
            join_group.request.JoinGroupRequest(
                group_id=GROUP,
                session_timeout=i32Timedelta.parse(timedelta(seconds=ANSWER_SECONDS)),
                rebalance_timeout=i32Timedelta.parse(timedelta(seconds=ANSWER_SECONDS)),
                member_id=self._member_id,
                group_instance_id=None,
                protocol_type="consumer",
                protocols=(protocol,),
            ),
            join_group.response.JoinGroupResponse,
        )

    def _turn(self) -> None:
        """One record in and out again, its offset committed and looked up, and a heartbeat."""
        value = b"turn %d" % self.turns
        assert self._produce(value) == self.turns
        assert self._fetch(self.turns) == value
        self._commit(self.turns + 1)
        assert self._committed() == self.turns + 1
        alive = self._ask(
            heartbeat.request.HeartbeatRequest(
                group_id=GROUP, generation_id=self._generation, member_id=self._member_id
            ),
            heartbeat.response.HeartbeatResponse,
        )
        assert alive.error_code is ErrorCode.none
        self.turns += 1

    def _produce(self, value: bytes) -> int:
        batch = build([NewRecord(None, value, int(time.time() * 1000))], base_offset=0)
        data = produce.request.PartitionProduceData(index=0, records=batch)
        topic = produce.request.TopicProduceData(name=TOPIC, partition_data=(data,))
        request = produce.request.ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout=i32Timedelta.parse(timedelta(seconds=ANSWER_SECONDS)),
            topic_data=(topic,),
        )
        answer = self._ask(request, produce.response.ProduceResponse)
        placed = answer.responses[0].partition_responses[0]
        assert placed.error_code is ErrorCode.none
        return int(placed.base_offset)

    def _fetch(self, offset: int) -> bytes | None:
        partition = fetch.request.FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1_000_000
        )
        request = fetch.request.FetchRequest(
            max_wait=i32Timedelta.parse(timedelta(0)),
            min_bytes=1,
            topics=(fetch.request.FetchTopic(topic=TOPIC, partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        answer = self._ask(request, fetch.response.FetchResponse)
        fetched = answer.responses[0].partitions[0]
        assert fetched.error_code is ErrorCode.none
        return next(records(fetched.records, 0)).value

    def _commit(self, offset: int) -> None:
        partition = offset_commit.request.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=None
        )
        topic = offset_commit.request.OffsetCommitRequestTopic(name=TOPIC, partitions=(partition,))
        request = offset_commit.request.OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=(topic,),
        )
        answer = self._ask(request, offset_commit.response.OffsetCommitResponse)
        assert answer.topics[0].partitions[0].error_code is ErrorCode.none

    def _committed(self) -> int:
        topic = offset_fetch.request.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,))
        request = offset_fetch.request.OffsetFetchRequest(group_id=GROUP, topics=(topic,))
        answer = self._ask(request, offset_fetch.response.OffsetFetchResponse)
        return int(answer.topics[0].partitions[0].committed_offset)
