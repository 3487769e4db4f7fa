"""Records in and out: megabytes per second of large batches, produced and then fetched."""

from contextlib import AbstractContextManager
from typing import Any

from . import servers
from .machine import Setting

PARTITIONS = 4
IN_FLIGHT = 5
MEGABYTES = 300


def measure(setting: Setting) -> dict[str, Any]:
    if not setting.client.can("produce"):
        return {}
    contexts: list[AbstractContextManager[servers.Server]] = [
        servers.kohort("fsync", setting.folder),
        servers.kohort("none", setting.folder),
    ]
    if setting.kfake is not None:
        contexts.append(servers.kfake(setting.kfake, setting.folder))
    results: dict[str, Any] = {"produce": {}, "consume": {}}
    for context in contexts:
        with context as server:
            for round_number in range(setting.rounds):
                topic = f"transfer-{round_number}"
                for mode, kept in results.items():
                    told = setting.client.run(
                        server,
                        mode,
                        conns=PARTITIONS,
                        depth=IN_FLIGHT,
                        megabytes=MEGABYTES,
                        topic=topic,
                    )
                    kept[server.name] = max(kept.get(server.name, 0.0), told["megabytes_s"])
    return results
