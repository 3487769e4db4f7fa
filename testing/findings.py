"""What the doctor may find, and how it is told. Imports nothing of the broker: filters of warnings
name the category, and pytest reads those at its start."""

from dataclasses import dataclass
from typing import Final

ZOMBIE_COMMIT: Final = "zombie commit"
STALE_GENERATION: Final = "stale generation"
SLOW_HEARTBEAT: Final = "slow heartbeat"
OVERLAPPING_OWNERS: Final = "overlapping owners"
COMMIT_AHEAD: Final = "commit ahead of delivery"
LEFT_OPEN: Final = "client left open"

KINDS: Final = {
    ZOMBIE_COMMIT: "a member that was out, or in an old generation, has tried to commit",
    STALE_GENERATION: "a member was told that its generation is over, and went on in it",
    SLOW_HEARTBEAT: "heartbeats come less often than three times in a session timeout",
    OVERLAPPING_OWNERS: "two members have taken the same partition for theirs",
    COMMIT_AHEAD: "an offset was committed that this client was not given by any Fetch",
    LEFT_OPEN: "a member was still connected when its test had ended",
}


class DoctorWarning(UserWarning):
    """A finding; its message begins with the kind, so that a filter of warnings (`-W`,
    `filterwarnings`) can choose: `ignore:slow heartbeat:kohort.testing.DoctorWarning`."""


class Unhealthy(AssertionError):
    """What the doctor has found, where findings are errors."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a client did wrong; as text it is `kind: what`."""

    kind: str
    """One of KINDS."""
    what: str
    """One sentence."""
    group: str
    member_id: str | None
    client_id: str | None
    wall_s: float
    """When, in seconds of wall time since the broker was made."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"
