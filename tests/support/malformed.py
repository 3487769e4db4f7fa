"""Malformed requests of all versions of all APIs, for tests that send them to a broker."""

from collections.abc import Iterator
from functools import cache
from random import Random
from struct import pack
from typing import NamedTuple

from kohort.conformance.wire import kio_bytes, smallest
from kohort.protocol.apis import Api
from kohort.protocol.messages import request_module
from support.kio_messages import EVERY_VERSION, largest

# Bodies are smaller than this; the lengths in them are not.
BODY_BYTES_MAX = 4_096


class Malformed(NamedTuple):
    """Bytes for a separate connection."""

    description: str
    data: bytes


def framed(payload: bytes) -> bytes:
    return pack(">i", len(payload)) + payload


def header(api: Api, version: int, random: Random) -> bytes:
    fixed = pack(">hhih", api.key, version, random.getrandbits(31), 4) + b"fuzz"
    return fixed + (b"\0" if version >= api.flexible_from else b"")


@cache
def _requests(api: Api, version: int) -> tuple[bytes, ...]:
    """The smallest and the largest body, encoded by kio."""
    request = getattr(request_module(api.key, version), f"{api.name}Request")
    return kio_bytes(smallest(request)), kio_bytes(largest(request))


def random_body(random: Random, number: int) -> Malformed:
    api, version = EVERY_VERSION[number % len(EVERY_VERSION)]
    body = random.randbytes(random.randint(0, BODY_BYTES_MAX))
    description = f"{api.name} v{version} with a body of {len(body)} random bytes"
    return Malformed(description, framed(header(api, version, random) + body))


def cut_request(random: Random, number: int) -> Malformed:
    """Cut a request; the size of its frame is that of what remains, or of the whole request."""
    api, version = EVERY_VERSION[number % len(EVERY_VERSION)]
    whole = header(api, version, random) + random.choice(_requests(api, version))
    at = random.randrange(len(whole))
    description = f"{api.name} v{version} cut at {at} of {len(whole)} bytes"
    if random.random() < 0.5:
        return Malformed(description, framed(whole[:at]))
    return Malformed(f"{description}, in the middle of its frame", framed(whole)[: at + 4])


def malformed_requests(count: int, random: Random) -> Iterator[Malformed]:
    """Yield random bytes, random bodies and cut requests, a third each, for all versions in
    turn."""
    for number in range(count):
        index = number // 3
        if number % 3 == 0:
            data = random.randbytes(random.randint(1, BODY_BYTES_MAX))
            frame = Malformed("a frame of random bytes", framed(data))
            yield frame if index % 2 else Malformed("random bytes", data)
        elif number % 3 == 1:
            yield random_body(random, index)
        else:
            yield cut_request(random, index)


def mutated(data: bytes, random: Random) -> bytes:
    """The bytes with a few of them changed, removed, repeated or inserted."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        begin = random.randrange(len(changed) + 1)
        end = min(begin + random.randint(1, 16), len(changed))
        kind = random.randrange(4)
        if kind == 0:
            changed[begin:end] = random.randbytes(end - begin)
        elif kind == 1:
            del changed[begin:end]
        elif kind == 2:
            changed[begin:begin] = changed[begin:end]
        else:
            changed[begin:begin] = random.randbytes(random.randint(1, 16))
    return bytes(changed)
