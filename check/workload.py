"""The clients of a run. A seed determines the random choices of each client. The times of the
requests, and so their order and their responses, differ from run to run.

Every worker replaces its client repeatedly. Half of the clients crash unless they end first: their
connections are cut, possibly during a request.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import Any, Final, NamedTuple

from ..client_security import Security
from ..protocol.bootstrap import Address
from .cluster import Cluster, back_off
from .connection import Disconnected
from .history import SUCCESSOR, Commit, Event, Poll
from .members import ClassicMember, ConsumerMember, Member
from .producer import Producer
from .reader import Reader
from .recorder import History

PRODUCERS: Final = 3
READERS: Final = 2
PROTOCOLS: Final = ("classic", "consumer")
MEMBERS: Final = 3
"""The number of members of each group."""
RECORDS_MAX: Final = 4
"""The maximum number of records in a batch."""
TRANSACTION_STEPS_MAX: Final = 4
CLIENT_STEPS: Final = 60
"""The average number of operations of a producer or reader."""
MEMBER_STEPS: Final = 200
"""The average number of operations of a member. Members perform more operations than other clients,
because after a crash, the rest of the group has to wait until the session expires."""
LIFE_SECONDS_MIN: Final = 0.2
"""Minimum time before a client crashes, so that it can connect and begin its work."""
RECONNECT_SECONDS: Final = 0.3
"""The pause between two clients of a worker while the broker is down."""
STALL_CHANCE: Final = 0.01
ZOMBIE_CHANCE: Final = 0.5
"""The chance that a member commits with the previous generation after a rebalance."""
ZOMBIE_PRODUCER_CHANCE: Final = 0.06
"""The chance that a new producer with the same transactional id is started after a transaction."""
FINISH_SECONDS: Final = 10.0
"""Maximum time for the operations that are in progress at the end of the run."""


Work = Callable[[str, Cluster, random.Random], Awaitable[None]]
"""The work of one client, given its name, its view of the cluster, and its random numbers."""


class Options(NamedTuple):
    """The options of a run. `start_seconds`: how long the broker may take to start.
    `session_timeout_ms`: for classic members; Kafka's minimum is 6 s. `pause_s`: the average pause
    of a client after an operation."""

    bootstrap: list[Address]
    security: Security
    seconds: float
    seed: int
    start_seconds: float
    session_timeout_ms: int
    pause_s: float = 0.02


def groups(topic: str) -> dict[str, str]:
    """Return the ids of a run's groups by protocol. `topic`: the topic of the run."""
    return {each: f"{topic}-{each}" for each in PROTOCOLS}


