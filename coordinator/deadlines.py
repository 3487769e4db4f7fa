"""A heap of replaceable deadlines with lazy deletion, and the deadline keys of groups.

Heartbeats extend deadlines far more often than deadlines expire, so an extension does not change
the heap. When the old entry is popped, it is pushed again with the extended deadline. Entries of
cancelled or shortened deadlines are skipped when they are popped.
"""

from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, get_args

# A heap larger than this is rebuilt when more than half of its entries are stale. Otherwise,
# entries of short-lived clients would accumulate for five minutes (new_member_join_timeout_ms).
_REBUILD_ABOVE = 1_024


MemberDeadline: TypeAlias = Literal["member session", "revocation", "member join", "member sync"]
MEMBER_DEADLINES: Final[tuple[MemberDeadline, ...]] = get_args(MemberDeadline)


class DeadlineKey(NamedTuple):
    """What a deadline is for. Each key has at most one deadline.

    session  the member must send a heartbeat, or join with its pending member id
    join     the join phase of a rebalance ends
    sync     members that have not sent SyncGroup are removed

    In consumer groups (KIP-848):

    member session  the member must send a heartbeat
    revocation      the member must confirm that it has revoked partitions
    member join     a member of the classic protocol must rejoin
    member sync     a member of the classic protocol must send SyncGroup
    regex           the group's regular expressions are resolved
    """

    kind: Literal["session", "join", "sync", "regex"] | MemberDeadline
    group_id: str
    member_id: str = ""


K = TypeVar("K")


class Deadlines(Generic[K]):
    """Deadlines by key, in whole milliseconds of the caller's clock. Equal deadlines expire in
    insertion order, except extended deadlines."""

    __slots__ = ("_heap", "_queued", "_serial", "pending")

    def __init__(self) -> None:
        self.pending: dict[K, int] = {}
        """All deadlines. Read-only outside this class."""
        # The time of each key in the heap, which is never later than its deadline.
        self._queued: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._serial = 0

    def set(self, key: K, when_ms: int) -> None:
        """Set or replace the deadline of `key`."""
        self.pending[key] = when_ms
        queued = self._queued.get(key)
        if queued is None or when_ms < queued:
            self._serial += 1
            self._queued[key] = when_ms
            heappush(self._heap, (when_ms, self._serial, key))

    def cancel(self, key: K) -> None:
        """Remove the deadline of `key`, if there is one."""
        if self.pending.pop(key, None) is not None:
            heap = self._heap
            if len(heap) > _REBUILD_ABOVE and len(heap) > 2 * len(self.pending):
                due = self.pending
                self._queued = dict(due)
                self._heap = [(when, serial, k) for serial, (k, when) in enumerate(due.items())]
                heapify(self._heap)

    def clear(self) -> None:
        self.pending.clear()
        self._queued.clear()
        self._heap.clear()

    def earliest(self) -> int | None:
        """Return a lower bound of the next deadline, or None if the heap is empty. If that
        deadline was extended or cancelled, `pop_due` may return None, and the bound changes."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> tuple[K, int] | None:
        """Remove and return the first key that is due at `now_ms`, with its deadline, or None."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            queued, _, key = heap[0]
            if self._queued.get(key) != queued:
                heappop(heap)  # superseded by a newer entry
                continue
            due = self.pending.get(key)
            if due is not None and due > now_ms:
                self._serial += 1
                self._queued[key] = due
                heapreplace(heap, (due, self._serial, key))
                continue
            heappop(heap)
            del self._queued[key]
            if due is not None:
                del self.pending[key]
                return key, due
        return None
