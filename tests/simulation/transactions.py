"""Random transactions on three nodes: several producers of both protocol versions, zombies,
timeouts, moved partitions, failing disks, and crashes.

read_committed never returns a record of an open or aborted transaction; a committed one is visible
as a whole, with its offset. In the end, no transaction is open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import Crashed
from kohort.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from support.broker import OFFSETS_PARTITIONS
from support.transactions import (
    RETRIABLE,
    TRANSACTION_PARTITIONS,
    ClusterHarness,
    Producer,
    committed_offset,
    is_stable,
    read_committed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kohort.log.group_commit import Durability

E = ErrorCode
STEPS = 40
TOPICS = ("orders", "bills")
IDS = ("billing-0", "billing-1", "billing-2")
TIMEOUT_MS = 60_000
ATTEMPTS_MAX = 60


@dataclass
class Transaction:
    """`sent`: by topic, the values whose requests have a response. `commit`: what the producer has
    requested; `is_acknowledged`: whether it has the response."""

    number: int
    transactional_id: str
    sent: dict[str, list[str]] = field(default_factory=lambda: {topic: [] for topic in TOPICS})
    has_offset: bool = False
    commit: bool | None = None
    is_acknowledged: bool = False


@dataclass
class Client:
    producer: Producer
    transaction: Transaction | None = None
    is_fenced: bool = False


class History:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.durability: Durability = self.chance.choice(["fsync", "os"])
        self.harness = ClusterHarness(self.durability)
        self.files = self.harness.files
        self.clients: list[Client] = []
        self.transactions: list[Transaction] = []
        for transactional_id in IDS:
            self.new_client(transactional_id)

    # --- requests

    def request(self, client: Client, send: Callable[[], ErrorCode | None]) -> ErrorCode | None:
        """Send a request, repeatedly if it is not successful. Return an error that is not
        retriable, or None if the request was given up."""
        for _ in range(ATTEMPTS_MAX):
            try:
                error = send()
            except Crashed:
                self.restart()
                client.producer.broker = self.harness
                continue
            if error is not None and error not in RETRIABLE:
                return error
            self.advance(100)
            client.producer.broker = self.harness
        return None

    def advance(self, ms: int) -> None:
        try:
            self.harness.advance(ms)
            self.harness.run_loop()
        except Crashed:
            self.restart()

    def restart(self) -> None:
        self.files.crash_at = None
        if self.durability == "fsync":
            self.files.crash(self.chance)
        else:
            self.files.heal()
            self.files.locked.clear()
        now_ms = self.harness.now_ms
        self.harness = ClusterHarness(self.durability, self.files)
        self.harness.timers.clock.ms = now_ms
        for client in self.clients:
            client.producer.broker = self.harness

    def new_client(self, transactional_id: str) -> None:
        """Start a producer; its predecessor becomes a zombie."""
        version = self.chance.choice([0, 2])
        client = Client(Producer(self.harness, transactional_id, version=version))
        if self.request(client, client.producer.find_coordinators) is not E.none:
            return
        if self.request(client, partial(client.producer.init, timeout_ms=TIMEOUT_MS)) is E.none:
            self.clients.append(client)

    def send(self, client: Client) -> None:
        if client.transaction is None:
            number = len(self.transactions)
            client.transaction = Transaction(number, client.producer.transactional_id)
            self.transactions.append(client.transaction)
        transaction = client.transaction
        topic = self.chance.choice(TOPICS)
        count = sum(map(len, transaction.sent.values()))
        value = f"{transaction.number}.{count}"
        error = self.request(client, partial(client.producer.send, topic, value))
        if error is E.none:
            transaction.sent[topic].append(value)
        else:
            self.failed(client)

    def commit_offset(self, client: Client) -> None:
        transaction = client.transaction
        if transaction is None or transaction.has_offset:
            return
        group_id = f"g-{transaction.transactional_id}"
        send = partial(client.producer.commit_offset, transaction.number, group_id=group_id)
        if self.request(client, send) is E.none:
            transaction.has_offset = True
        else:
            self.failed(client)

    def end(self, client: Client) -> None:
        transaction = client.transaction
        if transaction is None:
            return
        transaction.commit = self.chance.random() < 0.6
        error = self.request(client, partial(client.producer.end, commit=transaction.commit))
        client.transaction = None
        if error is E.none:
            transaction.is_acknowledged = True
        else:
            self.failed(client)

    def failed(self, client: Client) -> None:
        """Replace a producer whose transaction can no longer be committed."""
        client.transaction = None
        self.clients.remove(client)
        if not any(
            each.producer.transactional_id == client.producer.transactional_id
            for each in self.clients
        ):
            self.new_client(client.producer.transactional_id)

    # --- faults

    def move(self) -> None:
        topic = self.chance.choice([*TOPICS, OFFSETS_TOPIC, TRANSACTION_TOPIC])
        counts = {OFFSETS_TOPIC: OFFSETS_PARTITIONS, TRANSACTION_TOPIC: TRANSACTION_PARTITIONS}
        partition = topic, self.chance.randrange(counts.get(topic, 1))
        if self.chance.random() < 0.5:
            self.harness.move(*partition)
        else:  # while a request is handled
            self.harness.moved = partition
            self.harness.steps, self.harness.move_at = 0, self.chance.randrange(8)

    def fault(self) -> None:
        if self.chance.random() < 0.5:
            self.files.crash_at = self.files.count + self.chance.randrange(15)
        else:
            operation = self.chance.choice(["append", "sync", "truncate"])
            written = self.chance.choice([0, 70]) if operation == "append" else 0
            self.files.fail(operation, after=self.chance.randrange(5), written=written)

    def step(self) -> None:
        kind = self.chance.random()
        client = self.chance.choice(self.clients) if self.clients else None
        if client is None or kind < 0.06:
            self.new_client(self.chance.choice(IDS))
        elif kind < 0.45:
            self.send(client)
        elif kind < 0.57:
            self.commit_offset(client)
        elif kind < 0.77:
            self.end(client)
        elif kind < 0.87:
            self.move()
        elif kind < 0.93:
            self.fault()
        else:
            self.advance(self.chance.choice([0, 100, 1_000, TIMEOUT_MS]))

    # --- invariants

    def check_visible(self) -> None:
        """Check that only records of transactions that their producers wanted to commit are
        visible."""
        crash_at, self.files.crash_at = self.files.crash_at, None
        with self.files.without_faults():
            visible = [value for topic in TOPICS for value in read_committed(self.harness, topic)]
        self.files.crash_at = crash_at
        for value in visible:
            transaction = self.transactions[int(value.split(".")[0])]
            assert transaction.commit, f"{value} of an open or aborted transaction is visible"

    def check_end(self) -> None:
        self.files.crash_at = None
        self.files.heal()
        for _ in range(2):
            self.harness.advance(TIMEOUT_MS)
            self.harness.run_loop()
            self.harness.advance(2_000)
            self.harness.run_loop()
        visible = {topic: read_committed(self.harness, topic) for topic in TOPICS}
        assert all(is_stable(self.harness, topic) for topic in TOPICS)
        last = dict.fromkeys(IDS, -1)
        for each in self.transactions:
            found = {
                topic: [v for v in values if v.startswith(f"{each.number}.")]
                for topic, values in visible.items()
            }
            is_visible = any(found.values())
            if is_visible:
                assert each.commit
                for topic in TOPICS:
                    assert found[topic] == each.sent[topic], f"transaction {each.number} is torn"
            if each.is_acknowledged and any(each.sent.values()):
                assert is_visible is each.commit, f"transaction {each.number}"
            if each.has_offset and (is_visible or (each.commit and each.is_acknowledged)):
                last[each.transactional_id] = each.number
        for transactional_id, number in last.items():
            offset = committed_offset(self.harness, group_id=f"g-{transactional_id}")
            assert offset == number, transactional_id


def run_history(seed: int) -> None:
    """Raises AssertionError."""
    history = History(seed)
    try:
        for _ in range(STEPS):
            history.step()
            history.check_visible()
        history.check_end()
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
