"""A client that sends only valid requests on one connection, and fails at the first error.

Real clients reconnect and retry; this one does neither.
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

TIMEOUT_SECONDS = 30
TOPIC = "valid-client-topic"
GROUP = "valid-client-group"


class ValidClient:
    """The only member of its group: produces, fetches, commits, fetches the offset, heartbeats."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, TIMEOUT_SECONDS)
        self._stream = self._socket.makefile("rb")
        self._requests = 0
        self._member_id = ""
        self._generation = -1
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="valid client")
        self.iterations = 0
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
            self._join_group()
            while not self._stopping.is_set():
                self._iterate()
        except BaseException as error:  # checked by the test, in its own thread
            self.failure = error

    def _request(self, request: Any, response_type: Any) -> Any:
        self._requests += 1
        self._socket.sendall(framed(request, correlation_id=self._requests, client_id="valid"))
        frame = self._exactly(int.from_bytes(self._exactly(4), "big"))
        correlation_id, response = answer_in(frame, response_type)
        assert correlation_id == self._requests
        return response

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        assert len(data) == size, "the broker closed the connection of the valid client"
        return data

    def _join_group(self) -> None:
        topic = create_topics.request.CreatableTopic(
            name=TOPIC, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        made = self._request(
            create_topics.request.CreateTopicsRequest(topics=(topic,)),
            create_topics.response.CreateTopicsResponse,
        )
        assert made.topics[0].error_code is ErrorCode.none
        found = self._request(
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
        synced = self._request(
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
        return self._request(
            join_group.request.JoinGroupRequest(
                group_id=GROUP,
                session_timeout=i32Timedelta.parse(timedelta(seconds=TIMEOUT_SECONDS)),
                rebalance_timeout=i32Timedelta.parse(timedelta(seconds=TIMEOUT_SECONDS)),
                member_id=self._member_id,
                group_instance_id=None,
                protocol_type="consumer",
                protocols=(protocol,),
            ),
            join_group.response.JoinGroupResponse,
        )

    def _iterate(self) -> None:
        """Produce and fetch a record, commit and fetch its offset, and send a heartbeat."""
        value = b"record %d" % self.iterations
        assert self._produce(value) == self.iterations
        assert self._fetch(self.iterations) == value
        self._commit(self.iterations + 1)
        assert self._committed() == self.iterations + 1
        heartbeat_response = self._request(
            heartbeat.request.HeartbeatRequest(
                group_id=GROUP, generation_id=self._generation, member_id=self._member_id
            ),
            heartbeat.response.HeartbeatResponse,
        )
        assert heartbeat_response.error_code is ErrorCode.none
        self.iterations += 1

    def _produce(self, value: bytes) -> int:
        batch = build([NewRecord(None, value, int(time.time() * 1000))], base_offset=0)
        data = produce.request.PartitionProduceData(index=0, records=batch)
        topic = produce.request.TopicProduceData(name=TOPIC, partition_data=(data,))
        request = produce.request.ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout=i32Timedelta.parse(timedelta(seconds=TIMEOUT_SECONDS)),
            topic_data=(topic,),
        )
        response = self._request(request, produce.response.ProduceResponse)
        partition = response.responses[0].partition_responses[0]
        assert partition.error_code is ErrorCode.none
        return int(partition.base_offset)

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
        response = self._request(request, fetch.response.FetchResponse)
        fetched = response.responses[0].partitions[0]
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
        response = self._request(request, offset_commit.response.OffsetCommitResponse)
        assert response.topics[0].partitions[0].error_code is ErrorCode.none

    def _committed(self) -> int:
        topic = offset_fetch.request.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=(0,))
        request = offset_fetch.request.OffsetFetchRequest(group_id=GROUP, topics=(topic,))
        response = self._request(request, offset_fetch.response.OffsetFetchResponse)
        return int(response.topics[0].partitions[0].committed_offset)
