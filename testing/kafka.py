"""What a test holds in its hand: a broker of its own, to be asked and steered."""

import asyncio
import time
import warnings
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, starmap
from typing import Any, Self, TypeVar

from ..broker.broker import Broker
from ..broker.config.broker_config import BrokerConfig
from ..broker.timers import Timers
from ..coordinator.outcome import GroupEvent
from ..log.group_commit import Durability
from ..protocol.apis import NEWEST
from ..protocol.framing import address
from .asked import Asked, api_named
from .choreography import FastEviction
from .clock import ClockControl, VirtualClock
from .disk import Disk
from .doctor import Doctor
from .fake_members.all import Puppets
from .fake_members.puppeteer import Puppeteer
from .faults import Fault, Faults
from .faulty_files import FaultyFiles
from .group import Group
from .history import History, matches
from .life import HOST, Life
from .loop_thread import PATIENCE_SECONDS, LoopThread
from .presets import Config, Preset, check_durability, new_config, texts_of, with_preset
from .steering import Steering
from .topic import Topic
from .waiting import LOOK_SECONDS, TIMEOUT_SECONDS, BarrierTimeout, Changes, is_met, may_wait

T = TypeVar("T")


class Kafka(Life, Puppeteer):
    """A broker in a thread of this process, on ports of its own, in memory.

        with Kafka() as kafka:
            ...  # kafka.bootstrap_servers

    `preset`: `instant` lets no rebalance wait for latecomers, `kafka` has Kafka's own times;
    `profile`: whose API versions it serves: `kafka-2.8`, `kafka-3.9`, `kafka-4.x`;
    `config` are Kafka's keys (docs/configuration.md) and win over it: texts, numbers, bools; or all
    settings, nodes and profile with them. `evict_disconnected`: a member whose connection dies is
    out at once, not after its session timeout. `durability`: when the disk (`kafka.disk`, in
    memory) is synced, as in `kohort serve --durability`. `loop`: a thread to share with others;
    without one it has its own. `port`: of the first node, 0 for free ones.

    Everything here is called from the test's thread. What is named as a wait takes a `timeout` in
    seconds of wall time."""

    # On an event loop they have others (aio.py).
    _clock_type: type[ClockControl] = ClockControl
    _faults_type: type[Faults[Any]] = Faults
    clock: ClockControl
    faults: Faults[Fault]

    def __init__(
        self,
        *,
        nodes: int = 1,
        preset: Preset = "instant",
        profile: str = NEWEST,
        config: Config | BrokerConfig | None = None,
        evict_disconnected: bool = False,
        durability: Durability = "none",
        loop: LoopThread | None = None,
        host: str = HOST,
        port: int = 0,
    ) -> None:
        if not isinstance(config, BrokerConfig):
            config = new_config(nodes, profile, config or {})
            for sentence in config.warnings():  # of keys that change nothing
                warnings.warn(sentence, stacklevel=2)
        self._config = with_preset(config, preset)
        check_durability(durability)
        self._evict_disconnected = evict_disconnected
        self._loop = loop
        self._durability = durability
        self._host = host
        self._ports: int | Sequence[int] = port
        self._closing = ExitStack()
        self.changes = Changes()
        self._begin(VirtualClock(), FaultyFiles())

    def _begin(self, clock: VirtualClock, files: FaultyFiles) -> None:
        """A broker that knows nothing of what was, but for what these files hold."""
        self._time = clock
        self.history = History(clock.now_ms)
        self.steering = Steering(self._told)
        self.faults = self._faults_type(self)
        self.steering.keepers.append(self.faults.meet)
        if self._evict_disconnected:
            self.steering.keepers.insert(0, FastEviction(self).meet)
        self.clock = self._clock_type(self, clock)
        self.puppets = Puppets(self)
        self.doctor = Doctor(self)
        self.disk = Disk(self, files)
        self.broker = self._new_broker()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.bootstrap_servers or 'no address yet'}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.faults.check()
        finally:
            self.stop()

    def start(self) -> Self:
        """When this returns, clients can connect."""
        if self.broker.is_running:
            raise RuntimeError(f"{self} is started already, as `with` and the fixtures have it")
        with ExitStack() as closing:
            if self._loop is None:
                self._loop = closing.enter_context(LoopThread())
                closing.callback(setattr, self, "_loop", None)
            self.run(self._start())
            self._closing = closing.pop_all()
        return self

    def stop(self) -> None:
        """Clients are cut off; no thread and no socket is left behind. Nothing, where it is stopped
        already."""
        if self._loop is None:
            return
        try:
            self.puppets.close()
            self.run(self._stop())
        finally:
            self._closing.close()

    def reset(self) -> None:
        """As new, at the same address: no topics, no groups, no history. Clients are cut off, and
        those that are not closed come back."""
        self.puppets.close()
        with self._between_lives():
            self.run(self._stop())
            self._begin(VirtualClock(), FaultyFiles())
            self.run(self._start())

    # --- what there is

    @property
    def bootstrap_servers(self) -> str:
        """Every node, as a client's bootstrap.servers has it: `127.0.0.1:34567`."""
        return ",".join(starmap(address, self.broker.addresses.values()))

    def topic(
        self, name: str, partitions: int | None = None, config: Config | None = None
    ) -> Topic:
        """The topic, made if it is not there: with so many partitions (num.partitions) and these
        of Kafka's topic configs. Raises ValueError for what Kafka would refuse, and for a topic
        that is there with another number of partitions, or another of these configs."""
        topic = Topic(self, name)
        topic.make(partitions, texts_of(config or {}))
        return topic

    def group(self, group_id: str) -> Group:
        """The group, which need not exist yet."""
        return Group(self, group_id)

    @property
    def groups(self) -> list[Group]:
        """All that exist, in the order of their names."""

        def names() -> set[str]:
            return {
                name
                for node in self.broker.cluster.nodes.values()
                for shard in node.coordinators.contexts.values()
                for name in (*shard.coordinator.groups, *shard.offsets.groups())
            }

        return [self.group(name) for name in sorted(self.ask(lambda _broker: names()))]

    def wait_request(
        self,
        api: str,
        *,
        group: str | None = None,
        client_id: str | None = None,
        after: int = 0,
        count: int = 1,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Asked:
        """Until `count` requests of this API (`OffsetCommit`) have arrived since the start, or
        since the request number `after`; returns the last of them."""
        api = api_named(api)
        found, looked_at = list[Asked](), after

        def arrived() -> Asked | None:
            nonlocal looked_at
            for each in self.history.requests_after(looked_at):
                looked_at = each.number
                if matches(each, api, group, client_id):
                    found.append(each)
            return found[count - 1] if len(found) >= count else None

        last = self.until(arrived, timeout)
        if last is None:
            seen = sorted({each.api for each in self.history.requests})
            of_group = "" if group is None else f" of group {group}"
            by = "" if client_id is None else f" by {client_id}"
            raise BarrierTimeout(
                f"{count} × {api}{of_group}{by} was waited for {timeout:g} s, in vain. "
                f"What has arrived: {', '.join(seen) or 'nothing'}."
            )
        return last

    def wait(
        self,
        condition: Callable[[], object],
        what: str = "its condition",
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        """Until `condition()` is true. It is asked, in this thread, whenever something has happened
        in the broker, and every 10 ms: it may look at anything. `what` is for the message when it
        does not become so."""
        may_wait()
        deadline = time.monotonic() + timeout
        while True:
            seen = self.changes.count
            if is_met(condition):
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise BarrierTimeout(f"{what} was waited for {timeout:g} s, in vain")
            self.until(partial(self.has_changed, seen), min(left, LOOK_SECONDS))

    # --- for the parts of the harness, and for whoever needs more than they have

    def run(self, awaitable: Coroutine[Any, Any, T], seconds: float = PATIENCE_SECONDS) -> T:
        """Await something on the broker's loop."""
        if self._loop is None:
            awaitable.close()
        return self.thread.run(awaitable, seconds)

    def ask(self, what: Callable[[Broker], T]) -> T:
        """What this says of the broker, or does to it, on its loop."""
        return what(self.broker) if self.thread.is_here else self.run(self._asked(what))

    def soon(self, what: Callable[[], object]) -> None:
        """Do it on the broker's loop, before whatever is asked after it, without waiting."""
        self.thread.soon(what)

    def until(self, check: Callable[[], T | None], timeout: float) -> T | None:
        """The first answer of `check` that is neither None nor False; None when time is up. It is
        asked on the broker's loop, when something has happened there: it looks at nothing else."""
        may_wait()
        return self.run(self.once(check, timeout), timeout + PATIENCE_SECONDS)

    def change(self, what: Callable[[], object]) -> None:
        """Change what topics there are, and wait until that is durable. Raises OSError."""

        async def changed() -> OSError | None:
            await self.there()
            what()
            told: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
            self.broker.node.topics.on_durable(told.set_result)
            return await told

        error = self.run(changed())
        if error is not None:
            raise error

    @property
    def thread(self) -> LoopThread:
        if self._loop is None:
            raise RuntimeError("start it first: with Kafka() as kafka")
        return self._loop

    @property
    def timers(self) -> Timers:
        return self.broker.node.timers

    def next_deadline_ms(self) -> int | None:
        """When the next thing of a group falls due: a session, a round, a puppet's heartbeat.
        (Sweeps for what has expired are none of these: there is nothing that comes of them in its
        own time.)"""
        of_groups = (
            due
            for node in self.broker.cluster.nodes.values()
            for shard in node.coordinators.contexts.values()
            for due in shard.coordinator.deadlines.values()
        )
        return min(chain(of_groups, self.puppets.deadlines()), default=None)

    async def settled(self) -> None:
        """Until nothing is under way in the broker but what waits for a client or for a time."""
        while True:
            await self.puppets.settled()
            await self.there()
            if not self.broker.is_running:
                return
            node, idle = self.broker.node, asyncio.Event()
            node.group_commit.when_idle(idle.set)
            await idle.wait()
            # Whoever was told by the last round, just now perhaps, is about to hear it.
            is_quiet = await self.puppets.are_quiet()
            is_over = self._is_between_lives
            if is_quiet and self.broker.is_idle and not is_over:
                return

    def _new_broker(self) -> Broker:
        """Over the disk as it is. One that was there before is over: it is heard no more."""
        life = self._lives = self._lives + 1

        def is_over() -> bool:
            return self._lives != life

        def hear(node_id: int, event: GroupEvent) -> None:
            if not is_over():
                self._hear(node_id, event)

        return Broker(
            self._config,
            durability=self._durability,
            clock=self._time,
            files=self.disk.files,
            interceptor=self.steering.interceptor(is_over),
            listener=hear,
        )

    def has_changed(self, seen: int) -> bool:
        return self.changes.count > seen

    def _told(self, asked: Asked) -> None:
        if asked.answer is None:
            self.history.note(asked)
        else:
            self.history.note_answer(asked)
        self.changes.tell()

    def _hear(self, node_id: int, event: GroupEvent) -> None:
        self.history.hear(node_id, event, self.steering.handled)
        self.puppets.hear(event)
        self.changes.tell()
