"""Resident memory: idle, and with a million offsets of a hundred thousand groups.

kohort is also measured with --cache-offsets.
"""

import time
from contextlib import AbstractContextManager
from typing import Any

from . import fill, servers
from .fill import PARTITIONS, TOPIC
from .machine import Setting

GROUPS = 100_000
CACHED_OFFSETS = 100_000
# Allocators return memory, and Go collects garbage, only some time after the load.
SETTLING_SECONDS = 1.0


def measure(setting: Setting) -> dict[str, Any]:
    cached = setting.scaled(CACHED_OFFSETS)
    contexts: list[AbstractContextManager[servers.Server]] = [
        servers.kohort("os", setting.folder),
        servers.kohort("none", setting.folder),
        servers.kohort(
            "os",
            setting.folder,
            name=f"kohort os, --cache-offsets {cached}",
            options=[f"kohort.cache.offsets={cached}"],
        ),
    ]
    if setting.kfake is not None:
        contexts.append(servers.kfake(setting.kfake, setting.folder))
    if servers.can_start_kafka():
        contexts.append(servers.new_kafka(setting.folder))
    results = {}
    for context in contexts:
        with context as server:
            results[server.name] = measure_server(setting, server)
    return results


def measure_server(setting: Setting, server: servers.Server) -> dict[str, float | None]:
    client = setting.client
    fill.warm_up(server, client)
    idle = servers.resident_mib(server)
    if not client.supports("groups"):
        return {"idle_mib": idle}
    groups = setting.scaled(GROUPS)
    figures = client.run(
        server, "groups", conns=50, depth=20, groups=groups, partitions=PARTITIONS, topic=TOPIC
    )
    time.sleep(SETTLING_SECONDS)
    full = servers.resident_mib(server)
    above = None if full is None or idle is None else full - idle
    return {
        "offsets": groups * PARTITIONS,
        "idle_mib": idle,
        "full_mib": full,
        "above_idle_mib": above,
        "bytes_per_offset": None if above is None else above * 2**20 / (groups * PARTITIONS),
        "commits_s": figures["requests_s"],
        "offsets_s": figures["requests_s"] * PARTITIONS,
    }
