"""Simulated consumers: poll loop, heartbeats and commits, as each client library does them.

The differences between libraries are those visible in the coordinator's log. From the sources of
Java's KafkaConsumer (classic protocol), librdkafka, kafka-python 3 and aiokafka 0.12.
"""

from collections.abc import Sequence
from typing import Any

from kohort.assignors.model import Assignor
from kohort.coordinator.commands import Heartbeat, JoinGroup, SyncGroup
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode as E
from kohort.testing.fake_members.roles import Consumer, JoinResult
from support.coordinator import offset_commit
from truth.oracle import Place
from truth.world import GroupSetting, World

# Java's reasons (AbstractCoordinator, ConsumerCoordinator, KafkaConsumer, KafkaAdminClient).
JAVA_REASONS = {
    "close": "the consumer is being closed",
    "slow": "consumer poll timeout has expired.",
    "again": "need to revoke partitions and re-join",
    "grown": "cached metadata has changed from (version1: {}) at the beginning of the rebalance",
    "enforced": "rebalance enforced by user",
}
BY_ADMIN = "member was removed by an admin"

# Cause of a voluntary rejoin -> key of Java's reason, if it has one.
REASON_KEYS = {
    Cause.COOPERATIVE_FOLLOWUP: "again",
    Cause.PARTITIONS_ADDED: "grown",
    Cause.LEADER_REJOINED: "enforced",
}


HEARTBEAT_MS = 3_000
COMMIT_MS = 5_000
BACKOFF_MS = 100
_ELSEWHERE = (E.not_coordinator, E.coordinator_not_available, E.coordinator_load_in_progress)


