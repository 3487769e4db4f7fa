"""A member without a client library, which also sends requests that no client would send."""

import socket
from datetime import timedelta
from typing import Any, Self

from kio.schema.fetch import v11 as fetch
from kio.schema.heartbeat import v4 as heartbeat
from kio.schema.join_group import v5 as join_group
from kio.schema.leave_group import v3 as leave_group
from kio.schema.offset_commit import v8 as offset_commit
from kio.schema.sync_group import v5 as sync_group
from kio.static.primitive import i32Timedelta
from kohort.protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from kohort.testing import Kafka
from support.wire import decode_frame, encode_frame

GROUP = "billing"
TOPIC = "orders"


class RawMember:
    """`with RawMember(kafka, "one") as one:`, in group billing, with topic orders."""

    def __init__(self, kafka: Kafka, client_id: str, session_ms: int = 30_000) -> None:
        host, port = kafka.bootstrap_servers.split(":")
        self._socket = socket.create_connection((host, int(port)), 10)
        self._stream = self._socket.makefile("rb")
        self._client_id = client_id
        self._session_ms = session_ms
        self.member_id = ""
        self.generation = -1
        self.is_leader = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._socket.close()

    def begin(self, api: Any, name: str, **fields: Any) -> Any:
        """Send a request. Returns a function that reads the response."""
        request = getattr(api.request, f"{name}Request")(**fields)
        response = getattr(api.response, f"{name}Response")
        self._socket.sendall(encode_frame(request, correlation_id=7, client_id=self._client_id))

        def read() -> Any:
            frame = self._stream.read(int.from_bytes(self._stream.read(4), "big"))
            return decode_frame(frame, response)[1]

        return read

    def begin_join(self) -> Any:
        return self.begin(
            join_group,
            "JoinGroup",
            group_id=GROUP,
            session_timeout=_ms(self._session_ms),
            rebalance_timeout=_ms(30_000),
            member_id=self.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=(join_group.request.JoinGroupRequestProtocol(name="x", metadata=b""),),
        )

    def get_member_id(self) -> None:
        """Send the first JoinGroup of a dynamic member (KIP-394)."""
        self.member_id = self.begin_join()().member_id

    def joined(self, response: Any) -> None:
        self.generation = response.generation_id
        self.is_leader = response.leader == self.member_id

    def sync(self, assigned: dict[str, list[int]] | None = None) -> None:
        """`assigned`: by the leader, to each member id."""
        assignments = tuple(
            sync_group.request.SyncGroupRequestAssignment(
                member_id=member,
                assignment=encode_assignment(Assignment((TopicPartitions(TOPIC, tuple(indexes)),))),
            )
            for member, indexes in (assigned or {}).items()
        )
        self.begin(
            sync_group,
            "SyncGroup",
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="x",
            assignments=assignments,
        )()

    def heartbeat(self, generation: int | None = None) -> Any:
        return self.begin(
            heartbeat,
            "Heartbeat",
            group_id=GROUP,
            generation_id=self.generation if generation is None else generation,
            member_id=self.member_id,
        )().error_code

    def commit(self, offset: int, partition: int = 0, generation: int | None = None) -> Any:
        one = offset_commit.request.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=None
        )
        response = self.begin(
            offset_commit,
            "OffsetCommit",
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation if generation is None else generation,
            member_id=self.member_id,
            topics=(offset_commit.request.OffsetCommitRequestTopic(name=TOPIC, partitions=(one,)),),
        )()
        return response.topics[0].partitions[0].error_code

    def fetch(self, offset: int, partition: int = 0) -> None:
        one = fetch.request.FetchPartition(
            partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        self.begin(
            fetch,
            "Fetch",
            max_wait=_ms(0),
            min_bytes=0,
            max_bytes=1 << 20,
            topics=(fetch.request.FetchTopic(topic=TOPIC, partitions=(one,)),),
            forgotten_topics_data=(),
            rack_id="",
        )()

    def leave(self) -> None:
        identity = leave_group.request.MemberIdentity(
            member_id=self.member_id, group_instance_id=None
        )
        self.begin(leave_group, "LeaveGroup", group_id=GROUP, members=(identity,))()


def rebalance(*members: RawMember) -> RawMember:
    """Let these join. Returns the leader, which has not synced yet."""
    first, *others = members
    if others and first.generation < 0:
        # The first rebalance of a group does not wait; others wait for all members with an id.
        rebalance(first).sync({first.member_id: []})
    for each in members:
        if not each.member_id:
            each.get_member_id()
    for each, read_response in [(each, each.begin_join()) for each in members]:
        each.joined(read_response())
    return next(each for each in members if each.is_leader)


def _ms(ms: int) -> Any:
    return i32Timedelta.parse(timedelta(milliseconds=ms))
