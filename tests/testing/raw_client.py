"""Members without a client library, which also send requests that no client would send."""

from typing import Any

from kohort.protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from kohort.testing import Kafka
from support.wire import Client

GROUP = "billing"
TOPIC = "orders"

COMMIT = {
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 7}]}],
}


class RawClient(Client):
    """Connected to the first node. Responses that are not read stay in the socket."""

    def __init__(self, kafka: Kafka, client_id: str = "raw") -> None:
        super().__init__(kafka.bootstrap_servers, client_id)

    def join(
        self, group: str, member_id: str = "", *, timeout_ms: int = 60_000, **more: Any
    ) -> Any:
        """JoinGroup v5 with the protocol `range`; twice if the member has no id."""
        self.send_join(group, member_id, timeout_ms=timeout_ms, **more)
        joined = self.receive()
        if joined["error_code"] == "member_id_required":
            return self.join(group, joined["member_id"], timeout_ms=timeout_ms, **more)
        return joined

    def send_join(
        self, group: str, member_id: str, *, timeout_ms: int = 60_000, **more: Any
    ) -> None:
        """JoinGroup without waiting for the response."""
        values = {
            "group_id": group,
            "member_id": member_id,
            "session_timeout": 45_000,
            "rebalance_timeout": timeout_ms,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"subscription"}],
        }
        self.send("JoinGroup", 5, **{**values, **more})

    def commit(self, group: str = "g", **more: object) -> str:
        """The error of one commit."""
        response = self.call("OffsetCommit", 7, group_id=group, **{**COMMIT, **more})
        return str(response["topics"][0]["partitions"][0]["error_code"])


class RawMember(RawClient):
    """`with RawMember(kafka, "one") as one:`, in group billing, with topic orders."""

    def __init__(self, kafka: Kafka, client_id: str, session_ms: int = 30_000) -> None:
        super().__init__(kafka, client_id)
        self._session_ms = session_ms
        self.member_id = ""
        self.generation = -1
        self.is_leader = False

    def begin_join(self) -> None:
        protocols = [{"name": "x", "metadata": b""}]
        self.send_join(GROUP, self.member_id, session_timeout=self._session_ms, protocols=protocols)

    def end_join(self) -> None:
        response = self.receive()
        self.member_id, self.generation = response["member_id"], response["generation_id"]
        self.is_leader = response["leader"] == self.member_id

    def sync(self, assigned: dict[str, list[int]] | None = None) -> None:
        """`assigned`: by the leader, to each member id."""
        assignments = [
            {
                "member_id": member,
                "assignment": encode_assignment(
                    Assignment((TopicPartitions(TOPIC, tuple(indexes)),))
                ),
            }
            for member, indexes in (assigned or {}).items()
        ]
        self._call("SyncGroup", 3, generation_id=self.generation, assignments=assignments)

    def heartbeat(self, generation: int | None = None) -> Any:
        generation = self.generation if generation is None else generation
        return self._call("Heartbeat", 4, generation_id=generation)["error_code"]

    def commit_offset(self, offset: int, partition: int = 0, generation: int | None = None) -> str:
        """The error of one commit."""
        return self.commit(
            GROUP,
            generation_id_or_member_epoch=self.generation if generation is None else generation,
            member_id=self.member_id,
            topics=[
                {
                    "name": TOPIC,
                    "partitions": [{"partition_index": partition, "committed_offset": offset}],
                }
            ],
        )

    def fetch(self, offset: int, partition: int = 0) -> None:
        entry = {
            "partition": partition,
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
        }
        topics = [{"topic": TOPIC, "partitions": [entry]}]
        self.call("Fetch", 11, replica_id=-1, max_bytes=1 << 20, session_epoch=-1, topics=topics)

    def leave(self) -> None:
        self._call("LeaveGroup", 3, members=[{"member_id": self.member_id}])

    def _call(self, api: str, version: int, **values: Any) -> Any:
        return self.call(api, version, group_id=GROUP, member_id=self.member_id, **values)


def rebalance(*members: RawMember) -> RawMember:
    """Let these join. Returns the leader, which has not synced yet."""
    first, *others = members
    if others and first.generation < 0:
        # The first rebalance of a group does not wait; others wait for all members with an id.
        rebalance(first).sync({first.member_id: []})
    for each in members:
        if not each.member_id:  # KIP-394
            each.begin_join()
            each.end_join()
    for each in members:
        each.begin_join()
    for each in members:
        each.end_join()
    return next(each for each in members if each.is_leader)
