"""Scripted Connect workers: real members of a group of type `connect`, each with a connection of
its own to a broker whose clock the test turns. What they run is a list.
"""

import asyncio
from typing import Any

from kohort.assignors.connect.assignor import ConnectAssignor
from kohort.assignors.connect.leading import answers
from kohort.assignors.connect.model import Piece, after
from kohort.assignors.connect.protocol import (
    PROTOCOL_TYPE,
    PROTOCOLS,
    WorkerAssignment,
    WorkerState,
    read_assignment,
    read_metadata,
    write_assignment,
    write_metadata,
)

from ...parity.peers import HandClock, Ours
from ...parity.wire import Connection, connect, request_of

HEARTBEAT_MS = 3_000  # Kafka Connect's heartbeat.interval.ms; its sessions are longer, too
SESSION_MS = 10_000
CONFIG_OFFSET = 1
PATIENCE_SECONDS = 30


class Worker:
    """`stopped` is what it was ever told to stop; `told` its last assignment."""

    def __init__(self, name: str, group: str, connection: Connection) -> None:
        self.name = name
        self.running: list[Piece] = []
        self.stopped: list[Piece] = []
        self.told: WorkerAssignment | None = None
        self.rejoins_at_ms: int | None = None
        self.connection = connection
        self._group = group
        self._member_id = ""
        self._generation = -1
        self._assignor = ConnectAssignor()
        self._joined: Any = None

    async def join(self) -> None:
        """Until the round has all its members."""
        now = WorkerAssignment("", "", CONFIG_OFFSET, tuple(self.running))
        state = WorkerState(f"http://{self.name}", CONFIG_OFFSET, now if self.running else None)
        said = {
            "session_timeout": SESSION_MS,
            "rebalance_timeout": 60_000,
            "protocol_type": PROTOCOL_TYPE,
            "protocols": [
                {"name": name, "metadata": write_metadata(state, version)}
                for name, version in PROTOCOLS.items()
            ],
        }
        joined = await self._ask("JoinGroup", 9, said)
        if joined.error_code.name == "member_id_required":
            self._member_id = joined.member_id
            joined = await self._ask("JoinGroup", 9, said)
        assert joined.error_code.name == "none", joined
        self._joined = joined

    async def sync(self, connectors: dict[str, int], now_ms: int) -> None:
        """The leader decides; each does as it is told."""
        joined = self._joined
        last_completed, self._generation = self._generation, joined.generation_id
        given: dict[str, WorkerAssignment] = {}
        if joined.leader == self._member_id:
            given = answers(
                self._assignor,
                self._member_id,
                {member.member_id: read_metadata(member.metadata) for member in joined.members},
                connectors,
                config_offset=CONFIG_OFFSET,
                now_ms=now_ms,
                generation=joined.generation_id,
                last_completed_generation=last_completed,
            )
        version = PROTOCOLS[joined.protocol_name]
        said = {
            "generation_id": joined.generation_id,
            "protocol_type": PROTOCOL_TYPE,
            "protocol_name": joined.protocol_name,
            "assignments": [
                {"member_id": member, "assignment": write_assignment(assignment, version)}
                for member, assignment in given.items()
            ],
        }
        synced = await self._ask("SyncGroup", 5, said)
        assert synced.error_code.name == "none", synced
        self.told = told = read_assignment(synced.assignment)
        self.stopped += told.revoked
        self.running = after(self.running, told.assigned, told.revoked)
        again = told.delay_ms or told.revoked  # who stops something joins again at once
        self.rejoins_at_ms = now_ms + told.delay_ms if again else None

    async def heartbeat(self) -> str:
        said = await self._ask("Heartbeat", 4, {"generation_id": self._generation})
        answer: str = said.error_code.name
        return answer

    async def _ask(self, api: str, version: int, said: dict[str, Any]) -> Any:
        identity = {"group_id": self._group, "member_id": self._member_id}
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request = request_of(api, version, {**identity, **said})
        self.connection.send(api, version, self.name, request, answered.set_result)
        return await asyncio.wait_for(answered, PATIENCE_SECONDS)


class SocketWorkers:
    """The group. `rounds` has for each rebalance what every worker was told."""

    def __init__(self, broker: Ours, clock: HandClock, connectors: dict[str, int]) -> None:
        self.rounds: list[dict[str, WorkerAssignment]] = []
        self.workers: dict[str, Worker] = {}
        self._broker, self._clock = broker, clock
        self._connectors = connectors
        self._control: Connection
        self._joining: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "SocketWorkers":
        self._control = await connect(self._broker.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.connection.close()
        self._control.close()

    async def come(self, *names: str) -> None:
        """They wait in their joins, the first one first, for the others to join or time to pass."""
        for name in names:
            worker = Worker(name, "connect-cluster", await connect(self._broker.port))
            self.workers[name] = worker
            self._joining.append(asyncio.create_task(worker.join()))
            for _ in range(2):  # a new member joins in two steps
                await self._broker.settle(self._control, lambda: False)

    def die(self, name: str) -> None:
        self.workers.pop(name).connection.close()

    async def form(self, initial_delay_ms: int) -> None:
        """The first round of all, which waits a second time because others came in the first."""
        for _ in range(2):
            await self._broker.pass_ms(initial_delay_ms)
        await self._finish_round()

    async def live_until_round(self, number: int) -> None:
        """Heartbeats, and rounds when they are due."""
        for _ in range(1_000):
            if len(self.rounds) >= number:
                return
            await self._beat()
        raise AssertionError(f"there were only {len(self.rounds)} rounds")

    async def live(self, ms: int) -> None:
        for _ in range(ms // HEARTBEAT_MS):
            await self._beat()

    async def _beat(self) -> None:
        await self._broker.pass_ms(HEARTBEAT_MS)
        now_ms = self._clock.now_ms()
        settled = [w for w in self.workers.values() if w.told is not None]
        due = [w for w in settled if w.rejoins_at_ms is not None and w.rejoins_at_ms <= now_ms]
        heard = [await worker.heartbeat() for worker in settled]
        if due or "rebalance_in_progress" in heard:
            self._joining += [asyncio.create_task(worker.join()) for worker in settled]
            await self._finish_round()

    async def _finish_round(self) -> None:
        await asyncio.gather(*self._joining)
        self._joining = []
        now_ms = self._clock.now_ms()
        await asyncio.gather(*(w.sync(self._connectors, now_ms) for w in self.workers.values()))
        self.rounds.append({w.name: w.told for w in self.workers.values() if w.told is not None})
