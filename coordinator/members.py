"""A member of a group, as the coordinator knows it while it talks with it."""

from .deadline_keys import DeadlineKey


class Member:
    """Who it is, what it can do, what it was assigned and which of its requests are parked."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "client_software",
        "group_instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        client_software: str | None = None,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[tuple[str, bytes], ...],
        assignment: bytes = b"",
        is_new: bool = False,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.client_software = client_software
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        # Until the first round that it takes part in is over: it cannot send heartbeats before.
        self.is_new = is_new
        self.join_ticket: int | None = None
        self.sync_ticket: int | None = None
        self.session = DeadlineKey("session", group_id, member_id)

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether its session cannot end: it waits for us, not we for it. A new member that waits
        is not excused, or clients that gave up would fill a round that never closes."""
        waits = self.join_ticket is not None or self.sync_ticket is not None
        return waits and not self.is_new

    def metadata(self, protocol_name: str) -> bytes:
        """What it said for this protocol. KeyError if it does not speak it: our bug, since a
        group elects only what all members speak."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(protocol_name)
