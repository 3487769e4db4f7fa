"""What no client should send, ten thousand times over, drawn from a seed."""

from collections.abc import Iterator
from functools import cache
from random import Random
from struct import pack
from typing import NamedTuple

from kio_messages import EVERY_VERSION, kio_bytes, largest, smallest
from kohort.protocol.apis import Api
from kohort.protocol.messages import request_module

# Most bodies are smaller than this; the claims that they make about themselves are not.
BODY_BYTES_MAX = 4_096


class Junk(NamedTuple):
    """Bytes for a connection of their own, and what they are."""

    what: str
    data: bytes


def framed(payload: bytes) -> bytes:
    return pack(">i", len(payload)) + payload


def header(api: Api, version: int, chance: Random) -> bytes:
    fixed = pack(">hhih", api.key, version, chance.getrandbits(31), 4) + b"fuzz"
    return fixed + (b"\0" if version >= api.flexible_from else b"")


@cache
def _requests(api: Api, version: int) -> tuple[bytes, ...]:
    """Bodies that kio wrote: one with next to nothing in it, one with much."""
    request = getattr(request_module(api.key, version), f"{api.name}Request")
    return kio_bytes(smallest(request)), kio_bytes(largest(request))


def random_bytes(chance: Random) -> Junk:
    data = chance.randbytes(chance.randint(1, BODY_BYTES_MAX))
    return Junk("random bytes", data)


def random_frame(chance: Random) -> Junk:
    return Junk("a frame of random bytes", framed(random_bytes(chance).data))


def random_body(chance: Random, number: int) -> Junk:
    api, version = EVERY_VERSION[number % len(EVERY_VERSION)]
    body = chance.randbytes(chance.randint(0, BODY_BYTES_MAX))
    what = f"{api.name} v{version} with a body of {len(body)} random bytes"
    return Junk(what, framed(header(api, version, chance) + body))


def cut_request(chance: Random, number: int) -> Junk:
    """Either the frame says how short it has become, or the connection ends in its middle."""
    api, version = EVERY_VERSION[number % len(EVERY_VERSION)]
    whole = header(api, version, chance) + chance.choice(_requests(api, version))
    at = chance.randrange(len(whole))
    what = f"{api.name} v{version} cut at {at} of {len(whole)} bytes"
    if chance.random() < 0.5:
        return Junk(what, framed(whole[:at]))
    return Junk(f"{what}, in the middle of its frame", framed(whole)[: at + 4])


def junk(count: int, chance: Random) -> Iterator[Junk]:
    """A third each of random bytes, random bodies and cut requests; every version in its turn."""
    for number in range(count):
        turn = number // 3
        if number % 3 == 0:
            yield random_frame(chance) if turn % 2 else random_bytes(chance)
        elif number % 3 == 1:
            yield random_body(chance, turn)
        else:
            yield cut_request(chance, turn)
