"""A member of a group that behaves well while the broker is attacked: `python -m hostile.neighbor
HOST:PORT [SESSION_MS]` prints `ready`, sends heartbeats until its standard input ends, and prints
its observations.

It is a separate process, so that attacks on the broker do not delay its own work.
"""

import json
import select
import sys
import time
from typing import NamedTuple

from support.member import only_member

INTERVAL_SECONDS = 0.01
SESSION_MS = 6_000


class Seen(NamedTuple):
    heartbeats: int
    worst_ms: float
    errors: dict[str, int]
    """Name of an error code in responses -> how often it occurred; without NONE."""


def main(address: str, session_ms: int = SESSION_MS) -> None:
    with only_member(address, "neighbor", group="neighbor", session_ms=session_ms) as member:
        print("ready", flush=True)
        heartbeats, worst, errors = 0, 0.0, dict[str, int]()
        is_over = False
        while not is_over:
            # The last heartbeat is after the attack, even if the attack was short.
            is_over = bool(select.select([sys.stdin], [], [], INTERVAL_SECONDS)[0])
            begin = time.perf_counter()
            error = member.heartbeat()
            worst = max(worst, time.perf_counter() - begin)
            heartbeats += 1
            if error != "none":
                errors[error] = errors.get(error, 0) + 1
    print(json.dumps(Seen(heartbeats, round(worst * 1000, 1), errors)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
