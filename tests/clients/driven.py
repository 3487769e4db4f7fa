"""A consumer with a thread of its own that polls it, as a service would, and keeps what it got.

The libraries' consumers belong to one thread, so what a story asks of one that polls already is
done by that thread, between two polls.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

from .adapter import Committed, Consumer, Place, Record

T = TypeVar("T")
ANSWER_S = 30.0


class Driven(Consumer):
    """Polls from the first subscription or assignment until it is closed."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._thread: threading.Thread | None = None
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._closing = False
        self._assignment: frozenset[Place] = frozenset()
        self.records: list[Record] = []  # only ever appended to, by the polling thread
        self.failure: Exception | None = None
        self._busy = False

    def _run(self) -> None:
        try:
            while not self._closing:
                if self._busy:
                    self._calls.get()()
                    continue
                self._do_calls()
                got = self._consumer.poll()
                self._assignment = self._consumer.assignment()
                self.records.extend(got)
        except Exception as error:  # told to the story by whoever waits for this consumer
            self.failure = error
        self._do_calls()

    def _do_calls(self) -> None:
        while True:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            call()

    def _ask(self, question: Callable[[], T]) -> T:
        if self._thread is None or not self._thread.is_alive():
            return question()
        answer: Future[T] = Future()

        def call() -> None:
            try:
                answer.set_result(question())
            except Exception as error:  # belongs to the asker
                answer.set_exception(error)

        self._calls.put(call)
        return answer.result(ANSWER_S)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="polling")
            self._thread.start()

    @property
    def rebalances(self) -> int:  # type: ignore[override]  # the count is the library's side's
        return self._consumer.rebalances

    def pause(self) -> None:
        """It polls no more, as if it were busy with what it got; what it is asked it still does."""
        self._busy = True

    def resume(self) -> None:
        self._busy = False
        self._calls.put(lambda: None)

    def subscribe(self, *topics: str) -> None:
        self._ask(lambda: self._consumer.subscribe(*topics))
        self._start()

    def subscribe_pattern(self, pattern: str) -> None:
        self._ask(lambda: self._consumer.subscribe_pattern(pattern))
        self._start()

    def assign(self, *places: Place) -> None:
        self._ask(lambda: self._consumer.assign(*places))
        self._start()

    def poll(self, max_records: int = 500) -> list[Record]:
        raise AssertionError("it is polled already: look at `records`")

    def assignment(self) -> frozenset[Place]:
        return self._assignment

    def commit(self, offsets: Mapping[Place, Committed] | None = None) -> None:
        self._ask(lambda: self._consumer.commit(offsets))

    def committed(self, place: Place) -> int | None:
        return self._ask(lambda: self._consumer.committed(place))

    def seek(self, place: Place, offset: int) -> None:
        self._ask(lambda: self._consumer.seek(place, offset))

    def beginning_offset(self, place: Place) -> int:
        return self._ask(lambda: self._consumer.beginning_offset(place))

    def end_offset(self, place: Place) -> int:
        return self._ask(lambda: self._consumer.end_offset(place))

    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        return self._ask(lambda: self._consumer.offset_for_time(place, timestamp_ms))

    def close(self) -> None:
        self._closing = True
        self.resume()
        if self._thread is not None:
            self._thread.join()
        self._consumer.close()
