"""Connect workers as real group members, each with its own connection to a broker.

The broker's clock is set by the test. What a worker runs is a list.
"""

import asyncio
from typing import Any

from kohort.assignors.connect.assignor import ConnectAssignor, running_after, worker_assignments
from kohort.assignors.connect.protocol import (
    PROTOCOL_TYPE,
    PROTOCOLS,
    WorkerAssignment,
    WorkerState,
    WorkItem,
    read_assignment,
    read_metadata,
    write_assignment,
    write_metadata,
)
from support.runtime import ManualClock
from support.wire import AsyncClient

from ...parity.brokers import KohortBroker

HEARTBEAT_MS = 3_000  # Kafka Connect's heartbeat.interval.ms
SESSION_MS = 10_000
CONFIG_OFFSET = 1


class Worker:
    """`stopped`: everything that was ever revoked; `assignment`: the last one."""

    def __init__(self, name: str, group: str, connection: AsyncClient) -> None:
        self.name = name
        self.running: list[WorkItem] = []
        self.stopped: list[WorkItem] = []
        self.assignment: WorkerAssignment | None = None
        self.rejoins_at_ms: int | None = None
        self.connection = connection
        self._group = group
        self._member_id = ""
        self._generation = -1
        self._assignor = ConnectAssignor()
        self._joined: Any = None

    async def join(self) -> None:
        """Returns when the rebalance is complete."""
        now = WorkerAssignment("", "", CONFIG_OFFSET, tuple(self.running))
        state = WorkerState(f"http://{self.name}", CONFIG_OFFSET, now if self.running else None)
        request = {
            "session_timeout": SESSION_MS,
            "rebalance_timeout": 60_000,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [
                {"name": name, "metadata": write_metadata(state, version)}
                for name, version in PROTOCOLS.items()
            ],
        }
        joined = await self._send("JoinGroup", 9, request)
        if joined["error_code"] == "member_id_required":
            self._member_id = joined["member_id"]
            joined = await self._send("JoinGroup", 9, request)
        assert joined["error_code"] == "none", joined
        self._joined = joined

    async def sync(self, connectors: dict[str, int], now_ms: int) -> None:
        """Send SyncGroup, as the leader with all assignments, and carry out the assignment."""
        joined = self._joined
        last_completed, self._generation = self._generation, joined["generation_id"]
        assignments: dict[str, WorkerAssignment] = {}
        if joined["leader"] == self._member_id:
            assignments = worker_assignments(
                self._assignor,
                self._member_id,
                {m["member_id"]: read_metadata(m["metadata"]) for m in joined["members"]},
                connectors,
                config_offset=CONFIG_OFFSET,
                now_ms=now_ms,
                generation=joined["generation_id"],
                last_completed_generation=last_completed,
            )
        version = PROTOCOLS[joined["protocol_name"]]
        request = {
            "generation_id": joined["generation_id"],
            "protocol_type": PROTOCOL_TYPE,
            "protocol_name": joined["protocol_name"],
            "assignments": [
                {"member_id": member, "assignment": write_assignment(assignment, version)}
                for member, assignment in assignments.items()
            ],
        }
        synced = await self._send("SyncGroup", 5, request)
        assert synced["error_code"] == "none", synced
        self.assignment = assignment = read_assignment(synced["assignment"])
        self.stopped += assignment.revoked
        self.running = running_after(self.running, assignment.assigned, assignment.revoked)
        rejoins = assignment.delay_ms or assignment.revoked
        self.rejoins_at_ms = now_ms + assignment.delay_ms if rejoins else None

    async def heartbeat(self) -> str:
        response = await self._send("Heartbeat", 4, {"generation_id": self._generation})
        error: str = response["error_code"]
        return error

    async def _send(self, api: str, version: int, fields: dict[str, Any]) -> Any:
        identity = {"group_id": self._group, "member_id": self._member_id}
        return await self.connection.call(api, version, **identity, **fields)


class SocketWorkers:
    """The group. `rebalances`: the assignments of all workers in each rebalance."""

    def __init__(
        self, broker: KohortBroker, clock: ManualClock, connectors: dict[str, int]
    ) -> None:
        self.rebalances: list[dict[str, WorkerAssignment]] = []
        self.workers: dict[str, Worker] = {}
        self._broker, self._clock = broker, clock
        self._connectors = connectors
        self._control: AsyncClient
        self._joining: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "SocketWorkers":
        self._control = await AsyncClient.connect(self._broker.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.connection.close()
        self._control.close()

    async def join(self, *names: str) -> None:
        """Start the joins, one after the other; they wait for the others, or for time to pass."""
        for name in names:
            worker = Worker(
                name, "connect-cluster", await AsyncClient.connect(self._broker.port, name)
            )
            self.workers[name] = worker
            self._joining.append(asyncio.create_task(worker.join()))
            for _ in range(2):  # MEMBER_ID_REQUIRED, then the join
                await self._broker.settle(self._control, lambda: False)

    def die(self, name: str) -> None:
        self.workers.pop(name).connection.close()

    async def complete_first_rebalance(self, initial_delay_ms: int) -> None:
        """The initial delay is extended once, because members join during it."""
        for _ in range(2):
            await self._broker.advance(initial_delay_ms)
        await self._complete_rebalance()

    async def run_until_rebalance(self, number: int) -> None:
        """Heartbeats, and rebalances when they are due."""
        for _ in range(1_000):
            if len(self.rebalances) >= number:
                return
            await self._heartbeat()
        raise AssertionError(f"only {len(self.rebalances)} rebalances")

    async def run(self, ms: int) -> None:
        for _ in range(ms // HEARTBEAT_MS):
            await self._heartbeat()

    async def _heartbeat(self) -> None:
        await self._broker.advance(HEARTBEAT_MS)
        now_ms = self._clock.now_ms()
        assigned = [w for w in self.workers.values() if w.assignment is not None]
        due = [w for w in assigned if w.rejoins_at_ms is not None and w.rejoins_at_ms <= now_ms]
        errors = [await worker.heartbeat() for worker in assigned]
        if due or "rebalance_in_progress" in errors:
            self._joining += [asyncio.create_task(worker.join()) for worker in assigned]
            await self._complete_rebalance()

    async def _complete_rebalance(self) -> None:
        await asyncio.gather(*self._joining)
        self._joining = []
        now_ms = self._clock.now_ms()
        await asyncio.gather(*(w.sync(self._connectors, now_ms) for w in self.workers.values()))
        workers = self.workers.values()
        self.rebalances.append({w.name: w.assignment for w in workers if w.assignment is not None})
