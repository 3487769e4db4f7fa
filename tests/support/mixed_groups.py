"""Groups that are converted from one protocol to the other (KIP-848): requests of classic members
with subscriptions and assignments in consumer format, and model members of both protocols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kohort.coordinator.commands import JoinResult, SyncResult
from kohort.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from kohort.protocol.errors import ErrorCode
from support.coordinator import CoordinatorHarness

Owned = Mapping[str, Iterable[int]]


def _listed(owned: Owned) -> tuple[TopicPartitions, ...]:
    return tuple(TopicPartitions(topic, tuple(each)) for topic, each in owned.items())


def consumer_protocols(
    *topics: str, owned: Owned | None = None, name: str = "range", rack: str | None = None
) -> tuple[tuple[str, bytes], ...]:
    """Return the protocols of a JoinGroup: one, subscribed to `topics` or else to `orders`."""
    subscription = Subscription(topics or ("orders",), None, _listed(owned or {}), -1, rack)
    return ((name, encode_subscription(subscription)),)


def assignment(owned: Owned, user_data: bytes | None = None) -> bytes:
    return encode_assignment(Assignment(_listed(owned), user_data))


def assigned(result: SyncResult) -> dict[str, tuple[int, ...]]:
    """Return the partitions in a SyncGroup response by topic."""
    assert result.error_code is ErrorCode.none
    return {each.topic: each.partitions for each in decode_assignment(result.assignment)[0]}


def classic_group(
    harness: CoordinatorHarness,
    *assignments: bytes,
    instances: Iterable[str | None] = (),
) -> list[str]:
    """Create a stable classic group at generation 1, with a member for each assignment. Return the
    member ids."""
    instances = [*instances, *[None] * len(assignments)][: len(assignments)]
    protocols = consumer_protocols()
    tickets = [
        harness.join_dynamic(protocols=protocols)
        if instance is None
        else harness.join(instance=instance, protocols=protocols)
        for instance in instances
    ]
    harness.advance(harness.config.group_initial_rebalance_delay_ms)
    ids = [harness.results[ticket].member_id for ticket in tickets]
    leader = harness.group.leader
    given = dict(zip(ids, assignments, strict=True))
    for member_id in sorted(ids, key=lambda each: each != leader):
        harness.sync(member_id, 1, given if member_id == leader else None)
    return ids


def rejoin(
    harness: CoordinatorHarness, member_id: str, owned: Owned | None = None, **more: object
) -> JoinResult:
    """Send JoinGroup of a member of a mixed group, which gets its response immediately."""
    protocols = more.pop("protocols", None) or consumer_protocols(owned=owned)
    ticket = harness.join(member_id, protocols=protocols, **more)  # type: ignore[arg-type]
    result = harness.results[ticket]
    assert isinstance(result, JoinResult)
    return result


def sync(
    harness: CoordinatorHarness, member_id: str, generation: int, **more: object
) -> SyncResult:
    result = harness.results[harness.sync(member_id, generation, **more)]  # type: ignore[arg-type]
    assert isinstance(result, SyncResult)
    return result


# --- model members: the state of a correct client, and its next request

E = ErrorCode
# Errors after which a consumer ends; the last two occur if a classic group cannot be converted.
FATAL = (
    E.fenced_instance_id,
    E.group_max_size_reached,
    E.group_id_not_found,
    E.unknown_server_error,
)


class ModelConsumer:
    """A member of the consumer protocol. `lag`: heartbeats until it revokes the partitions it must
    give up."""

    def __init__(
        self,
        harness: CoordinatorHarness,
        member_id: str,
        instance: str | None = None,
        subscription: Mapping[str, Any] | None = None,
    ) -> None:
        self._harness = harness
        self.member_id = member_id
        self.instance = instance
        self.subscription = {"topics": ("orders",), "regex": "", **(subscription or {})}
        self.epoch = 0
        self.owned: dict[str, tuple[int, ...]] = {}
        self.has_ended = False
        self._acknowledged: dict[str, Any] = {}  # fields that the coordinator has

    def heartbeat(
        self, *, loses_response: bool = False, full: bool = False, keeps_alive: bool = False
    ) -> E:
        """Send a heartbeat with what has changed since the last response: with all fields if it is
        `full`, after an error or a lost response; with none if it only keeps the member alive."""
        owned = self.owned if self.epoch else {}
        fields = {**self.subscription, "rebalance_ms": 20_000, "owned": owned}
        if self.epoch and not full:
            known = fields if keeps_alive else self._acknowledged
            fields = {name: each for name, each in fields.items() if each != known.get(name)}
        result = self._harness.consumer(
            self.member_id, self.epoch, instance=self.instance, **fields
        )
        acknowledged, self._acknowledged = {**self._acknowledged, **fields}, {}
        if loses_response:
            return result.error_code
        if result.error_code is E.none:
            assert result.member_epoch >= self.epoch
            self.epoch, self._acknowledged = result.member_epoch, acknowledged
            found = self._harness.assigned(result)
            if found is not None:
                self.owned = found
        elif result.error_code in (E.fenced_member_epoch, E.unknown_member_id):
            self.epoch, self.owned = 0, {}
        elif result.error_code is E.group_id_not_found and self.epoch:
            self.epoch, self.owned = 0, {}  # the group was deleted
        elif result.error_code in FATAL:
            self.has_ended = True
        else:
            assert result.error_code is E.unreleased_instance_id, result
        return result.error_code

    step = heartbeat

    def leave(self, epoch: int = -1) -> E:
        result = self._harness.consumer(self.member_id, epoch, instance=self.instance)
        self.epoch, self.owned = 0, {}
        return result.error_code


class ModelClassic:
    """A member of the classic protocol with cooperative rebalances: it keeps its partitions until
    its assignment no longer contains them."""

    def __init__(
        self, harness: CoordinatorHarness, instance: str | None = None, topics: tuple[str, ...] = ()
    ) -> None:
        self._harness = harness
        self.member_id = ""
        self.instance = instance
        self.topics = topics or ("orders",)
        self.epoch = -1
        self.owned: dict[str, tuple[int, ...]] = {}
        self.has_ended = False
        self._ticket: int | None = None  # identifies the request whose response it waits for
        self._is_syncing = False

    def step(self) -> E:
        """Handle a response if there is one, or else send the next request."""
        if self._ticket is None and self.epoch >= 0:
            return self._handle(
                self._harness.heartbeat(self.member_id, self.epoch, instance=self.instance)
            )
        if self._ticket is None:
            self.join()
        return self.receive()

    def receive(self) -> E:
        """Handle the response that it waits for, if that has arrived."""
        result = None if self._ticket is None else self._harness.results.get(self._ticket)
        if result is None:
            return E.none
        self._ticket = None
        if self._is_syncing:
            self._is_syncing = False
            if result.error_code is E.none:
                self.owned = assigned(result) if result.assignment else {}
            return self._handle(result.error_code)
        if result.error_code is E.member_id_required:
            self.member_id = result.member_id
            self.join()
            return self.receive()
        if result.error_code is E.none:
            self.member_id, self.epoch = result.member_id, result.generation_id
            self._sync(result)
            return self.receive()
        return self._handle(result.error_code)

    def join(self) -> None:
        protocols = consumer_protocols(*self.topics, owned=self.owned)
        self._is_syncing = False
        self._ticket = self._harness.join(
            self.member_id, instance=self.instance, protocols=protocols, rebalance_ms=20_000
        )

    def _sync(self, joined: Any) -> None:
        given: dict[str, bytes] = {}
        if joined.leader == self.member_id and not joined.skip_assignment:
            ids = sorted(member.member_id for member in joined.members)
            topic_id = self._harness.topics.id_of("orders")
            count = self._harness.topics.partition_count(topic_id)
            for index, member_id in enumerate(ids):
                mine = tuple(range(count))[index :: len(ids)]
                given[member_id] = assignment({"orders": mine} if mine else {})
        self._is_syncing = True
        self._ticket = self._harness.sync(self.member_id, self.epoch, given, instance=self.instance)

    def _handle(self, error: E) -> E:
        if error in (E.unknown_member_id, E.group_max_size_reached):
            self.member_id, self.epoch, self.owned = "", -1, {}
        elif error is E.illegal_generation:
            self.epoch, self.owned = -1, {}
        elif error in (E.rebalance_in_progress, E.not_coordinator):
            self.epoch = -1
        elif error is E.fenced_instance_id:
            self.has_ended = True
        else:
            assert error is E.none, error
        return error

    def leave(self) -> E:
        left = self._harness.leave((self.member_id, self.instance))
        self.member_id, self.epoch, self.owned, self._ticket = "", -1, {}, None
        error = left.members[0].error_code if left.members else left.error_code
        assert isinstance(error, E)
        return error
