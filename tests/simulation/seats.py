"""What happens on one seat: consumers that come, stall, leave, die and are started again."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from simulation.consumers import Consumer

if TYPE_CHECKING:
    from simulation.setting import Seat
    from simulation.world import World


class SeatHolder:
    def __init__(self, world: World, seat: Seat) -> None:
        self.world = world
        self.seat = seat
        self._chance = Random(f"{world.seed} seat {seat.name}")
        self._incarnations = 0
        self._old: list[Consumer] = []
        self.consumer: Consumer | None = None
        world.schedule.after(self._chance.randint(0, 5_000), self._start)
        self._next_trouble()
        self._supervise()

    def _start(self) -> None:
        self.consumer = Consumer(self.world, self.seat, self._incarnations)
        self._incarnations += 1

    def _supervise(self) -> None:
        """Whoever was fenced is started again: what fenced it may have been its own late join."""
        if self.world.is_night:
            return
        self.world.schedule.after(1_000, self._supervise)
        if self.consumer is not None and self.consumer.is_fenced:
            self._replace(self.consumer, "is started again", 0)

    def _next_trouble(self) -> None:
        ms = int(self._chance.expovariate(1 / self.seat.troubles_ms)) + 100
        self.world.schedule.after(ms, self._trouble)

    def _trouble(self) -> None:
        if self.world.is_calm:
            return
        self._next_trouble()
        consumer, chance = self.consumer, self._chance
        what, ms = chance.random(), chance.randint(200, 2 * self.seat.session_ms)
        if consumer is None:
            return  # it is about to be started
        if what < 0.15:
            self._replace(consumer, "is killed", ms)
        elif what < 0.5:
            consumer.stall(ms)
        elif what < 0.65:
            self.world.note("!", consumer.name, "leaves")
            consumer.leave()
            self._replace(consumer, "has left", ms)
        elif what < 0.8:
            # Its successor starts while it hangs: a static one takes its place.
            consumer.stall(ms)
            self._old.append(consumer)
            self.consumer = None
            self.world.schedule.after(ms // 2, self._start)
        else:
            consumer.rejoin()

    def _replace(self, consumer: Consumer, why: str, ms: int) -> None:
        self.world.note("!", consumer.name, why)
        consumer.end()
        self.consumer = None
        self.world.schedule.after(ms, self._start)

    def calm_down(self) -> None:
        """From now on one good consumer sits here."""
        for consumer in self._old:
            consumer.end()

    def go_home(self) -> None:
        """Nobody sits here any more, and nobody said goodbye."""
        if self.consumer is not None:
            self.consumer.end()
