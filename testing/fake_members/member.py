"""A fake member of the classic protocol: it joins, syncs, sends heartbeats, and reacts to each
response.

The member runs on the broker's loop and does immediately what a client does in its next poll. When
its group changes, it immediately sends a heartbeat, whereas a client waits for its next heartbeat.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from ...broker.broker import Broker
from ...protocol.errors import ErrorCode
from .client import CoordinatorClient, ErrorResponse, Identity
from .roles import JoinResult, Role

# The ratio that Kafka's documentation of heartbeat.interval.ms recommends.
HEARTBEATS_PER_SESSION = 3
# Java's retry.backoff.ms, by the broker's clock, so that a member that searches for its coordinator
# does not lose its session while a test advances the clock.
BACKOFF_MS = 100
# The backoff also ends after this wall-clock time, because the broker's clock may be frozen.
BACKOFF_SECONDS = 0.005
# After more errors than this in a row, a member pauses before it rejoins. Fewer errors are normal,
# because each joining member may interrupt the others' rejoin.
PROMPT_REJOINS_MAX = 10


class GroupMember:
    """`broker` returns the running broker. `on_change` is called when the member's state has
    changed."""

    def __init__(
        self,
        broker: Callable[[], Broker],
        identity: Identity,
        role: Role,
        on_change: Callable[[], None],
    ) -> None:
        self._broker = broker
        self.identity = identity
        self.role = role
        self._on_change = on_change
        self.client = CoordinatorClient(broker, identity, on_change, self.wake)
        self.is_polling = True
        """If False, the member does not rejoin, like a consumer that does not poll."""
        self.failure: BaseException | None = None
        """Why the member has stopped: a fatal error, or an exception of its assignor."""
        self.due_ms: int | None = None
        """When the member acts next, by the broker's clock."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._activity = 0
        self._forget()

    def _forget(self) -> None:
        """Reset to the state of a new process."""
        self.member_id = ""
        self.generation = -1
        self._assigned_generation = -1
        self.role.forget()
        self._must_join = True
        self._rejoin_at_ms: int | None = None
        self._reason: str | None = None
        # Set when an error shows that the coordinator has removed the member or ended its
        # generation, and that its partitions are lost.
        self._is_removed = False
        # Consecutive failed connections, and consecutive error responses.
        self._failures = self._errors = 0
        self.exists = True
        """Whether the member's process exists, even if suspended."""

    @property
    def is_running(self) -> bool:
        return self._task is not None

    @property
    def is_steady(self) -> bool:
        """Whether the member only sends heartbeats until the next event of its group."""
        is_asleep = self.due_ms is not None and not self._failures and self._rejoin_at_ms is None
        return is_asleep and self.generation >= 0 and not (self._must_join or self._is_removed)

    @property
    def has_joined_or_waits(self) -> bool:
        """Whether the member has a generation, has stopped, or waits for a response. Otherwise it
        is about to send a request."""
        has_joined = self.generation >= 0 or self.failure is not None
        return has_joined or self.client.is_waiting

    @property
    def activity(self) -> int:
        """The number of actions of the member and its client (see CoordinatorClient.activity)."""
        return self._activity + self.client.activity

    # --- called by the test

    def run(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def suspend(self) -> None:
        """Stop until `run`, and keep the member's state."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        self.due_ms = None

    def kill(self) -> None:
        self.suspend()
        self.client.disconnect()
        self.role.revoke_all()
        self.exists = False
        self._on_change()

    def restart(self) -> None:
        self.kill()
        self.is_polling = True
        self.failure = None
        self._forget()
        self.run()

    def wake(self) -> None:
        """Act immediately if necessary."""
        self._wake.set()

    def rejoin(self) -> None:
        self._must_join = True
        self.wake()

    async def leave(self, reason: str | None) -> None:
        self.suspend()
        instance_id = self.identity.instance_id
        leaving = SimpleNamespace(
            member_id=self.member_id, group_instance_id=instance_id, reason=reason
        )
        # Before the response to its first JoinGroup, a member has no member id. An instance id is
        # enough to leave.
        if self.member_id or (instance_id is not None and self.exists):
            with contextlib.suppress(ErrorResponse, OSError):  # recorded in `errors`
                await self.client.request_separately("LeaveGroup", members=(leaving,))
        self.kill()

    async def close(self) -> None:
        """Shut down like a consumer that is closed: a dynamic member leaves the group."""
        if self.identity.instance_id is None and self.exists:
            await self.leave("the consumer is being closed")  # Java's reason
        else:
            self.kill()

    async def commit(
        self, topic: str, partition: int, offset: int, generation: int | None, member_id: str | None
    ) -> str | None:
        """Commit an offset. Return None, or Kafka's name for the error."""
        entry = SimpleNamespace(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=-1,
            committed_metadata="",
        )
        try:
            await self.client.request_separately(
                "OffsetCommit",
                generation_id_or_member_epoch=self.generation if generation is None else generation,
                member_id=self.member_id if member_id is None else member_id,
                topics=[SimpleNamespace(name=topic, partitions=(entry,))],
            )
        except (ErrorResponse, OSError):
            return self.client.errors[-1].error
        return None

    # --- the member's task

    async def _run(self) -> None:
        try:
            while self.failure is None:
                try:
                    await self._step()
                    self._failures = self._errors = 0
                except ErrorResponse as response:
                    self._handle_error(response)
                    self._failures = 0
                    self._errors += 1
                    if self._errors > PROMPT_REJOINS_MAX and self._is_due_to_join:
                        await self._pause()
                except ConnectionError:
                    await self._back_off()
        except Exception as failure:
            self.failure = failure  # raised by its assignor; re-raised in the waiting test
        if self.failure is not None:
            self.kill()

    async def _step(self) -> None:
        if not self._is_due_to_join and not self._failures:
            await self._sleep()
        if self._is_due_to_join:
            await self._join()
        elif self.generation >= 0 and not self._is_removed:
            await self._request("Heartbeat", generation_id=self.generation)

    @property
    def _is_due_to_join(self) -> bool:
        return self._must_join and self.is_polling

    @property
    def _heartbeat_interval_ms(self) -> int:
        return max(self.identity.session_timeout_ms // HEARTBEATS_PER_SESSION, 1)

    async def _sleep(self) -> None:
        """Sleep until the next heartbeat is due, or until woken."""
        timers = self._broker().node.timers
        # Members with the same interval send heartbeats at the same time, so that advancing the
        # clock needs fewer stops.
        interval_ms = self._heartbeat_interval_ms
        due_ms = (timers.now_ms() // interval_ms + 1) * interval_ms
        if self._rejoin_at_ms is not None:
            due_ms = min(due_ms, self._rejoin_at_ms)
        with self._wake_at(due_ms):
            await self._wake.wait()
        self._wake.clear()
        if self._rejoin_at_ms is not None and timers.now_ms() >= self._rejoin_at_ms:
            self._must_join = True

    async def _join(self) -> None:
        role = self.role
        if self._is_removed:
            self.generation = -1
        if self._is_removed or not role.is_cooperative:
            role.revoke_all()
            self._on_change()
        self._must_join, self._rejoin_at_ms = False, None
        try:
            response = await self._send_join()
            self.member_id, self.generation = response.member_id, response.generation_id
            self._is_removed, self._reason = False, None
            # Earlier wake-ups are obsolete; SyncGroup reports later changes.
            self._wake.clear()
            joined = JoinResult(
                generation=response.generation_id,
                previous_generation=self._assigned_generation,
                protocol=response.protocol_name,
                leader=response.leader,
                members=response.members,
                now_ms=self._broker().node.clock.now_ms(),
            )
            # A leader that has rejoined with its instance id does not assign (KIP-814, since v9).
            skips = getattr(response, "skip_assignment", False)
            is_leader = response.leader == response.member_id and not skips
            synced = await self._send_sync(joined, is_leader=is_leader)
            rejoin_in_ms = role.apply(joined, synced.assignment)
            self._assigned_generation = joined.generation
        except BaseException:
            self._must_join = True
            raise
        if rejoin_in_ms is not None:
            self._reason = role.rejoin_reason
            self._must_join = rejoin_in_ms == 0 or self._must_join
            self._rejoin_at_ms = joined.now_ms + rejoin_in_ms if rejoin_in_ms else None
        self._on_change()

    async def _send_join(self) -> Any:
        identity = self.identity
        protocols = [SimpleNamespace(name=n, metadata=m) for n, m in self.role.protocols()]

        def send() -> Coroutine[Any, Any, Any]:
            return self._request(
                "JoinGroup",
                session_timeout=timedelta(milliseconds=identity.session_timeout_ms),
                rebalance_timeout=timedelta(milliseconds=identity.rebalance_timeout_ms),
                protocol_type=self.role.protocol_type,
                protocols=protocols,
                reason=self._reason,
            )

        try:
            return await send()
        except ErrorResponse as error:
            if error.error is not ErrorCode.member_id_required:
                raise
            self.member_id = error.response.member_id
            return await send()

    async def _send_sync(self, joined: JoinResult, *, is_leader: bool) -> Any:
        assigned = self.role.assign(joined, self._broker().node.topics) if is_leader else {}
        return await self._request(
            "SyncGroup",
            generation_id=joined.generation,
            protocol_type=self.role.protocol_type,
            protocol_name=joined.protocol,
            assignments=[SimpleNamespace(member_id=m, assignment=a) for m, a in assigned.items()],
        )

    def _handle_error(self, response: ErrorResponse) -> None:
        """Handle errors like the response handlers of AbstractCoordinator."""
        match response.error:
            case ErrorCode.rebalance_in_progress:
                pass
            case ErrorCode.illegal_generation:
                self._is_removed = True
            case ErrorCode.unknown_member_id:
                self._is_removed = True
                self.member_id = ""
            case _:
                self.failure = response
        self._must_join = True

    async def _request(self, api: str, **fields: Any) -> Any:
        return await self.client.request(api, member_id=self.member_id, **fields)

    async def _back_off(self) -> None:
        self._failures += 1
        if self._failures > 1:  # usually the group already has another coordinator
            await self._pause()

    async def _pause(self) -> None:
        self._wake.clear()
        broker = self._broker()
        with contextlib.ExitStack() as waiting:
            if broker.is_running and broker.cluster.up:  # otherwise, waiting does not help
                waiting.enter_context(self._wake_at(broker.node.timers.now_ms() + BACKOFF_MS))
            waiting.enter_context(contextlib.suppress(TimeoutError))
            async with asyncio.timeout(BACKOFF_SECONDS):
                await self._wake.wait()

    @contextlib.contextmanager
    def _wake_at(self, due_ms: int) -> Iterator[None]:
        timer = self._broker().node.timers.call_at(due_ms, self.wake)
        self.due_ms = due_ms
        try:
            yield
        finally:
            self.due_ms = None
            self._activity += 1  # the member has no deadline now, but must not appear idle
            timer.cancel()