class Workload:
    """All clients of a run. `has_consumer_protocol`: whether the broker supports KIP-848.
    `implicit`: whether the broker adds partitions to transactions by itself (KIP-890).
    `transactional_ids`: all ids that were used; their last transactions may still be open."""

    def __init__(
        self,
        options: Options,
        topic: str,
        history: History,
        *,
        has_consumer_protocol: bool,
        implicit: bool,
    ) -> None:
        self.options, self.topic, self.history = options, topic, history
        self._has_consumer_protocol, self._implicit = has_consumer_protocol, implicit
        self.transactional_ids: set[str] = set()
        self._values = count(1)
        self._is_over = asyncio.Event()
        self._clusters: set[Cluster] = set()

    async def run(self) -> None:
        """Run all clients for the number of seconds in the options."""
        workers: list[Coroutine[Any, Any, None]] = []
        for number in range(1, PRODUCERS + 1):
            workers.append(self._repeat(f"producer-{number}", self._produce, CLIENT_STEPS))
        for number in range(1, READERS + 1):
            workers.append(self._repeat(f"reader-{number}", self._read, CLIENT_STEPS))
        protocols = ["classic", *(["consumer"] if self._has_consumer_protocol else [])]
        for protocol in protocols:
            for number in range(1, MEMBERS + 1):
                client = _Consumer(self, protocol)
                workers.append(self._repeat(f"{protocol}-{number}", client.run, MEMBER_STEPS))
        tasks = [asyncio.create_task(each) for each in workers]
        try:
            seconds = self.options.seconds
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when="FIRST_EXCEPTION")
            self._is_over.set()
            if not any(each.exception() for each in done):
                await asyncio.wait(tasks, timeout=FINISH_SECONDS)
        finally:
            for each in tasks:
                each.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for cluster in self._clusters:
                cluster.disconnect()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def stop(self) -> None:
        """End the work early."""
        self._is_over.set()

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    def new_values(self, chance: random.Random) -> list[str]:
        return [f"v{next(self._values)}" for _ in range(chance.randint(1, RECORDS_MAX))]

    async def pause(self, chance: random.Random) -> None:
        await self.wait(chance.expovariate(1 / self.options.pause_s))

    async def wait(self, seconds: float) -> None:
        """Wait, but not beyond the end of the run."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_over.wait(), seconds)

    async def _repeat(self, name: str, work: Work, steps: int) -> None:
        """Run one client after another, each for about `steps` operations."""
        chance = random.Random(f"{self.options.seed} {name}")
        for number in count(1):
            if self.is_over:
                return
            client = f"{name}.{number}"
            cluster = Cluster(self.options.bootstrap, self.options.security, self.topic, client)
            self._clusters.add(cluster)
            will_crash = chance.random() < 0.5
            # An operation takes about as long as the pause after it.
            life_s = LIFE_SECONDS_MIN + chance.expovariate(1 / (steps * self.options.pause_s * 2))
            try:
                async with asyncio.timeout(life_s if will_crash else None):
                    await work(client, cluster, chance)
            except TimeoutError:
                self._crashed(client)
            except Disconnected:
                self._crashed(client)
                await self.wait(RECONNECT_SECONDS)
            finally:
                cluster.disconnect()
                self._clusters.discard(cluster)

    def _crashed(self, client: str) -> None:
        event = self.history.begin(Event(client=client, what="crashed"))
        self.history.end(event, "ok")

    # --- producers

    async def _produce(self, client: str, cluster: Cluster, chance: random.Random) -> None:
        await cluster.refresh()
        kind = chance.choice(["plain", "idempotent", "transactional", "transactional"])
        is_transactional = kind == "transactional"
        producer = self.new_producer(client, cluster, chance, kind)
        await producer.init()
        reader = Reader(cluster, self.history, client, mode="assign", is_committed=True)
        if is_transactional:
            await _seek(reader, cluster, chance)
        steps = 1 + round(chance.expovariate(1 / CLIENT_STEPS))
        for _ in range(steps):
            if self.is_over:
                return
            if is_transactional:
                is_usable = await self._transact(producer, reader, cluster, chance)
            else:
                partition = chance.choice(cluster.partitions)
                sent = await producer.send(partition, self.new_values(chance))
                is_usable = sent.is_ok
            if not is_usable:
                return
            await self.pause(chance)
            if is_transactional and chance.random() < ZOMBIE_PRODUCER_CHANCE:
                await self._continue_as_zombie(producer, cluster, chance)
                return

    async def _continue_as_zombie(
        self, producer: Producer, cluster: Cluster, chance: random.Random
    ) -> None:
        """Fence a producer, and let it continue as if it were not fenced."""
        successor = Producer(
            cluster,
            self.history,
            producer.name + SUCCESSOR,
            transactional_id=producer.transactional_id,
        )
        await successor.init()
        producer.begin()
        sent = await producer.send(chance.choice(cluster.partitions), self.new_values(chance))
        if sent.is_ok:
            await producer.end(commit=True)

    async def _transact(
        self, producer: Producer, reader: Reader, cluster: Cluster, chance: random.Random
    ) -> bool:
        """Carry out a transaction of sends and polls. Return whether the producer is still
        usable."""
        partitions = cluster.partitions
        producer.begin()
        for _ in range(chance.randint(1, TRANSACTION_STEPS_MAX)):
            if chance.random() < 0.3:
                await reader.poll(producer.transaction)
                continue
            partition = chance.choice(partitions)
            sent = await producer.send(partition, self.new_values(chance))
            if sent.outcome == "info":
                # A request that is still in flight must not become part of the next transaction.
                return False
            if not sent.is_ok:
                return await producer.end(commit=False)
        return await producer.end(commit=chance.random() < 0.7)

    def new_producer(
        self, client: str, cluster: Cluster, chance: random.Random, kind: str
    ) -> Producer:
        """Return a producer. If transactional, it uses its worker's transactional id, so that it
        fences the previous producer."""
        transactional_id = None
        if kind == "transactional":
            transactional_id = f"{self.topic}-{client.partition('.')[0]}"
            self.transactional_ids.add(transactional_id)
        return Producer(
            cluster,
            self.history,
            client,
            transactional_id=transactional_id,
            is_idempotent=kind != "plain",
            implicit=self._implicit and chance.random() < 0.7,
        )

    # --- consumers without a group

    async def _read(self, client: str, cluster: Cluster, chance: random.Random) -> None:
        await cluster.refresh()
        is_committed = chance.random() < 0.5
        reader = Reader(cluster, self.history, client, mode="assign", is_committed=is_committed)
        for _ in range(1 + round(chance.expovariate(1 / CLIENT_STEPS))):
            if self.is_over:
                return
            if not reader.positions or chance.random() < 0.05:
                await _seek(reader, cluster, chance)
            await reader.poll()
            await self.pause(chance)


async def _seek(reader: Reader, cluster: Cluster, chance: random.Random) -> None:
    """Assign some partitions, and start reading each at its beginning, its end or in between."""
    partitions = cluster.partitions
    chosen = chance.sample(partitions, chance.randint(1, len(partitions)))
    reader.positions = {}
    for each in chosen:
        end = await reader.end_offset(each)
        reader.positions[each] = chance.choice([0, end, chance.randint(0, end)])


Membership = tuple[int, str, dict[int, int]]
"""A member at one point in time: its generation or member epoch, its member id, and its positions
by partition."""


def _as_of(member: Member, before: Membership, partition: int, position: int) -> Commit:
    """Return a commit that the member would have sent in an earlier generation."""
    commit = member.new_commit(partition, position)
    commit.generation, commit.member, _ = before
    return commit


def _revoked(member: Member, before: Membership) -> dict[int, Commit]:
    """For each partition that a member of the consumer protocol has lost since `before`, return a
    commit with the epoch in `before`."""
    return {
        partition: _as_of(member, before, partition, position)
        for partition, position in before[2].items()
        if not member.is_classic and position > 0 and partition not in member.partitions
    }


class _Consumer:
    """The worker of a member of a group."""

    def __init__(self, workload: Workload, protocol: str) -> None:
        self._workload = workload
        self._group = groups(workload.topic)[protocol]
        self._is_classic = protocol == "classic"

    async def run(self, client: str, cluster: Cluster, chance: random.Random) -> None:
        workload = self._workload
        await cluster.refresh()
        member = self._new_member(client, cluster)
        is_committed, history = chance.random() < 0.7, workload.history
        reader = Reader(cluster, history, client, mode="subscribe", is_committed=is_committed)
        reader.group = self._group
        producer = workload.new_producer(client, cluster, chance, "transactional")
        if uses_transactions := chance.random() < 0.4:
            await producer.init()
        revoked: dict[int, Commit] = {}
        steps = 1 + round(chance.expovariate(1 / MEMBER_STEPS))
        for _ in range(steps):
            if workload.is_over:
                break
            before = member.generation, member.member, dict(reader.positions)
            if await member.step():
                revoked |= _revoked(member, before)
                reader.positions = await self._positions(member)
                await self._commit_as_zombie(member, before, chance)
            elif not member.partitions:
                reader.positions = {}
            await self._commit_revoked(member, revoked)
            reader.positions = {
                key: value for key, value in reader.positions.items() if key in member.partitions
            }
            if reader.positions:
                polls = await reader.poll()
                if uses_transactions:
                    if not await self._process(member, producer, polls, cluster, chance):
                        return
                else:
                    await self._commit(member, reader, chance)
            await workload.pause(chance)
            if chance.random() < STALL_CHANCE:
                # A classic member's session expires, and the member continues without noticing.
                await workload.wait(workload.options.session_timeout_ms / 1000 * 1.5)
                await self._commit(member, reader, chance)
        before = member.generation, member.member, dict(reader.positions)
        await member.leave()
        await self._commit_as_zombie(member, before, chance)

    def _new_member(self, client: str, cluster: Cluster) -> Member:
        history = self._workload.history
        if self._is_classic:
            timeout_ms = self._workload.options.session_timeout_ms
            return ClassicMember(cluster, history, client, self._group, timeout_ms)
        return ConsumerMember(cluster, history, client, self._group)

    async def _positions(self, member: Member) -> dict[int, int]:
        if not member.partitions:
            return {}
        while (committed := await member.read_committed(member.partitions)) is None:
            if self._workload.is_over:
                return {}
            await back_off()
        return {partition: max(offset, 0) for partition, offset in committed.items()}

    async def _commit(self, member: Member, reader: Reader, chance: random.Random) -> None:
        for partition, position in reader.positions.items():
            if position > 0 and chance.random() < 0.3:
                await member.commit(member.new_commit(partition, position))
                if chance.random() < 0.2:
                    await member.read_committed((partition,))

    async def _commit_as_zombie(
        self, member: Member, before: Membership, chance: random.Random
    ) -> None:
        """Commit with an earlier generation, as a member that has missed a rebalance does."""
        _, member_id, positions = before
        delivered = [(key, value) for key, value in positions.items() if value > 0]
        if not delivered or not member_id or chance.random() > ZOMBIE_CHANCE:
            return
        await member.commit(_as_of(member, before, *chance.choice(delivered)))

    async def _commit_revoked(self, member: Member, revoked: dict[int, Commit]) -> None:
        """Commit the positions of the partitions that the member has given up, with the member
        epoch that it had before. A commit has to wait while the member still has that epoch,
        because the broker would accept it."""
        for partition, commit in list(revoked.items()):
            if commit.generation < member.generation or commit.member != member.member:
                await member.commit(revoked.pop(partition))

    async def _process(
        self,
        member: Member,
        producer: Producer,
        polls: list[Poll],
        cluster: Cluster,
        chance: random.Random,
    ) -> bool:
        """Consume, produce and commit in one transaction. Return whether the producer is still
        usable."""
        delivered = [each for each in polls if each.offsets]
        if not delivered:
            return True
        producer.begin()
        values = self._workload.new_values(chance)
        sent = await producer.send(chance.choice(cluster.partitions), values)
        if sent.outcome == "info":
            return False
        is_complete = sent.is_ok
        for poll in delivered:
            if is_complete:
                commit = member.new_commit(poll.partition, poll.next_position)
                commit.begin = poll.position
                is_complete = await producer.commit_offset(commit)
                if commit.outcome == "info":
                    return False
        commits = is_complete and chance.random() < 0.8
        is_usable = await producer.end(commit=commits)
        return is_usable and commits  # after an abort, consume from the committed positions again
