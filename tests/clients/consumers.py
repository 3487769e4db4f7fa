"""Test helpers: consumers that poll in the background, and waits for their records and
partitions."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from kohort.testing.deadline import poll

from .adapter import Client, Consumer, ConsumerSettings, Message, Partition, Record

# Long enough for the slowest library on a busy machine.
TIMEOUT_SECONDS = 30.0


def until(
    done: Callable[[], object], what: str, detail: Callable[[], object] | None = None
) -> None:
    """Wait until `done()` is true or a list with items, by polling. After the timeout, fail with
    `what` and `detail()`."""
    if not poll(lambda: bool(done()), TIMEOUT_SECONDS, pause=0.01):
        details = f"; {detail()}" if detail else ""
        raise AssertionError(f"timed out waiting until {what}{details}")


class BackgroundConsumer:
    """Polls a consumer in its own thread, as a service does, from the first subscription or
    assignment until it is closed, and keeps the records.

    It has all methods of Consumer. They run between two polls, because the libraries' consumers
    belong to one thread."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._thread: threading.Thread | None = None
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._is_closing = False
        self._is_paused = False
        self._assignment: frozenset[Partition] = frozenset()
        self.records: list[Record] = []
        """Only the polling thread appends to this list."""
        self.failure: Exception | None = None
        """The error that ended the polling."""

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, getattr(self._consumer, name))

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if self._thread is None or not self._thread.is_alive():
            return method(*arguments)
        result: Future[Any] = Future()

        def call() -> None:
            try:
                result.set_result(method(*arguments))
            except Exception as error:
                result.set_exception(error)

        self._calls.put(call)
        return result.result(TIMEOUT_SECONDS)

    def _run(self) -> None:
        try:
            while not self._is_closing:
                if self._is_paused:
                    self._calls.get()()
                    continue
                self._run_calls()
                records = self._consumer.poll()
                self._assignment = self._consumer.assignment()
                self.records.extend(records)
        except Exception as error:
            self.failure = error
        self._run_calls()

    def _run_calls(self) -> None:
        while True:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            call()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="polling")
            self._thread.start()

    def subscribe(self, *topics: str) -> None:
        self._call(self._consumer.subscribe, *topics)
        self._start()

    def subscribe_pattern(self, pattern: str) -> None:
        self._call(self._consumer.subscribe_pattern, pattern)
        self._start()

    def assign(self, *partitions: Partition) -> None:
        self._call(self._consumer.assign, *partitions)
        self._start()

    def assignment(self) -> frozenset[Partition]:
        """Return the assignment as of the last poll."""
        return self._assignment

    @property
    def rebalances(self) -> int:
        return self._consumer.rebalances

    @property
    def rebalance_calls(self) -> list[tuple[str, list[Partition]]]:
        return self._consumer.rebalance_calls

    @property
    def error_code(self) -> int | None:
        """The code of the broker's error that ended the polling."""
        code = getattr(self.failure, "code", None) or getattr(self.failure, "errno", None)
        return None if code is None else int(code)

    def pause(self) -> None:
        """Stop polling, like a service that is busy with a record. Other calls still run."""
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._calls.put(lambda: None)

    def close(self) -> None:
        self._is_closing = True
        self.resume()
        if self._thread is not None:
            self._thread.join()
        self._consumer.close()


class Consumers:
    """Some consumers, and all records that they received since `forget`."""

    def __init__(self, *consumers: BackgroundConsumer) -> None:
        self.all = list(consumers)
        self._forgotten: dict[int, int] = {}
        self._of_closed: list[Record] = []

    def add(self, consumer: BackgroundConsumer) -> None:
        self.all.append(consumer)

    def records_of(self, consumer: BackgroundConsumer) -> list[Record]:
        return consumer.records[self._forgotten.get(id(consumer), 0) :]

    @property
    def records(self) -> list[Record]:
        return self._of_closed + [each for c in self.all for each in self.records_of(c)]

    def values(self) -> list[bytes]:
        return [record.value or b"" for record in self.records]

    def forget(self) -> None:
        self._of_closed.clear()
        self._forgotten = {id(consumer): len(consumer.records) for consumer in self.all}

    def close(self, consumer: BackgroundConsumer) -> None:
        """Close one of the consumers; its records remain."""
        consumer.close()
        self._of_closed += self.records_of(consumer)
        self.all.remove(consumer)

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Wait like the function `until`, but raise the failure of a consumer."""

        def is_done() -> bool:
            for consumer in self.all:
                if consumer.failure is not None:
                    raise consumer.failure
            return done()

        until(is_done, what, self._describe)

    def _describe(self) -> str:
        owned = [sorted(consumer.assignment()) for consumer in self.all]
        return f"assignments {owned}, {len(self.records)} records"

    def until_count(self, count: int) -> None:
        self.until(lambda: len(self.records) >= count, f"{count} records are received")

    def until_values(self, wanted: Iterable[bytes]) -> None:
        """Wait until each of these values has been received at least once."""
        missing = set(wanted)
        self.until(lambda: missing <= set(self.values()), f"{len(missing)} values are received")

    def until_shared(self, partitions: Iterable[Partition], sizes: Sequence[int]) -> None:
        """Wait until the consumers own exactly these partitions, each once, in shares of these
        sizes."""
        wanted, shares = Counter(partitions), sorted(sizes)

        def is_shared() -> bool:
            owned = [consumer.assignment() for consumer in self.all]
            total = Counter(each for share in owned for each in share)
            return sorted(map(len, owned)) == shares and total == wanted

        self.until(is_shared, f"{len(wanted)} partitions are shared as {shares}")


def read_committed(client: Client, topic: str, last: bytes) -> list[bytes]:
    """Read partition 0 with read_committed, from its beginning until a value has been received.
    Close the client and return all values."""
    consumer = client.consumer(ConsumerSettings(isolation_level="read_committed"))
    consumer.assign(Partition(topic, 0))
    values: list[bytes] = []

    def is_complete() -> bool:
        values.extend(record.value or b"" for record in consumer.poll())
        return last in values

    until(is_complete, f"{last!r} is received", lambda: values)
    consumer.close()
    client.close()
    return values


def numbered(count: int, text: str = "record", partitions: int | None = None) -> list[Message]:
    """Return messages with the values `text 0`, `text 1`, … for `partitions` partitions in turn."""
    return [
        Message(
            f"{text} {number}".encode(), partition=None if not partitions else number % partitions
        )
        for number in range(count)
    ]


def partitions_of(topic: str, count: int) -> list[Partition]:
    return [Partition(topic, index) for index in range(count)]
