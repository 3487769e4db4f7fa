"""Random tests of the write-ahead log: disk failures, power losses, any order of callbacks."""

import random
from contextlib import suppress

import pytest
from kohort.testing.faults.files import Crashed
from support.write_ahead import NAMES, Broker, disk, left


class Chaos:
    """Appends to logs on a disk that fails at random. Callbacks and syncs run in any order; crashes
    and power losses occur at any time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = disk()
        self.sizes = {
            "bytes_max": self.chance.choice([200, 2_000]),
            "segment_bytes": self.chance.choice([300, 1 << 20]),
        }
        self.acknowledged: dict[str, list[str]] = {name: [] for name in NAMES}
        self.unknown: dict[str, list[str]] = {name: [] for name in NAMES}
        self.numbers = 0

    def start(self) -> Broker:
        while True:
            if self.chance.random() < 0.3:
                self.files.crash_at = self.files.count + self.chance.randint(0, 8)
            if self.chance.random() < 0.3:
                self.break_something()
            try:
                broker = Broker(self.files, **self.sizes)  # type: ignore[arg-type]
            except Crashed:
                self.files.crash(self.chance)
            except OSError:
                self.files.heal()
            else:
                self.files.crash_at = None
                self.files.heal()
                return broker

    def run(self) -> None:
        broker = self.start()
        self.check(broker)
        for name in NAMES:  # resolves the records whose result was unknown
            self.acknowledged[name] = broker.words(name)
            self.unknown[name].clear()
        for _ in range(self.chance.randint(3, 80)):
            self.step(broker)
        if self.chance.random() < 0.3:
            self.files.heal()
            self.finish(broker)
            broker.stop()
            assert left(self.files) == []
        if self.chance.random() < 0.7:
            self.files.crash(self.chance)

    def step(self, broker: Broker) -> None:
        what = self.chance.random()
        if what < 0.3:
            self.append(broker, self.chance.choice(NAMES))
        elif what < 0.35:
            self.break_something()
        elif what < 0.4:
            self.files.heal()
        elif what < 0.7 and broker.due:
            broker.due.pop(0)()
        elif broker.pool:
            call = self.chance.choice(broker.pool)
            if not call.step():
                broker.pool.remove(call)

    def finish(self, broker: Broker) -> None:
        idle: list[bool] = []
        broker.group_commit.when_idle(lambda: idle.append(True))
        while not idle:
            assert broker.due or broker.pool, "the callback will never be called"
            broker.iterate()

    def break_something(self) -> None:
        operations = ["append", "sync", "create", "sync_folder", "remove", "open"]
        after, written = self.chance.randint(0, 4), self.chance.randint(0, 99)
        self.files.fail(self.chance.choice(operations), after=after, written=written)

    def append(self, broker: Broker, name: str) -> None:
        self.numbers += 1
        log, word = broker.logs[name], f"{self.numbers}"
        self.unknown[name].append(word)

        def on_durable(error: OSError | None) -> None:
            if error is None:
                self.unknown[name].remove(word)
                self.acknowledged[name].append(word)
                return
            # As the runtime does, fail pending appends and recover the log.
            broker.group_commit.fail_pending(log, error)
            with suppress(OSError):  # the disk still fails
                log.reopen()
                self.unknown[name].clear()

        broker.group_commit.append(log, [(b"key", word.encode())], 1_000)
        broker.group_commit.on_durable(log, on_durable)

    def check(self, broker: Broker) -> None:
        for name in NAMES:
            words, acknowledged = broker.words(name), self.acknowledged[name]
            assert [word for word in words if word in acknowledged] == acknowledged, name
            more = [word for word in words if word not in acknowledged]
            assert all(word in self.unknown[name] for word in more), name


@pytest.mark.parametrize("seed", range(100))
def test_exactly_the_acknowledged_records_survive_any_failure(seed: int) -> None:
    chaos = Chaos(seed)
    for _ in range(6):
        chaos.run()
