"""How a member asks its coordinator: finds it, asks, and finds it again. On the broker's loop."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...broker.broker import Broker
from ...protocol.errors import ErrorCode
from .link import Link

# Of wall time, for what a script asks itself (a commit, a leave): shorter than a barrier waits.
PATIENCE_SECONDS = 5.0

# The coordinator is another one, or none yet.
_LOOK_AGAIN = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)


class Refusal(NamedTuple):
    """An error that a puppet was answered, by Kafka's names. NETWORK_EXCEPTION: the connection was
    gone before the answer came; REQUEST_TIMED_OUT: it was waited for in vain."""

    api: str
    error: str


class Refused(Exception):
    """The error in an answer; those that say where the coordinator is are ConnectionErrors."""

    def __init__(self, error: ErrorCode, answer: Any) -> None:
        super().__init__(error.name.upper())
        self.error = error
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Identity:
    group_id: str
    client_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int


class Asking:
    """`broker`: the one that runs now. `changed` is called with each error, `lost` when the broker
    has closed the connection."""

    def __init__(
        self,
        broker: Callable[[], Broker],
        identity: Identity,
        changed: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._identity = identity
        self._changed = changed
        self._lost = lost
        self._link: Link | None = None
        self.steps = 0
        """Grows whenever something is under way."""
        self.errors: list[Refusal] = []
        self.is_waiting = False
        """Whether `ask` waits for an answer, be it to who coordinates the group."""

    async def ask(self, api: str, **fields: Any) -> Any:
        """Returns the answer. Raises Refused, and ConnectionError where it is to be asked again."""
        self.is_waiting = True
        try:
            if self._link is None:
                self._link = await self._found(api)
            return await self._ask_over(self._link, api, fields)
        finally:
            self.is_waiting = False

    async def ask_aside(self, api: str, **fields: Any) -> Any:
        """As `ask`, over a connection of its own: the other may be parked with a JoinGroup. Raises
        TimeoutError, too."""
        link: Link | None = None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                link = await self._found(api)
                return await self._ask_over(link, api, fields)
        except TimeoutError:
            self._note(api, ErrorCode.request_timed_out)
            raise
        finally:
            if link is not None:
                self._drop(link)

    def hang_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            self._drop(link)

    async def _ask_over(self, link: Link, api: str, fields: dict[str, Any]) -> Any:
        identity = {
            "group_id": self._identity.group_id,
            "group_instance_id": self._identity.instance_id,
        }
        try:
            answer = await link.ask(api, **identity, **fields)
        except ConnectionError:
            self._note(api, ErrorCode.network_exception)
            raise
        error = _error_of(answer)
        if error is ErrorCode.none:
            return answer
        if error is not ErrorCode.member_id_required:  # the usual first half of a join
            self._note(api, error)
        if error in _LOOK_AGAIN:
            if link is self._link:
                self.hang_up()
            raise ConnectionError(error.name)
        raise Refused(error, answer)

    async def _found(self, api: str) -> Link:
        """A connection to the group's coordinator, in order to ask it `api`."""
        try:
            return await self._find()
        except ConnectionError:
            self._note(api, ErrorCode.network_exception)
            raise

    async def _find(self) -> Link:
        broker = self._broker()
        for node_id in broker.addresses:
            try:
                link = self._connect(broker, node_id)
            except ConnectionRefusedError:
                continue
            asked = {"key_type": 0, "coordinator_keys": (self._identity.group_id,)}
            try:
                found = (await link.ask("FindCoordinator", **asked)).coordinators[0]
                if found.error_code is not ErrorCode.none:
                    raise ConnectionError(found.error_code.name)
            except BaseException:
                self._drop(link)
                raise
            if found.node_id == node_id:
                return link
            self._drop(link)
            return self._connect(broker, found.node_id)
        raise ConnectionRefusedError("no node is up")

    def _connect(self, broker: Broker, node_id: int) -> Link:
        return Link(broker, node_id, self._identity.client_id, self._stepped, self._hung_up)

    def _note(self, api: str, error: ErrorCode) -> None:
        self.errors.append(Refusal(api, error.name.upper()))
        self._changed()

    def _hung_up(self) -> None:
        if self._link is not None and self._link.is_closing():
            self.hang_up()
            self._lost()

    def _drop(self, link: Link) -> None:
        self._stepped()
        link.cut()

    def _stepped(self) -> None:
        self.steps += 1


def _error_of(answer: Any) -> ErrorCode:
    """The first that there is: of the whole, of a member (LeaveGroup), of a partition."""
    parts = [answer]
    for name in ("members", "topics"):
        parts += getattr(answer, name, ())
    parts += [each for topic in getattr(answer, "topics", ()) for each in topic.partitions]
    errors = (getattr(part, "error_code", ErrorCode.none) for part in parts)
    return next((error for error in errors if error is not ErrorCode.none), ErrorCode.none)
