"""The broker of a world: the real runtime, rounds, logs and coordinators, life after life."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from faulty_files import FaultyFiles
from kohort.broker.groups.commands import DescribeGroup
from kohort.broker.groups.coordinator import Coordinator
from kohort.broker.runtime import GroupRuntime, ShardState
from kohort.log.log import Log, LogConfig
from kohort.log.rounds import Rounds
from kohort.offsets.store import OffsetsStore

if TYPE_CHECKING:
    from simulation.schedule import Later
    from simulation.world import World

DATA = Path("/data")


class StoredPartition:
    """A partition of the offsets topic, as one life of the broker has it open."""

    def __init__(self, files: FaultyFiles, index: int, config: LogConfig) -> None:
        self.folder = DATA / f"__consumer_offsets-{index}"
        self._files = files
        self._config = config
        self._log: Log | None = None

    @property
    def log(self) -> Log:
        if self._log is None:
            self._log = Log.open(self.folder, self._files, self._config)
        return self._log

    def reopened(self) -> Log:
        if self._log is not None:
            self._log.close()
        self._log = None
        return self.log


class Life:
    """One life of the broker. What it has asked to be done later is not done once it is over."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.is_over = False
        self._chance = Random(f"{world.seed} life {number}")
        setting = world.setting
        config = LogConfig(
            segment_bytes=setting.segment_bytes, sync_at_open=setting.durability == "fsync"
        )
        self.partitions = [
            StoredPartition(world.files, index, config)
            for index in range(setting.offsets_partitions)
        ]
        self.rounds = Rounds(
            durability=setting.durability,
            call_soon=self._call_soon,
            sync_logs=self._sync_logs,
            seconds=world.schedule.seconds,
        )
        self.runtime = GroupRuntime(
            store=OffsetsStore(
                partitions=setting.offsets_partitions,
                partition=self.partitions.__getitem__,
                rounds=self.rounds,
            ),
            clock=world.schedule,
            timers=self,  # type: ignore[arg-type]
            new_coordinator=lambda _partition: Coordinator(setting.config, world.new_id),
            call_soon=self._call_soon,
        )
        self.runtime.load(
            index
            for index, partition in enumerate(self.partitions)
            if world.files.exists(partition.folder)
        )

    def shard_of(self, group_id: str) -> Any:
        """What the runtime has of the group's partition (broker/runtime.py: ServedShard)."""
        return self.runtime._shards.get(self.runtime._store.partition_of(group_id))

    def look_at(self, group_id: str) -> None:
        """Have its partition read, if that can be, so that a request meets what was seen before."""
        shard = self.shard_of(group_id)
        if shard is None or shard.state is not ShardState.ACTIVE:
            self.runtime.submit(DescribeGroup(group_id), lambda _context, _result: None, None)
            self.world.invariants.after_event(self)

    @property
    def shards(self) -> list[Any]:
        return list(self.runtime._shards.values())

    # --- stand-ins for the event loop, its timers and its threads

    def _while_alive(self, callback: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            if not self.is_over:
                callback()
                self.world.invariants.after_event(self)

        return call

    def _call_soon(self, callback: Callable[[], None]) -> None:
        self.world.schedule.after(0, self._while_alive(callback))

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Later:
        later = self.world.schedule.at(deadline_ms, self._while_alive(callback))
        later.deadline_ms = deadline_ms
        return later

    def _sync_logs(
        self, logs: Sequence[Log], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        outcomes: list[OSError | None] = [None] * len(logs)
        left = len(logs)

        def sync(place: int) -> None:
            nonlocal left
            try:
                logs[place].sync()
            except OSError as error:
                outcomes[place] = error
            left -= 1
            if not left:
                # On its way back from the thread: the loop may have other things to do first.
                self.call_at(self._some_ms(), lambda: done(outcomes))

        for place in range(len(logs)):
            self.call_at(self._some_ms(), lambda place=place: sync(place))

    def _some_ms(self) -> int:
        return self.world.schedule.now_ms() + self._chance.randint(0, self.world.setting.sync_ms)
