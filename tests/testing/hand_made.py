"""A member made by hand: one request at a time, and also those that no client would send."""

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


class HandMade:
    """`with HandMade(kafka, "one") as one:`; in the group billing, with the topic orders."""

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
        """Send it; the answer is read by calling what this returns."""
        request = getattr(api.request, f"{name}Request")(**fields)
        response = getattr(api.response, f"{name}Response")
        self._socket.sendall(encode_frame(request, correlation_id=7, client_id=self._client_id))

        def read() -> Any:
            answer = self._stream.read(int.from_bytes(self._stream.read(4), "big"))
            return decode_frame(answer, response)[1]

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

    def introduce(self) -> None:
        """Get a member id."""
        self.member_id = self.begin_join()().member_id

    def joined(self, answer: Any) -> None:
        self.generation = answer.generation_id
        self.is_leader = answer.leader == self.member_id

    def sync(self, given: dict[str, list[int]] | None = None) -> None:
        """`given`: to each member by the leader."""
        assignments = tuple(
            sync_group.request.SyncGroupRequestAssignment(
                member_id=who,
                assignment=encode_assignment(Assignment((TopicPartitions(TOPIC, tuple(what)),))),
            )
            for who, what in (given or {}).items()
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
        answer = self.begin(
            offset_commit,
            "OffsetCommit",
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation if generation is None else generation,
            member_id=self.member_id,
            topics=(offset_commit.request.OffsetCommitRequestTopic(name=TOPIC, partitions=(one,)),),
        )()
        return answer.topics[0].partitions[0].error_code

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


def together(*members: HandMade) -> HandMade:
    """A round of these; returns its leader, who has yet to sync."""
    first, *others = members
    if others and first.generation < 0:
        # The first round of a group waits for nobody; any other waits for who has an id.
        together(first).sync({first.member_id: []})
    for each in members:
        if not each.member_id:
            each.introduce()
    for each, answer in [(each, each.begin_join()) for each in members]:
        each.joined(answer())
    return next(each for each in members if each.is_leader)


def _ms(ms: int) -> Any:
    return i32Timedelta.parse(timedelta(milliseconds=ms))
