"""Connections that delay, are cut, or fall silent. A broker answers each in order, and a parked
request holds back what its client sent after it (broker/connection.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from kohort.coordinator.commands import JoinGroup, OffsetCommit, SyncGroup

if TYPE_CHECKING:
    from simulation.server import Life
    from simulation.world import World


class Request:
    """A command on its way, and what came of it."""

    __slots__ = (
        "answered",
        "command",
        "coordinator",
        "is_dropped",
        "is_elsewhere",
        "is_replaced",
        "known",
        "link",
        "number",
        "on_answer",
        "readable",
        "result",
        "sent_ms",
        "ticket",
        "who",
    )

    def __init__(
        self, number: int, who: str, link: Link, command: Any, on_answer: Callable[[Any], None]
    ) -> None:
        self.number = number
        self.who = who
        self.link = link
        self.command = command
        self.on_answer = on_answer
        self.answered = False
        self.result: Any = None
        self.ticket = 0
        self.sent_ms = 0
        self.coordinator: Any = None  # who decided it
        self.known: Any = None  # what was known when it was decided (invariants.py)
        self.readable: Any = None  # what a fetch may find (commits.py)
        self.is_dropped = False  # with its connection, or with the life of the broker
        self.is_elsewhere = False  # asked at a node that does not coordinate its group
        self.is_replaced = False  # by a later request of its member: Kafka answers that one only

    def __str__(self) -> str:
        return f"request {self.number} of {self.who}, {self.command}"

    @property
    def may_park(self) -> bool:
        return type(self.command) in (JoinGroup, SyncGroup)


class Link:
    """One connection to a node, both ends of it."""

    def __init__(
        self, world: World, who: str, chance: Random, node_id: int, on_lost: Callable[[], None]
    ) -> None:
        self._world = world
        self._schedule = world.schedule
        self._chance = chance
        self._on_lost = on_lost
        self.who = who
        self.node_id = node_id
        life = world.life
        is_up = life is not None and node_id in life.topics.nodes.up
        self._life: Life | None = life if is_up else None
        self._arrives_ms = self._returns_ms = 0
        self._calls: deque[Request] = deque()
        self._held: Request | None = None
        self._backlog: deque[Request] = deque()
        self.is_open = is_up  # as the client sees it
        self.is_silent = False  # nothing gets through any more, and nobody is told
        if self._life is None:
            self._schedule.after(1, on_lost)
        else:
            world.links[self] = None

    # --- the client's end

    def send(self, command: Any, on_answer: Callable[[Any], None]) -> None:
        if not self.is_open:
            return
        request = self._world.new_request(self.who, self, command, on_answer)
        self._arrives_ms = max(self._arrives_ms, self._schedule.now_ms() + self._delay_ms())
        self._schedule.at(self._arrives_ms, lambda: self._arrive(request))

    def close(self) -> None:
        """By the client. What it has sent before may still arrive."""
        self.is_open = False
        self._schedule.after(self._delay_ms(), self._gone)

    # --- what the network does

    def cut(self) -> None:
        self._gone()
        self._schedule.after(self._delay_ms(), self._lost)

    def _lost(self) -> None:
        if self.is_open:
            self.is_open = False
            self._on_lost()

    def _delay_ms(self) -> int:
        return self._chance.randint(0, self._world.latency_ms)

    # --- the broker's end

    def _arrive(self, request: Request) -> None:
        life = self._life
        if self.is_silent or life is None:
            return
        if life.is_over:
            self._lost()
        elif self._held is not None or self._backlog:
            self._backlog.append(request)
        else:
            self._submit(life, request)

    def _submit(self, life: Life, request: Request) -> None:
        if type(request.command) is OffsetCommit:
            # For topics that are not there nothing is committed (k08_offset_commit.py).
            entries, offsets = request.command.entries, request.command.offsets
            there = [
                each for each in zip(entries, offsets, strict=True) if life.has_topic(each[0].topic)
            ]
            if not there:
                return
            entries, offsets = zip(*there, strict=True)
            request.command = request.command._replace(entries=entries, offsets=offsets)
        self._calls.append(request)
        invariants = self._world.invariants
        life.look_at(request.command.group_id, self.node_id)
        invariants.asked(life, request)
        groups = life.cluster.nodes[self.node_id].coordinators
        request.ticket = groups.submit(request.command, self._respond, request)
        if request.may_park and not request.answered:
            self._held = request
        invariants.after_event(life)

    def _respond(self, request: Request, result: Any) -> None:
        self._world.invariants.answered(request, result)
        if self._life is None:
            return
        calls = self._calls
        while calls and calls[0].answered:
            self._return(calls.popleft())
        if self._held is request:
            self._held = None
            if self._backlog:
                self._life._call_soon(self._go_on)

    def _go_on(self) -> None:
        while self._life is not None and self._held is None and self._backlog:
            self._submit(self._life, self._backlog.popleft())

    def _return(self, request: Request) -> None:
        self._returns_ms = max(self._returns_ms, self._schedule.now_ms() + self._delay_ms())

        def arrived() -> None:
            if self.is_open and not self.is_silent:
                request.on_answer(request.result)

        self._schedule.at(self._returns_ms, arrived)

    def _gone(self) -> None:
        """The broker learns that the connection is no more (Connection.connection_lost)."""
        life, self._life = self._life, None
        self._world.links.pop(self, None)
        if life is None or life.is_over:
            return
        for request in self._calls:
            if request.may_park and not request.answered:
                life.cluster.nodes[self.node_id].coordinators.forget(request.ticket)
                request.is_dropped = True
        self._calls.clear()
        self._backlog.clear()

    def broker_died(self) -> None:
        self._life = None
        self._world.links.pop(self, None)
        if not self.is_silent:
            self._schedule.after(self._delay_ms(), self._lost)
