"""How a member of the classic protocol lives: joins, syncs, heartbeats, and does what each answer
asks of it. On the broker's loop.

What a client leaves to its user's poll loop happens here at once, and what it would notice with its
next heartbeat it notices as soon as it has happened: it then sends a heartbeat and is told.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from ...broker.broker import Broker
from ...protocol.errors import ErrorCode
from .asking import Asking, Identity, Refused
from .role import Role, Round

# A client may be late twice before its session is over, as Kafka's documentation advises for
# heartbeat.interval.ms.
HEARTBEATS_IN_SESSION = 3
# Java's retry.backoff.ms, by the broker's clock: where that is advanced, a puppet that looks for
# its coordinator must not lose its session for want of time.
BACKOFF_MS = 100
# Of wall time, whichever is over first; a frozen clock shall not keep it waiting.
BACKOFF_SECONDS = 0.005


class Member:
    """`broker`: the one that runs now. `changed` is called when what it believes has changed."""

    def __init__(
        self,
        broker: Callable[[], Broker],
        identity: Identity,
        role: Role,
        changed: Callable[[], None],
    ) -> None:
        self._broker = broker
        self.identity = identity
        self.role = role
        self._changed = changed
        self.asking = Asking(broker, identity, changed, self.nudge)
        self.is_slow = False
        self.failure: BaseException | None = None
        """Why it has given up: an error that no client gets over, or what its assignor raised."""
        self.due_ms: int | None = None
        """When it has something to do next, by the broker's clock."""
        self._nudged = asyncio.Event()
        self._life: asyncio.Task[None] | None = None
        self._steps = 0
        self._begin()

    def _begin(self) -> None:
        self.member_id = ""
        self.generation = -1
        self._completed_generation = -1
        self.role.give_up()
        self._must_join = True
        self._join_at_ms: int | None = None
        self._reason: str | None = None
        # The coordinator knows it no more, or in no such generation: what it owns it has lost.
        self._is_lost = False
        self._failures = 0
        self.is_present = True
        """Whether its process is there, be it paused."""

    @property
    def is_alive(self) -> bool:
        return self._life is not None

    @property
    def is_in_or_waits(self) -> bool:
        """Whether it was in a generation, or has given up, or waits for an answer; otherwise it is
        about to ask again."""
        has_joined = self.generation >= 0 or self.failure is not None
        return has_joined or self.asking.is_waiting

    @property
    def steps(self) -> int:
        """Grows whenever something of it is under way."""
        return self._steps + self.asking.steps

    # --- the script

    def live(self) -> None:
        if self._life is None:
            self._life = asyncio.get_running_loop().create_task(self._live())

    def pause(self) -> None:
        """It does nothing any more, and believes what it believed."""
        life, self._life = self._life, None
        if life is not None:
            life.cancel()
        self.due_ms = None

    def vanish(self) -> None:
        """Its process has ended."""
        self.pause()
        self.asking.hang_up()
        self.role.give_up()
        self.is_present = False
        self._changed()

    def reborn(self) -> None:
        """Another process takes its place: it remembers nothing."""
        self.vanish()
        self.is_slow = False
        self.failure = None
        self._begin()
        self.live()

    def nudge(self) -> None:
        """Look at once whether there is something to do."""
        self._nudged.set()

    def rejoin(self) -> None:
        self._must_join = True
        self.nudge()

    async def leave(self, reason: str | None) -> None:
        self.pause()
        who = SimpleNamespace(
            member_id=self.member_id, group_instance_id=self.identity.instance_id, reason=reason
        )
        # Whose first join is still parked has no id yet; an instance id will do.
        if self.member_id or (self.identity.instance_id is not None and self.is_present):
            with contextlib.suppress(Refused, OSError):  # they are among its errors
                await self.asking.ask_aside("LeaveGroup", members=(who,))
        self.vanish()

    async def commit(
        self, offsets: dict[tuple[str, int], int], generation: int | None, member_id: str | None
    ) -> str | None:
        """Kafka's name of the first error; None: all is committed."""
        topics = [
            SimpleNamespace(
                name=topic,
                partitions=(
                    SimpleNamespace(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        committed_metadata="",
                    ),
                ),
            )
            for (topic, index), offset in offsets.items()
        ]
        try:
            await self.asking.ask_aside(
                "OffsetCommit",
                generation_id_or_member_epoch=self.generation if generation is None else generation,
                member_id=self.member_id if member_id is None else member_id,
                topics=topics,
            )
        except (Refused, OSError):
            return self.asking.errors[-1].error
        return None

    # --- its life

    async def _live(self) -> None:
        try:
            while self.failure is None:
                try:
                    await self._do_next()
                    self._failures = 0
                except Refused as refused:
                    self._learn(refused)
                except ConnectionError:
                    await self._back_off()
        except Exception as failure:
            # Its assignor's: whoever waits for this member is told.
            self.failure = failure
        if self.failure is not None:
            self.vanish()

    async def _do_next(self) -> None:
        if not self._is_due_to_join and not self._failures:
            await self._rest()
        if self._is_due_to_join:
            await self._join()
        elif self.generation >= 0 and not self._is_lost:
            await self._ask("Heartbeat", generation_id=self.generation)

    @property
    def _is_due_to_join(self) -> bool:
        return self._must_join and not self.is_slow

    async def _rest(self) -> None:
        """Until its next heartbeat is due, or somebody nudges it."""
        timers = self._broker().node.timers
        # All that have the same interval have their heartbeats at once: the clock of a test has
        # fewer stops.
        interval_ms = max(self.identity.session_timeout_ms // HEARTBEATS_IN_SESSION, 1)
        due_ms = (timers.now_ms() // interval_ms + 1) * interval_ms
        if self._join_at_ms is not None:
            due_ms = min(due_ms, self._join_at_ms)
        with self._alarm(due_ms):
            await self._nudged.wait()
        self._nudged.clear()
        if self._join_at_ms is not None and timers.now_ms() >= self._join_at_ms:
            self._must_join = True

    async def _join(self) -> None:
        role = self.role
        if self._is_lost:
            self.generation = -1
        if self._is_lost or not role.keeps:
            role.give_up()
            self._changed()
        self._must_join, self._join_at_ms = False, None
        try:
            joined = await self._ask_to_join()
            self.member_id, self.generation = joined.member_id, joined.generation_id
            self._is_lost, self._reason = False, None
            # What was to be noticed is over; of what comes after, SyncGroup will be told.
            self._nudged.clear()
            round_ = Round(
                generation=joined.generation_id,
                completed_generation=self._completed_generation,
                protocol=joined.protocol_name,
                leader=joined.leader,
                members=joined.members,
                now_ms=self._broker().node.clock.now_ms(),
            )
            synced = await self._sync(round_, leads=_leads(joined))
            again_ms = role.take(round_, synced.assignment)
            self._completed_generation = round_.generation
        except BaseException:
            self._must_join = True
            raise
        if again_ms is not None:
            self._reason = role.reason
            self._must_join = again_ms == 0 or self._must_join
            self._join_at_ms = round_.now_ms + again_ms if again_ms else None
        self._changed()

    async def _ask_to_join(self) -> Any:
        identity = self.identity
        protocols = [SimpleNamespace(name=n, metadata=m) for n, m in self.role.protocols()]

        def ask() -> Coroutine[Any, Any, Any]:
            return self._ask(
                "JoinGroup",
                session_timeout=timedelta(milliseconds=identity.session_timeout_ms),
                rebalance_timeout=timedelta(milliseconds=identity.rebalance_timeout_ms),
                protocol_type=self.role.protocol_type,
                protocols=protocols,
                reason=self._reason,
            )

        try:
            return await ask()
        except Refused as refused:
            if refused.error is not ErrorCode.member_id_required:
                raise
            self.member_id = refused.answer.member_id
            return await ask()

    async def _sync(self, round_: Round, *, leads: bool) -> Any:
        given = self.role.lead(round_, self._broker().node.topics) if leads else {}
        return await self._ask(
            "SyncGroup",
            generation_id=round_.generation,
            protocol_type=self.role.protocol_type,
            protocol_name=round_.protocol,
            assignments=[SimpleNamespace(member_id=m, assignment=a) for m, a in given.items()],
        )

    def _learn(self, refused: Refused) -> None:
        """What a client makes of an error (AbstractCoordinator's response handlers)."""
        match refused.error:
            case ErrorCode.rebalance_in_progress:
                pass
            case ErrorCode.illegal_generation:
                self._is_lost = True
            case ErrorCode.unknown_member_id:
                self._is_lost = True
                self.member_id = ""
            case _:
                self.failure = refused
        self._must_join = True

    async def _ask(self, api: str, **fields: Any) -> Any:
        return await self.asking.ask(api, member_id=self.member_id, **fields)

    async def _back_off(self) -> None:
        self._failures += 1
        if self._failures == 1:
            return  # at once, as a rule there is another coordinator
        self._nudged.clear()
        broker = self._broker()
        with contextlib.ExitStack() as waiting:
            if broker.is_running:
                waiting.enter_context(self._alarm(broker.node.timers.now_ms() + BACKOFF_MS))
            waiting.enter_context(contextlib.suppress(TimeoutError))
            async with asyncio.timeout(BACKOFF_SECONDS):
                await self._nudged.wait()

    @contextlib.contextmanager
    def _alarm(self, due_ms: int) -> Iterator[None]:
        """While it waits: nudge it at this time."""
        timer = self._broker().node.timers.call_at(due_ms, self.nudge)
        self.due_ms = due_ms
        try:
            yield
        finally:
            self.due_ms = None
            self._steps += 1  # Who looks for deadlines just now must not take it for idle.
            timer.cancel()


def _leads(joined: Any) -> bool:
    # A leader that came back under its instance id leads later rounds only (KIP-814).
    return bool(joined.leader == joined.member_id and not joined.skip_assignment)
