"""Recovery time of a broker with a million committed offsets on disk: from the start of its process
until it has returned the offsets of one group, and of one group in each offsets partition.

Measured twice: with one commit per offset in the log, and with ten. kohort is measured with and
without its snapshots.
"""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from kohort.broker.runtime.snapshots import EVERY_RECORDS
from kohort.log.cache_files import OFFSETS_SNAPSHOT, is_cache_file
from kohort.offsets.coordinator_topic import partition_for

from . import fill, servers
from .load_python import call, prepared
from .machine import Setting

GROUPS = 100_000
# kfake rewrites its file once it has 10 MiB; with twice as many groups, it would rewrite it at
# every commit.
KFAKE_GROUPS = 5_000
COMMITS = (1, 10)
PREFIX = "recovery"
RECOVERY_SECONDS_MAX = 300
POLL_SECONDS = 0.002

Start = Callable[[], AbstractContextManager[servers.Server]]


def measure(setting: Setting) -> list[dict[str, Any]]:
    has_kfake = setting.kfake is not None and setting.client.supports("groups")
    sizes = [GROUPS, KFAKE_GROUPS] if has_kfake else [GROUPS]
    rows = [
        each
        for groups in sizes
        for commits in COMMITS
        for each in measure_kohort(setting, setting.scaled(groups), commits)
    ]
    if not setting.client.supports("groups"):
        return rows
    if setting.kfake is not None:
        with servers.data_dir(setting.folder) as data:
            start = partial(servers.running, "kfake os", [str(setting.kfake), str(data)])
            rows += measure_peer(setting, "kfake os", setting.scaled(KFAKE_GROUPS), start)
    if servers.can_start_kafka():
        with servers.data_dir(setting.folder) as data:
            start = partial(servers.kafka, data)
            rows += measure_peer(setting, "Kafka", setting.scaled(GROUPS), start)
    return rows


def measure_kohort(setting: Setting, groups: int, commits: int) -> list[dict[str, Any]]:
    names = fill.group_names(groups, PREFIX)
    with servers.data_dir(setting.folder) as data:
        fill.prepare(data, setting.client)
        records = fill.fill(data, names, commits)
        start = partial(servers.running, "kohort", servers.kohort_command("os", data))
        delete = partial(delete_snapshots, data)
        found = {"without snapshot": median(setting, start, names, before=delete)}
        with start() as server:
            recovery_times(server, names, time.perf_counter())
            has_snapshots = wait_for_snapshots(data, records)
        if has_snapshots:
            found["with snapshot"] = median(setting, start, names)
    return [row(f"kohort, {variant}", groups, records, times) for variant, times in found.items()]


def measure_peer(setting: Setting, name: str, groups: int, start: Start) -> list[dict[str, Any]]:
    """Commit the offsets with a client, so that the server writes files in its own format."""
    names = fill.group_names(groups, PREFIX)
    options: dict[str, object] = {"conns": 50, "depth": 20, "groups": groups, "group": PREFIX}
    options |= {"topic": fill.TOPIC, "partitions": fill.PARTITIONS}
    rows = []
    committed = 0
    for commits in COMMITS:
        with start() as server:
            fill.warm_up(server, setting.client)
            while committed < commits:
                setting.client.run(server, "groups", **options)
                committed += 1
        records = groups * fill.PARTITIONS * commits
        rows.append(row(name, groups, records, median(setting, start, names)))
    return rows


def row(name: str, groups: int, records: int, times: dict[str, float]) -> dict[str, Any]:
    return {"name": name, "offsets": groups * fill.PARTITIONS, "records": records, **times}


def median(
    setting: Setting, start: Start, groups: list[str], before: Callable[[], None] = lambda: None
) -> dict[str, float]:
    rounds = []
    for _ in range(setting.rounds):
        before()
        started = time.perf_counter()
        with start() as server:
            rounds.append(recovery_times(server, groups, started))
    return {
        figure: statistics.median(each[figure] for each in rounds)
        for figure in ("first_s", "all_s", "resident_mib")
    }


def recovery_times(server: servers.Server, groups: list[str], started: float) -> dict[str, float]:
    """Return the seconds from `started` to the first response and to all partitions' responses."""
    wait_for_offset(server, groups[len(groups) // 2])
    first = time.perf_counter() - started
    by_partition = {partition_for(group, fill.OFFSETS_PARTITIONS): group for group in groups}
    for group in by_partition.values():
        wait_for_offset(server, group)
    return {
        "first_s": first,
        "all_s": time.perf_counter() - started,
        "resident_mib": servers.resident_mib(server) or 0.0,
    }


def wait_for_offset(server: servers.Server, group: str) -> None:
    end = time.perf_counter() + RECOVERY_SECONDS_MAX
    request = prepared("fetch", group, fill.TOPIC)
    while not has_offset(server, request, group):
        if time.perf_counter() > end:
            raise SystemExit(
                f"{server.name} returned no offset of {group} within {RECOVERY_SECONDS_MAX} s"
            )
        time.sleep(POLL_SECONDS)


def has_offset(server: servers.Server, request: bytes, group: str) -> bool:
    """Return False while the group is loading; raise SystemExit if the offset is lost."""
    try:
        response = call(server.address, request)
    except (OSError, EOFError):
        return False
    # The response ends with offset, leader epoch, empty metadata, partition error, group error.
    if response[-2:] != b"\0\0" or response[-4:-2] != b"\0\0":
        return False
    if int.from_bytes(response[-18:-10], "big", signed=True) < 0:
        raise SystemExit(f"{server.name} has lost the offsets of {group}")
    return True


def delete_snapshots(data: Path) -> None:
    for path in data.rglob("*"):
        if is_cache_file(path.name):
            path.unlink()


def wait_for_snapshots(data: Path, records: int) -> bool:
    """Wait for the snapshots, which are written in the background after loading.

    Return False if the logs are too short for snapshots."""
    # The groups are not distributed evenly over the partitions.
    if records / fill.OFFSETS_PARTITIONS < 1.2 * EVERY_RECORDS:
        return False
    end = time.perf_counter() + RECOVERY_SECONDS_MAX
    while len(list(data.rglob(OFFSETS_SNAPSHOT))) < fill.OFFSETS_PARTITIONS:
        if time.perf_counter() > end:
            raise SystemExit(f"the snapshots were not written within {RECOVERY_SECONDS_MAX} s")
        time.sleep(0.05)
    return True
