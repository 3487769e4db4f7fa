"""A member of a group that behaves well while the broker is attacked: `python -m hostile.neighbour
HOST:PORT [SESSION_MS]` prints `ready`, sends heartbeats until its standard input ends, and prints
what it saw.

It is a separate process, so that attacks do not delay it.
"""

import json
import select
import sys
import time
from typing import NamedTuple

from support.wire import Client

INTERVAL_SECONDS = 0.01
GROUP = "neighbour"
SESSION_MS = 6_000


class Seen(NamedTuple):
    heartbeats: int
    worst_ms: float
    errors: dict[str, int]
    """Name of an error code in responses -> how often it occurred; without NONE."""


def main(address: str, session_ms: int = SESSION_MS) -> None:
    with Client(address, "neighbour") as client:
        join = {
            "group_id": GROUP,
            "session_timeout": session_ms,
            "rebalance_timeout": 60000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        member = client.call("JoinGroup", 4, **join)["member_id"]
        joined = client.call("JoinGroup", 4, **join, member_id=member)
        identity = {
            "group_id": GROUP,
            "generation_id": joined["generation_id"],
            "member_id": member,
        }
        client.call(
            "SyncGroup", 3, **identity, assignments=[{"member_id": member, "assignment": b""}]
        )
        print("ready", flush=True)
        heartbeats, worst, errors = 0, 0.0, dict[str, int]()
        is_over = False
        while not is_over:
            # The last heartbeat is after the attack, however short that was.
            is_over = bool(select.select([sys.stdin], [], [], INTERVAL_SECONDS)[0])
            begin = time.perf_counter()
            error = client.call("Heartbeat", 3, **identity)["error_code"]
            worst = max(worst, time.perf_counter() - begin)
            heartbeats += 1
            if error != "none":
                errors[error] = errors.get(error, 0) + 1
    print(json.dumps(Seen(heartbeats, round(worst * 1000, 1), errors)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
