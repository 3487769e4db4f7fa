"""Connections with latency that may be closed or stop delivering.

As in broker/network/connection.py, responses are in the order of their requests, and a waiting join
or sync holds back the later requests of its connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from kohort.coordinator.commands import JoinGroup, OffsetCommit, SyncGroup

if TYPE_CHECKING:
    from simulation.broker import SimulatedBroker
    from simulation.simulation import Simulation


@dataclass(slots=True, eq=False)
class Request:
    number: int
    client: str
    connection: Connection
    command: Any
    on_response: Callable[[Any], None]
    has_response: bool = False
    result: Any = None
    ticket: int = 0
    submitted_ms: int = 0
    coordinator: Any = None  # the coordinator that handles it
    known: Any = None  # what responses had stated when it was submitted (invariants.py)
    known_epochs: Any = None  # likewise, for a group of both protocols (mixed_invariants.py)
    topic_id: Any = None  # the id of TOPIC
    readable: Any = None  # the changes that an OffsetFetch may return (models.py)
    is_dropped: bool = False  # its connection was closed, or the broker crashed
    is_misdirected: bool = False  # sent to a node that does not coordinate the group
    is_replaced: bool = False  # by a later one of the member: Kafka responds only to the last

    def __str__(self) -> str:
        return f"request {self.number} of {self.client}, {self.command}"

    @property
    def may_wait(self) -> bool:
        return type(self.command) in (JoinGroup, SyncGroup)


class Connection:
    """Both ends of a connection to a node."""

    def __init__(
        self,
        simulation: Simulation,
        client: str,
        random: Random,
        node_id: int,
        on_lost: Callable[[], None],
    ) -> None:
        self._simulation = simulation
        self._schedule = simulation.schedule
        self._random = random
        self._on_lost = on_lost
        self.client = client
        self.node_id = node_id
        broker = simulation.broker
        is_up = broker is not None and node_id in broker.topics.nodes.up
        self._broker: SimulatedBroker | None = broker if is_up else None
        self._request_arrives_ms = self._response_arrives_ms = 0
        self._pending: deque[Request] = deque()
        self._waiting: Request | None = None
        self._backlog: deque[Request] = deque()
        self.is_open = is_up  # as the client sees it
        self.is_silent = False  # nothing is delivered anymore, and neither end notices
        if self._broker is None:
            self._schedule.after(1, on_lost)
        else:
            simulation.connections[self] = None

    def _delay_ms(self) -> int:
        return self._random.randint(0, self._simulation.latency_max_ms)

    # --- the client's end

    def send(self, command: Any, on_response: Callable[[Any], None]) -> None:
        if not self.is_open:
            return
        number = next(self._simulation.request_numbers)
        request = Request(number, self.client, self, command, on_response)
        arrives_ms = self._schedule.now_ms() + self._delay_ms()
        self._request_arrives_ms = max(self._request_arrives_ms, arrives_ms)
        self._schedule.at(self._request_arrives_ms, lambda: self._receive(request))

    def close(self) -> None:
        """Close the client's end; requests sent before may still arrive."""
        self.is_open = False
        self._schedule.after(self._delay_ms(), self._disconnected)

    def cut(self) -> None:
        """Close both ends."""
        self._disconnected()
        self._schedule.after(self._delay_ms(), self._lost)

    def _lost(self) -> None:
        if self.is_open:
            self.is_open = False
            self._on_lost()

    # --- the broker's end

    def _receive(self, request: Request) -> None:
        broker = self._broker
        if self.is_silent or broker is None:
            return
        if broker.is_stopped:
            self._lost()
        elif self._waiting is not None or self._backlog:
            self._backlog.append(request)
        else:
            self._submit(broker, request)

    def _submit(self, broker: SimulatedBroker, request: Request) -> None:
        if type(request.command) is OffsetCommit:
            # The handler rejects unknown topics (k08_offset_commit.py).
            entries, offsets = request.command.entries, request.command.offsets
            known = [
                pair
                for pair in zip(entries, offsets, strict=True)
                if broker.has_topic(pair[0].topic)
            ]
            if not known:
                return
            entries, offsets = zip(*known, strict=True)
            request.command = request.command._replace(entries=entries, offsets=offsets)
        self._pending.append(request)
        invariants = self._simulation.invariants
        broker.load_partition(request.command.group_id, self.node_id)
        invariants.request_submitted(broker, request)
        coordinators = broker.cluster.nodes[self.node_id].coordinators
        request.ticket = coordinators.submit(request.command, self._respond, request)
        if request.may_wait and not request.has_response:
            self._waiting = request
        invariants.check(broker)

    def _respond(self, request: Request, result: Any) -> None:
        self._simulation.invariants.request_completed(request, result)
        if self._broker is None:
            return
        pending = self._pending
        while pending and pending[0].has_response:
            self._send_response(pending.popleft())
        if self._waiting is request:
            self._waiting = None
            if self._backlog:
                self._broker.call_soon(self._submit_backlog)

    def _submit_backlog(self) -> None:
        while self._broker is not None and self._waiting is None and self._backlog:
            self._submit(self._broker, self._backlog.popleft())

    def _send_response(self, request: Request) -> None:
        arrives_ms = self._schedule.now_ms() + self._delay_ms()
        self._response_arrives_ms = max(self._response_arrives_ms, arrives_ms)

        def deliver() -> None:
            if self.is_open and not self.is_silent:
                request.on_response(request.result)

        self._schedule.at(self._response_arrives_ms, deliver)

    def _disconnected(self) -> None:
        """The broker notices that the connection was closed (Connection.connection_lost)."""
        broker, self._broker = self._broker, None
        self._simulation.connections.pop(self, None)
        if broker is None or broker.is_stopped:
            return
        for request in self._pending:
            if request.may_wait and not request.has_response:
                broker.cluster.nodes[self.node_id].coordinators.forget(request.ticket)
                request.is_dropped = True
        self._pending.clear()
        self._backlog.clear()

    def broker_crashed(self) -> None:
        self._broker = None
        self._simulation.connections.pop(self, None)
        if not self.is_silent:
            self._schedule.after(self._delay_ms(), self._lost)
