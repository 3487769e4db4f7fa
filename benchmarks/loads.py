"""Throughput and latency of requests. All servers run at the same time and are measured in turn."""

from contextlib import ExitStack
from typing import Any

from . import servers
from .machine import Setting

# (connections, requests in flight on each)
SHAPES = ((50, 20), (50, 1), (1, 1))
MODES = ("commit", "fetch", "apiversions")
MEMBERS = (100, 1_000)
PRODUCERS = (1, 50)
# The figures of loads that are measured once.
FIGURES = {
    "rebalance": ("p50_ms", "min_ms", "max_ms"),
    "consumer": ("stable_ms", "heartbeats_s"),
    "transactions": ("transactions_s", "p50_ms", "p99_ms"),
}
# OffsetFetch and rebalances hardly depend on the durability, so one setting is enough.
COMMITS_ONLY = ("kohort fsync", "kohort none", "kfake fsync")


def all_servers(setting: Setting, stack: ExitStack) -> list[servers.Server]:
    """Start all servers; each is idle while another one is measured."""
    folder = setting.folder
    contexts = [
        servers.kohort("fsync", folder),
        servers.kohort("os", folder),
        servers.kohort("none", folder),
        servers.echo("asyncio"),
    ]
    if servers.has_uvloop():
        contexts += [servers.kohort("os", folder, uvloop=False), servers.echo("uvloop")]
    if setting.kfake is not None:
        contexts += [
            servers.kfake(setting.kfake, folder),
            servers.kfake(setting.kfake, folder, disk=True, sync=True),
        ]
    running = [stack.enter_context(context) for context in contexts]
    kafka = servers.real_kafka()
    return running if kafka is None else [*running, kafka]


def measure(setting: Setting) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with ExitStack() as stack:
        running = all_servers(setting, stack)
        for mode in MODES:
            for conns, depth in SHAPES:
                measured = [s for s in running if mode == "commit" or s.name not in COMMITS_ONLY]
                results[f"{mode} {conns}×{depth}"] = best(setting, measured, mode, conns, depth)
        brokers = [each for each in running if not each.echoes]
        measured_once = [each for each in brokers if each.name not in COMMITS_ONLY]
        for members in MEMBERS if setting.client.supports("rebalance") else ():
            members = max(2, setting.scaled(members))
            results[f"rebalance {members}"] = once(setting, measured_once, "rebalance", members)
        if setting.client.supports("consumer"):
            # Groups of the consumer protocol (KIP-848).
            members = max(2, setting.scaled(MEMBERS[-1]))
            options = {"partitions": 10 * members, "seconds": setting.seconds}
            results[f"consumer {members}"] = once(
                setting, measured_once, "consumer", members, **options
            )
        for conns in PRODUCERS if setting.client.supports("transactions") else ():
            # Each producer has one open transaction at a time, of ten records.
            options = {"record": 100, "seconds": setting.seconds}
            results[f"transactions {conns}"] = once(
                setting, brokers, "transactions", conns, **options
            )
    return results


def best(
    setting: Setting, running: list[servers.Server], mode: str, conns: int, depth: int
) -> dict[str, dict[str, float]]:
    """Return each server's figures from the round in which it handled the most requests per second.
    Each round measures all servers."""
    found: dict[str, dict[str, float]] = {}
    for _ in range(setting.rounds):
        for server in running:
            figures = setting.client.run(
                server, mode, conns=conns, depth=depth, seconds=setting.seconds
            )
            before = found.get(server.name)
            if before is None or figures["requests_s"] > before["requests_s"]:
                found[server.name] = {
                    key: figures[key] for key in ("requests_s", "p50_ms", "p99_ms", "max_ms")
                }
    return found


def once(
    setting: Setting, running: list[servers.Server], mode: str, conns: int, **options: object
) -> dict[str, dict[str, float]]:
    """Return the figures of a single round, by server."""
    found = {}
    for server in running:
        name = f"{mode}-{conns}"
        figures = setting.client.run(server, mode, conns=conns, topic=name, group=name, **options)
        found[server.name] = {key: figures[key] for key in FIGURES[mode]}
    return found
