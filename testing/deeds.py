"""What a fault does to a request on its passage. Each deed returns whether it keeps the request:
then nobody else handles it."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..broker.fetch_sessions import NO_SESSION
from ..protocol.errors import ErrorCode
from .refusals import refusal
from .steering import Passage

Deed = Callable[[Passage], bool]

PRODUCE = 0
METADATA = 3
# Size and correlation id: a client finds the answer of its request, and then nonsense in it.
_FRONT_BYTES = 8
# So many bits of an answer are turned round. One could hit a throttle time and do nothing.
_CORRUPT_BITS = 16


def answer(error: ErrorCode) -> Deed:
    """Refuse it, and do nothing of what it asks."""

    def deed(passage: Passage) -> bool:
        asked = passage.asked
        if asked.key == METADATA:
            # Without brokers in the answer a client would be told that there is no cluster.
            passage.on_answer = lambda: passage.reply(_with_error(asked.response, error))
            return False
        if asked.key == PRODUCE and asked.message.acks == 0:
            passage.call.close_connection(f"a fault of this test: {error.name.upper()}")
            return True
        # The answer to a Fetch says so: its client begins anew.
        passage.node.fetch_sessions.close(getattr(asked.message, "session_id", NO_SESSION))
        passage.reply(refusal(asked.key, asked.version, asked.message, error))
        return True

    return deed


def delay(ms: int) -> Deed:
    """Handle it later; what its client sends after it waits as long."""

    def deed(passage: Passage) -> bool:
        passage.keep()
        passage.later(ms, passage.go_on)
        return True

    return deed


def delay_answer(ms: int) -> Deed:
    """Handle it now, and answer later."""

    def deed(passage: Passage) -> bool:
        passage.on_answer = lambda: passage.later(ms, passage.deliver)
        return False

    return deed


def never_answer(passage: Passage) -> bool:
    """Leave it lying; the connection stays open, and its client waits until it is tired of it."""
    passage.keep()
    return True


def drop(passage: Passage) -> bool:
    """Break the connection before anything is done: the client cannot know that nothing was."""
    passage.keep()  # Nor is what came on its heels done.
    passage.cut()
    return True


def lose_answer(passage: Passage) -> bool:
    """Do what it asks, and break the connection in place of the answer."""
    passage.on_answer = passage.cut
    return False


def apply_late(ms: int) -> Deed:
    """Break the connection now, and do what was asked later, when its client has long asked again
    elsewhere."""

    def deed(passage: Passage) -> bool:
        passage.later(ms, passage.handle)
        passage.cut()
        return True

    return deed


def close_mid_frame(passage: Passage) -> bool:
    """Do what it asks, send half of the answer, close."""

    def half() -> None:
        passage.connection.close_after_responses(
            "a fault of this test closes it in the middle of an answer"
        )
        answer = passage.asked.answer or b""
        passage.deliver(answer[: len(answer) // 2])

    passage.on_answer = half
    return False


def trickle(passage: Passage) -> bool:
    """Send the answer, and all after it on this connection, in pieces of one byte."""

    def begin() -> None:
        passage.connection.wrap_transport(_Trickling)
        passage.deliver()

    passage.on_answer = begin
    return False


def corrupt(seed: int) -> Deed:
    """Turn some bits of the answer round, behind its correlation id."""

    def deed(passage: Passage) -> bool:
        passage.on_answer = lambda: passage.deliver(_corrupted(passage.asked.answer or b"", seed))
        return False

    return deed


def _corrupted(answer: bytes, seed: int) -> bytes:
    damaged, chance = bytearray(answer), random.Random(seed)
    for _ in range(_CORRUPT_BITS if len(answer) > _FRONT_BYTES else 0):
        damaged[chance.randrange(_FRONT_BYTES, len(answer))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def _with_error(response: Any, error: ErrorCode) -> Any:
    """The same answer about the same topics, each of which has this error."""
    topics = tuple(replace(each, error_code=error, partitions=()) for each in response.topics)
    return replace(response, topics=topics)


class _Trickling(asyncio.Transport):
    """Writes one byte in a turn of the loop; all else is the other transport's."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._waiting = bytearray()
        self._is_closing = False

    def write(self, data: Any) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        self._waiting += data

    def _next(self) -> None:
        self._transport.write(bytes(self._waiting[:1]))
        del self._waiting[:1]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        elif self._is_closing:
            self._transport.close()

    def close(self) -> None:
        self._is_closing = True
        if not self._waiting:
            self._transport.close()

    def abort(self) -> None:
        self._waiting.clear()
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)
