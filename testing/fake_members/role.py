"""What a member is a member for: to consume topics (consumer.py), to run connectors (worker.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...topics.registry import Topics


@dataclass(frozen=True, slots=True)
class Round:
    """A generation as its members hear of it; only the leader hears who they are."""

    generation: int
    completed_generation: int
    """The last in which this member was given something before; -1: none."""
    protocol: str
    leader: str
    members: Sequence[Any]
    """With member_id, group_instance_id, metadata."""
    now_ms: int


class Role(Protocol):
    owned: tuple[tuple[str, int], ...]
    """What it believes to own."""

    @property
    def protocol_type(self) -> str: ...

    @property
    def reason(self) -> str | None:
        """Why it joins again by itself (KIP-800)."""

    @property
    def keeps(self) -> bool:
        """Whether it keeps what it owns while the group rebalances."""

    def give_up(self) -> None:
        """Own nothing."""

    def protocols(self) -> list[tuple[str, bytes]]:
        """What it joins with: (name, metadata), the preferred one first."""

    def lead(self, round_: Round, topics: Topics) -> dict[str, bytes]:
        """Everybody's assignment, by member id."""

    def take(self, round_: Round, assignment: bytes) -> int | None:
        """Do as it is told. Returns after how many milliseconds it joins again, having given
        something back; None: not by itself."""
