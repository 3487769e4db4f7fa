"""A member of a group without a client library, which also sends requests that no client would
send."""

from collections.abc import Iterable, Mapping
from typing import Any

from kohort.protocol.consumer_protocol import Assignment, TopicPartitions, encode_assignment
from support.wire import Client

TOPIC = "orders"


class Member(Client):
    """A client and its membership, with assignments of the topic `orders`. Responses that are not
    read stay in the socket."""

    def __init__(
        self,
        addresses: str,
        client_id: str,
        *,
        group: str = "billing",
        session_ms: int = 30_000,
        assignor: str = "range",
    ) -> None:
        super().__init__(addresses, client_id)
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.is_leader = False
        self._session_ms = session_ms
        self._protocols = [{"name": assignor, "metadata": b""}]

    def reconnected(self, addresses: str) -> "Member":
        """Return the same member on a new connection."""
        other = Member(addresses, "reconnected", group=self.group, session_ms=self._session_ms)
        other.member_id, other.generation = self.member_id, self.generation
        return other

    def send_own_join(self) -> None:
        self.send_join(
            self.group,
            self.member_id,
            session_timeout=self._session_ms,
            protocols=self._protocols,
        )

    def receive_join(self) -> None:
        response = self.receive()
        self.member_id, self.generation = response["member_id"], response["generation_id"]
        self.is_leader = response["leader"] == self.member_id

    def sync(self, assigned: Mapping[str, Iterable[int]] | None = None, topic: str = TOPIC) -> Any:
        """`assigned`: by the leader, to each member id."""
        assignments = [
            {
                "member_id": member,
                "assignment": encode_assignment(
                    Assignment((TopicPartitions(topic, tuple(indexes)),))
                ),
            }
            for member, indexes in (assigned or {}).items()
        ]
        return self._call("SyncGroup", 3, generation_id=self.generation, assignments=assignments)

    def send_heartbeat(self, generation: int | None = None) -> None:
        identity = {"group_id": self.group, "member_id": self.member_id}
        generation = self.generation if generation is None else generation
        self.send("Heartbeat", 4, **identity, generation_id=generation)

    def heartbeat(self, generation: int | None = None) -> str:
        """Return the error."""
        self.send_heartbeat(generation)
        return str(self.receive()["error_code"])

    def commit_offset(self, offset: int, partition: int = 0, generation: int | None = None) -> str:
        """Commit as this member, and return the error."""
        generation = self.generation if generation is None else generation
        member = {"member_id": self.member_id, "generation_id_or_member_epoch": generation}
        return self.commit(self.group, offset, partition, **member)

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
        return self.call(api, version, group_id=self.group, member_id=self.member_id, **values)


def rebalance(*members: Member) -> Member:
    """Let these members join. Return the leader, which has not synced yet."""
    first, *others = members
    if others and first.generation < 0:
        # The first rebalance of a group does not wait; others wait for all members with an id.
        rebalance(first).sync({first.member_id: []})
    for each in members:
        if not each.member_id:  # KIP-394
            each.send_own_join()
            each.receive_join()
    for each in members:
        each.send_own_join()
    for each in members:
        each.receive_join()
    return next(each for each in members if each.is_leader)


def only_member(addresses: str, client_id: str, *partitions: int, **more: Any) -> Member:
    """Return the only member of its group, to which these partitions are assigned. `more`: see
    Member."""
    member = Member(addresses, client_id, **more)
    rebalance(member).sync({member.member_id: partitions})
    return member
