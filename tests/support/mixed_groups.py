"""Groups that are converted from one protocol to the other (KIP-848): requests of classic members
with subscriptions and assignments in consumer format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    *topics: str, owned: Owned | None = None, name: str = "range"
) -> tuple[tuple[str, bytes], ...]:
    """Return the protocols of a JoinGroup: one, subscribed to `topics` or else to `orders`."""
    subscription = Subscription(topics or ("orders",), None, _listed(owned or {}), -1, None)
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
    protocols: tuple[tuple[str, bytes], ...] | None = None,
) -> list[str]:
    """Create a stable classic group at generation 1, with a member for each assignment. Return the
    member ids."""
    protocols = protocols or consumer_protocols()
    tickets = [harness.join_dynamic(protocols=protocols) for _ in assignments]
    harness.advance(harness.config.group_initial_rebalance_delay_ms)
    ids = [harness.results[ticket].member_id for ticket in tickets]
    leader = harness.group.leader
    given = dict(zip(ids, assignments, strict=True))
    for member_id in sorted(ids, key=lambda each: each != leader):
        harness.sync(member_id, 1, given if member_id == leader else None)
    return ids


def mixed_group(harness: CoordinatorHarness, instance: str | None = None) -> None:
    """Create a group at epoch 3 with a consumer, `c`, and a classic member, `a`; each owns two
    partitions."""
    harness.consumer_join("c", instance=instance)
    assert rejoin(harness, "a").generation_id == 3
    kept = harness.assigned(harness.consumer("c", 2, {"orders": (0, 1, 2, 3)}))
    harness.consumer("c", 2, kept)
    assert harness.heartbeat("a", 3) is ErrorCode.rebalance_in_progress
    assert rejoin(harness, "a").generation_id == 3
    sync(harness, "a", 3)


def rejoin(
    harness: CoordinatorHarness, member_id: str, owned: Owned | None = None, **more: object
) -> JoinResult:
    """Send a JoinGroup for a member of a mixed group, which gets a response immediately."""
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
