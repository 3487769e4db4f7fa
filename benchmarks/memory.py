"""Resident memory: idle, and with a million offsets committed by a hundred thousand groups."""

import time
from contextlib import AbstractContextManager
from typing import Any

from . import servers
from .machine import Setting

GROUPS = 100_000
PARTITIONS = 10
# Allocators give back, and Go's collector runs, some time after the work.
SETTLING_SECONDS = 1.0


def measure(setting: Setting) -> dict[str, Any]:
    contexts: list[AbstractContextManager[servers.Server]] = [
        servers.kohort("os", setting.folder),
        servers.kohort("none", setting.folder),
    ]
    if setting.kfake is not None:
        contexts.append(servers.kfake(setting.kfake, setting.folder))
    results = {}
    for context in contexts:
        with context as server:
            results[server.name] = of(setting, server)
    return results


def of(setting: Setting, server: servers.Server) -> dict[str, float | None]:
    client = setting.client
    client.run(server, "apiversions", conns=1, depth=1, seconds=0.1)
    idle = servers.resident_mib(server)
    if not client.can("groups"):
        return {"idle_mib": idle}
    told = client.run(
        server, "groups", conns=50, depth=20, groups=GROUPS, partitions=PARTITIONS, topic="many"
    )
    time.sleep(SETTLING_SECONDS)
    full = servers.resident_mib(server)
    return {
        "idle_mib": idle,
        "full_mib": full,
        "above_idle_mib": None if full is None or idle is None else full - idle,
        "commits_s": told["requests_s"],
        "offsets_s": told["requests_s"] * PARTITIONS,
    }