class Client:
    """A simulated consumer. `place`: host and client id."""

    def __init__(
        self,
        world: World,
        setting: GroupSetting,
        place: Place,
        assignors: Sequence[Assignor],
        instance_id: str | None,
    ) -> None:
        self.world, self.setting, self.place = world, setting, place
        self.group_id, self.library = setting.group_id, setting.library
        self.session_ms, self.max_poll_ms = setting.session_ms, setting.max_poll_ms
        self.instance_id = instance_id
        self.role = Consumer(assignors, setting.topics)
        self.member_id, self.generation = "", -1
        self.leads = False
        self.is_dead = False
        self.slow_ms = 0  # processing time of the next batch of records
        self.lead_ms = 0  # time to compute an assignment
        self._stalled_until_ms = 0
        self._polled_ms = world.now_ms()
        self._must_join, self._why = True, None  # cause of a voluntary rejoin
        self._completed = -1
        self._positions: dict[tuple[str, int], int] = {}
        self._committed: dict[tuple[str, int], int] = {}
        # Partition counts of the topics at the last assignment and at the last metadata refresh.
        self._assigned_counts: dict[str, int] = {}
        self._last_counts: dict[str, int] = {}
        self._commit_at_ms = self._refresh_at_ms = 0
        self.node_id = world.broker.leader_of(self.group_id)
        self.pending_request: tuple[int, int] | None = None
        """(node, ticket) of a request that waits for other members."""
        self._is_joining = False
        self._tasks = [
            world.tasks.start_task(self._poll()),
            world.tasks.start_task(self._heartbeat()),
        ]
        if self.library.commits != "polls":
            self._tasks.append(world.tasks.start_task(self._commit_in_background()))

    def __repr__(self) -> str:
        return f"{self.library.name} {self.place[0]} {self.member_id or 'no member'}"

    @property
    def is_settled(self) -> bool:
        """Return True for a member with nothing to do but consume."""
        return self.generation >= 0 and not self._must_join and not self.slow_ms

    @property
    def rebalance_ms(self) -> int:
        return self.max_poll_ms if self.library.sends_poll_interval else self.session_ms

    # --- called by the script

    def kill(self) -> None:
        """End the process without notice."""
        self.is_dead = True
        for task in self._tasks:
            task.kill()
        if self.pending_request is not None:
            self.world.broker.forget(*self.pending_request)

    def stall(self, ms: int) -> None:
        """Pause everything: a garbage collection, a sleeping machine, a network failure."""
        self._stalled_until_ms = self.world.now_ms() + ms

    async def close(self) -> None:
        """Commit and close; only a dynamic member sends LeaveGroup."""
        await self._commit()
        member_id = self.member_id
        self.kill()
        if self.instance_id is None and member_id:
            self.world.send_leave(self.group_id, member_id, self._reason("close"))

    def subscribe(self, topics: Sequence[str]) -> None:
        self.role.topics, self._last_counts = tuple(topics), {}
        self._rejoin(Cause.SUBSCRIPTION_CHANGED)

    def enforce_rebalance(self) -> None:
        self._rejoin(Cause.LEADER_REJOINED)

    # --- poll loop and heartbeats

    def _rejoin(self, why: Cause) -> None:
        self._must_join, self._why = True, why

    def _reason(self, what: str) -> str | None:
        return JAVA_REASONS[what] if self.library.sends_reasons else None

    async def _wait_while_stalled(self) -> None:
        while (left_ms := self._stalled_until_ms - self.world.now_ms()) > 0:
            await self.world.tasks.sleep(left_ms)

    async def _poll(self) -> None:
        while True:
            await self._wait_while_stalled()
            self._polled_ms = self.world.now_ms()
            if not self._must_join:
                self._refresh_metadata()
            if self._must_join:
                self._is_joining = True
                await self._join()
                self._is_joining = False
                continue
            if self.library.commits == "polls" and self.world.now_ms() >= self._commit_at_ms:
                self._commit_at_ms = self.world.now_ms() + COMMIT_MS
                await self._commit()
            for place in self.role.owned:
                self._positions[place] = self.world.broker.end(*place)
            slow_ms, busy, member_id = self.slow_ms, self.slow_ms > 0, self.member_id
            await self.world.tasks.sleep(slow_ms if busy else self.setting.poll_ms)
            if busy:
                self.slow_ms = 0
                if self.member_id == member_id:
                    self.world.oracle(self.group_id).cancel_exit(member_id)

    async def _heartbeat(self) -> None:
        while True:
            # The poll interval is also checked between heartbeats.
            until_slow_ms = self._polled_ms + self.max_poll_ms + BACKOFF_MS - self.world.now_ms()
            looks_early = self.generation >= 0 and 0 < until_slow_ms < HEARTBEAT_MS
            await self.world.tasks.sleep(until_slow_ms if looks_early else HEARTBEAT_MS)
            await self._wait_while_stalled()
            if self.generation < 0 or self._is_joining:
                continue
            if self.world.now_ms() - self._polled_ms > self.max_poll_ms:
                self._leave_for_slowness()
                continue
            generation = self.generation
            beat = Heartbeat(self.group_id, generation, self.member_id, self.instance_id)
            done = await self._request(beat)
            if generation == self.generation and not self._is_joining:
                self._handle_error(done.error_code)

    def _leave_for_slowness(self) -> None:
        member_id = self.member_id
        self._forget_membership()
        if self.instance_id is None:
            self.world.send_leave(self.group_id, member_id, self._reason("slow"))

    def _forget_membership(self) -> None:
        self.member_id, self.generation = "", -1
        self._must_join = True

    def _refresh_metadata(self) -> None:
        """Rejoin if partitions were added to a subscribed topic."""
        now_ms = self.world.now_ms()
        if now_ms < self._refresh_at_ms:
            return
        self._refresh_at_ms = now_ms + self.setting.metadata_ms
        counted = self.world.count_partitions(self.role.topics)
        if self.library.watches_partitions == "all":
            before, self._last_counts = self._last_counts or counted, counted
            if counted != before:
                # The group may already have rebalanced for the new partitions.
                is_news = counted != self._assigned_counts
                self._rejoin(Cause.PARTITIONS_ADDED if is_news else Cause.METADATA_CHANGED)
        elif self.leads and counted != self._assigned_counts:
            self._rejoin(Cause.PARTITIONS_ADDED)

    # --- the group

    async def _join(self) -> None:
        if self.generation >= 0:
            await self._commit()
        if self.generation < 0 or not self.role.is_cooperative:
            self.role.revoke_all()
        self._must_join = False
        why, self._why = self._why, None
        joined = await self._request(self._join_group(why), why)
        if joined.error_code is E.member_id_required:
            self.member_id = joined.member_id
            joined = await self._request(self._join_group(why), why)
        if joined.error_code is not E.none:
            self._must_join, self._why = True, why
            await self._recover(joined.error_code)
            return
        self.member_id, self.generation = joined.member_id, joined.generation_id
        self.leads = joined.leader == joined.member_id
        self._polled_ms = self.world.now_ms()
        rebalance = JoinResult(
            generation=joined.generation_id,
            previous_generation=self._completed,
            protocol=joined.protocol_name,
            leader=joined.leader,
            members=joined.members,
            now_ms=self.world.now_ms(),
        )
        synced = await self._sync(rebalance, leads=self.leads and not joined.skip_assignment)
        if synced.error_code is not E.none:
            self._must_join = True
            await self._recover(synced.error_code)
            return
        self._completed = rebalance.generation
        if self.role.apply(rebalance, synced.assignment) is not None:
            self._rejoin(Cause.COOPERATIVE_FOLLOWUP)
        await self._fetch_committed()

    def _join_group(self, why: Cause | None) -> JoinGroup:
        reason = REASON_KEYS.get(why) if why is not None else None
        return JoinGroup(
            self.group_id,
            self.member_id,
            self.instance_id,
            self.place[1],
            self.place[0],
            self.session_ms,
            self.rebalance_ms,
            "consumer",
            tuple(self.role.protocols()),
            True,
            True,
            None if reason is None else self._reason(reason),
            self.library.software,
        )

    async def _sync(self, rebalance: JoinResult, *, leads: bool) -> Any:
        assignments: dict[str, bytes] = {}
        self._assigned_counts = self.world.count_partitions(self.role.topics)
        if leads:
            if self.lead_ms:
                await self.world.tasks.sleep(self.lead_ms)
            assignments = self.role.assign(rebalance, self.world.broker.topics)
        return await self._request(
            SyncGroup(
                self.group_id,
                rebalance.generation,
                self.member_id,
                self.instance_id,
                "consumer",
                rebalance.protocol,
                tuple(assignments.items()),
            )
        )

    async def _recover(self, error: E) -> None:
        self._handle_error(error)
        await self.world.tasks.sleep(BACKOFF_MS)

    def _handle_error(self, error: E) -> None:
        """Handle an error like Java's AbstractCoordinator."""
        if error is E.none or error in _ELSEWHERE:
            return
        if error in (E.unknown_member_id, E.fenced_instance_id):
            self._forget_membership()
        elif error in (E.rebalance_in_progress, E.illegal_generation):
            self._must_join = True
        else:
            raise AssertionError(f"{self} received an unexpected {error.name}")

    # --- commits

    async def _commit_in_background(self) -> None:
        while True:
            await self.world.tasks.sleep(COMMIT_MS)
            await self._wait_while_stalled()
            if not self._is_joining:
                await self._commit()

    async def _commit(self) -> None:
        if self.generation < 0:
            return
        place_of = [place for place in self.role.owned if place in self._positions]
        if self.library.commits == "background-changes":
            place_of = [p for p in place_of if self._committed.get(p) != self._positions[p]]
        if not place_of:
            return
        generation = self.generation
        done = await self._request(
            offset_commit(
                self.group_id,
                [(*p, self._positions[p]) for p in place_of],
                generation=generation,
                member_id=self.member_id,
                instance=self.instance_id,
            )
        )
        if done.errors[0] is E.none:
            self._committed.update((p, self._positions[p]) for p in place_of)
        elif done.errors[0] is not E.rebalance_in_progress and generation == self.generation:
            self._handle_error(done.errors[0])

    async def _fetch_committed(self) -> None:
        """Set positions to the committed offsets, or 0 for partitions without one."""
        committed = self.world.committed
        self._positions = {p: committed.get((self.group_id, p), 0) for p in self.role.owned}
        self._committed = dict(self._positions)

    async def _request(self, command: Any, why: Cause | None = None) -> Any:
        while True:
            await self._wait_while_stalled()
            result = await self.world.request(self, command, why)
            error = getattr(result, "error_code", None) or getattr(result, "errors", (E.none,))[0]
            if error not in _ELSEWHERE:
                return result
            await self.world.tasks.sleep(BACKOFF_MS)
            self.node_id = self.world.broker.leader_of(self.group_id)
