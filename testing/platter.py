"""What of each file's bytes has reached the platter, and what is on its way there: what is left of
them when the power goes.

Nothing is kept twice before it is synced: of a write on its way its place is known, and the file
itself has the bytes, until it is about to lose them.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Mapping

SECTOR_BYTES = 512

Write = tuple[int, bytes | int | None]
"""Where, and what: how many bytes, which the content still has there; these bytes, which it has no
more; None where it was cut off."""


class Platter:
    """`content`: the bytes of a file as its readers see them. One that is not known to it, or not
    any more, comes back from no crash, and costs nothing."""

    def __init__(self) -> None:
        self._contents: dict[int, bytearray] = {}  # keeps ids unique
        self._durable: dict[int, bytes] = {}
        self._pending: dict[int, list[Write]] = {}
        self._noting = threading.Lock()  # files are synced in threads

    def know(self, content: bytearray) -> None:
        with self._noting:
            self._contents[id(content)] = content

    def let_go(self, contents: Iterable[bytearray]) -> None:
        """No name leads to these any more, not after a crash either."""
        with self._noting:
            for content in contents:
                for known in (self._contents, self._durable, self._pending):
                    known.pop(id(content), None)

    def write(self, content: bytearray, position: int, data: bytes) -> None:
        """Over what is there from `position` on, and what is not synced of it."""
        end = position + len(data)
        with self._noting:
            if position < len(content) and content[position:end] != data:
                self._keep_beyond(content, position)
            # Whoever has cut it meanwhile leaves no room at `position`: it goes to the end then.
            held = len(data) if position <= len(content) else data
            content[position:end] = data
            self._pend(content, (position, held))

    def cut(self, content: bytearray, size: int) -> None:
        """Its owner cuts it off there after this."""
        with self._noting:
            self._keep_beyond(content, size)
            self._pend(content, (size, None))

    def settle(self, content: bytearray) -> None:
        """All of it is durable."""
        with self._noting:
            self._contents[id(content)] = content
            self._durable[id(content)] = bytes(content)
            self._pending.pop(id(content), None)

    def sync(self, content: bytearray) -> None:
        """What is pending is durable from now on."""
        with self._noting:
            if id(content) not in self._contents:
                return
            data = bytearray(self._durable.get(id(content), b""))
            for position, what in self._pending.pop(id(content), ()):
                if what is None:
                    del data[position:]
                else:
                    _put(data, position, _bytes_of(content, position, what))
            self._durable[id(content)] = bytes(data)

    def forget(self, content: bytearray) -> None:
        """A sync of it has failed: what was written is not written by the next one either."""
        with self._noting:
            pending = self._pending.get(id(content), [])
            pending[:] = [write for write in pending if write[1] is None]

    def after_crash(self, content: bytearray, chance: random.Random | None) -> bytearray:
        """Without `chance` nothing of what is pending is there, with it any sectors and cuts."""
        data = bytearray(self._durable.get(id(content), b""))
        if chance is None:
            return data
        for position, what in self._pending.get(id(content), ()):
            if what is None:
                if chance.random() < 0.5:
                    del data[position:]
                continue
            written = _bytes_of(content, position, what)
            for start in range(0, len(written), SECTOR_BYTES):
                if chance.random() < 0.7:
                    part = written[start : start + SECTOR_BYTES]
                    part = part[: chance.randint(0, len(part))] if chance.random() < 0.2 else part
                    _put(data, position + start, part)
        return data

    def copied(self, copies: Mapping[int, bytearray]) -> Platter:
        """Another one, of these copies by the ids of the contents they were made of."""
        twin = Platter()
        with self._noting:
            twin._contents = {id(copies[key]): copies[key] for key in self._contents}
            twin._durable = {id(copies[key]): data for key, data in self._durable.items()}
            twin._pending = {id(copies[key]): [*writes] for key, writes in self._pending.items()}
        return twin

    @property
    def contents(self) -> list[bytearray]:
        """All that it knows."""
        return list(self._contents.values())

    def _pend(self, content: bytearray, write: Write) -> None:
        if id(content) in self._contents:
            self._pending.setdefault(id(content), []).append(write)

    def _keep_beyond(self, content: bytearray, end: int) -> None:
        """The content is about to lose what it has beyond `end`."""
        pending = self._pending.get(id(content), [])
        for number, (position, what) in enumerate(pending):
            if isinstance(what, int) and position + what > end:
                pending[number] = position, _bytes_of(content, position, what)


def _bytes_of(content: bytearray, position: int, what: bytes | int) -> bytes:
    return bytes(content[position : position + what]) if isinstance(what, int) else what


def _put(data: bytearray, position: int, part: bytes) -> None:
    """As pwrite: zeros fill what lies between the end and `position`."""
    data.extend(bytes(max(0, position - len(data))))
    data[position : position + len(part)] = part
