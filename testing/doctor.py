"""`kafka.doctor`: looks at what the clients of a test did, and says what they do wrong."""

from typing import TYPE_CHECKING

from ..coordinator.classic.group import Member
from .findings import KINDS, LEFT_OPEN, Finding, Unhealthy
from .symptoms import examine

if TYPE_CHECKING:
    from .kafka import Kafka

# A client that was closed a moment ago has its connection closed in this time, of wall time.
GOING_SECONDS = 0.2


class Doctor:
    """Warnings in the report of a test, or errors (`--kafka-doctor=error`). Puppets are of no
    concern to it: they do what the test has told them."""

    def __init__(self, kafka: "Kafka") -> None:
        self._kafka = kafka
        self._ignored: set[str] = set()

    def ignore(self, *kinds: str) -> None:
        """For the rest of this test do not find these, which it is about: `zombie commit`. Without
        any: nothing at all. Raises ValueError for a kind that there is not."""
        unknown = set(kinds) - KINDS.keys()
        if unknown:
            raise ValueError(f"there is no finding {min(unknown)!r}; there is: {', '.join(KINDS)}")
        self._ignored |= set(kinds or KINDS)

    @property
    def findings(self) -> list[Finding]:
        """What there is to be said of the history so far, in the order of time."""
        if self._ignored == KINDS.keys():
            return []
        return [each for each in examine(self._kafka.history) if self._concerns(each)]

    @property
    def left_open(self) -> list[Finding]:
        """Members that are in their groups still, and connected: for the end of a test."""
        if LEFT_OPEN in self._ignored:
            return []
        found = self._kafka.ask(lambda _broker: self._connected())
        if found:
            # Its answer to LeaveGroup is on its way, or its connection's end.
            self._kafka.until(lambda: not self._connected(), GOING_SECONDS)
            found = self._kafka.ask(lambda _broker: self._connected())
        return found

    def check(self) -> None:
        """Raise Unhealthy for what is found so far."""
        complain(self.findings)

    def _concerns(self, finding: Finding) -> bool:
        is_puppets = finding.client_id in self._kafka.puppets.client_ids
        return finding.kind not in self._ignored and not is_puppets

    # --- on the broker's loop

    def _connected(self) -> list[Finding]:
        if not self._kafka.broker.is_running:
            return []
        open_connections = self._kafka.steering.open_connections()
        last = {each.member_id: each for each in self._kafka.history.requests if each.member_id}
        wall_s = self._kafka.history.wall_s
        findings = [
            Finding(
                LEFT_OPEN,
                f"{member.member_id} is in {group} still, and connected: close it",
                group,
                member.member_id,
                member.client_id,
                wall_s,
            )
            for group, member in self._members()
            if (asked := last.get(member.member_id)) and asked.connection in open_connections
        ]
        return [each for each in findings if self._concerns(each)]

    def _members(self) -> list[tuple[str, Member]]:
        return [
            (group_id, member)
            for node in self._kafka.broker.cluster.nodes.values()
            for shard in node.coordinators.contexts.values()
            for group_id, group in shard.coordinator.groups.items()
            for member in group.members.values()
        ]


def complain(findings: list[Finding]) -> None:
    """Raise Unhealthy for these, if there are any."""
    if findings:
        listed = "\n".join(f"  {each}" for each in findings)
        raise Unhealthy(f"the doctor of this test's broker has found\n{listed}")
