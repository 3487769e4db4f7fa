"""How long a broker sleeps on: from the start of its process with a million committed offsets on
disk to the first OffsetFetch of one group, and until a group of every partition is answered.

The log has one commit of each offset, and then ten. kohort reads it as it is, and with the
snapshots that it keeps beside it.
"""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from kohort.broker.snapshots import EVERY_RECORDS
from kohort.log.cache_files import OFFSETS_SNAPSHOT, is_cache_file
from kohort.offsets.partitioner import partition_for

from . import filling, servers
from .load_python import ask, prepared
from .machine import Setting

GROUPS = 100_000
# Once its file has 10 MiB kfake writes it anew, and with twice as many groups that is at every
# commit.
KFAKE_GROUPS = 5_000
COMMITS = (1, 10)
PREFIX = "wake"
AWAKE_SECONDS_MAX = 300
POLL_SECONDS = 0.002

Start = Callable[[], AbstractContextManager[servers.Server]]


def measure(setting: Setting) -> list[dict[str, Any]]:
    has_kfake = setting.kfake is not None and setting.client.can("groups")
    sizes = [GROUPS, KFAKE_GROUPS] if has_kfake else [GROUPS]
    rows = [
        each
        for groups in sizes
        for commits in COMMITS
        for each in of_kohort(setting, setting.scaled(groups), commits)
    ]
    if not setting.client.can("groups"):
        return rows
    if setting.kfake is not None:
        with servers.data_dir(setting.folder) as data:
            start = partial(servers.running, "kfake os", [str(setting.kfake), str(data)])
            rows += of_peer(setting, "kfake os", setting.scaled(KFAKE_GROUPS), start)
    if servers.can_start_kafka():
        with servers.data_dir(setting.folder) as data:
            start = partial(servers.kafka, data)
            rows += of_peer(setting, "Kafka", setting.scaled(GROUPS), start)
    return rows


def of_kohort(setting: Setting, groups: int, commits: int) -> list[dict[str, Any]]:
    names = filling.group_names(groups, PREFIX)
    with servers.data_dir(setting.folder) as data:
        filling.prepare(data, setting.client)
        records = filling.fill(data, names, commits)
        start = partial(servers.running, "kohort", servers.kohort_command("os", data))
        forget = partial(forget_snapshots, data)
        found = {"without snapshot": median(setting, start, names, before=forget)}
        with start() as server:
            awake(server, names, time.perf_counter())
            has_snapshots = wait_for_snapshots(data, records)
        if has_snapshots:
            found["with snapshot"] = median(setting, start, names)
    return [row(f"kohort, {how}", groups, records, times) for how, times in found.items()]


def of_peer(setting: Setting, name: str, groups: int, start: Start) -> list[dict[str, Any]]:
    """Filled by a client, which is how its own files come about."""
    names = filling.group_names(groups, PREFIX)
    rows = []
    committed = 0
    for commits in COMMITS:
        with start() as server:
            filling.warm_up(server, setting.client)
            while committed < commits:
                commit_all(setting, server, groups)
                committed += 1
        records = groups * filling.PARTITIONS * commits
        rows.append(row(name, groups, records, median(setting, start, names)))
    return rows


def commit_all(setting: Setting, server: servers.Server, groups: int) -> None:
    setting.client.run(
        server,
        "groups",
        conns=50,
        depth=20,
        groups=groups,
        partitions=filling.PARTITIONS,
        topic=filling.TOPIC,
        group=PREFIX,
    )


def row(name: str, groups: int, records: int, times: dict[str, float]) -> dict[str, Any]:
    return {"name": name, "offsets": groups * filling.PARTITIONS, "records": records, **times}


def median(
    setting: Setting, start: Start, groups: list[str], before: Callable[[], None] = lambda: None
) -> dict[str, float]:
    rounds = []
    for _ in range(setting.rounds):
        before()
        began = time.perf_counter()
        with start() as server:
            rounds.append(awake(server, groups, began))
    return {
        what: statistics.median(each[what] for each in rounds)
        for what in ("first_s", "all_s", "resident_mib")
    }


def awake(server: servers.Server, groups: list[str], began: float) -> dict[str, float]:
    """Seconds since `began` to the first answer, and to an answer of each partition."""
    wait_for_offset(server, groups[len(groups) // 2])
    first = time.perf_counter() - began
    of_each = {partition_for(group, filling.OFFSETS_PARTITIONS): group for group in groups}
    for group in of_each.values():
        wait_for_offset(server, group)
    return {
        "first_s": first,
        "all_s": time.perf_counter() - began,
        "resident_mib": servers.resident_mib(server) or 0.0,
    }


def wait_for_offset(server: servers.Server, group: str) -> None:
    end = time.perf_counter() + AWAKE_SECONDS_MAX
    request = prepared("fetch", group, filling.TOPIC)
    while not told_offset(server, request, group):
        if time.perf_counter() > end:
            raise SystemExit(f"{server.name} did not wake up in {AWAKE_SECONDS_MAX} s")
        time.sleep(POLL_SECONDS)


def told_offset(server: servers.Server, request: bytes, group: str) -> bool:
    """False: not yet. Raises SystemExit when the offset is gone."""
    try:
        answer = ask(server.address, request)
    except (OSError, EOFError):
        return False
    # …, offset int64, leader epoch int32, empty metadata, error of the partition, error of all.
    if answer[-2:] != b"\0\0" or answer[-4:-2] != b"\0\0":
        return False
    if int.from_bytes(answer[-18:-10], "big", signed=True) < 0:
        raise SystemExit(f"{server.name} has lost the offsets of {group}")
    return True


def forget_snapshots(data: Path) -> None:
    for path in data.rglob("*"):
        if is_cache_file(path.name):
            path.unlink()


def wait_for_snapshots(data: Path, records: int) -> bool:
    """They are written in the background once the logs have been read. False: these are too short
    to get any."""
    # No partition has exactly its share of the groups.
    if records / filling.OFFSETS_PARTITIONS < 1.2 * EVERY_RECORDS:
        return False
    end = time.perf_counter() + AWAKE_SECONDS_MAX
    while len(list(data.rglob(OFFSETS_SNAPSHOT))) < filling.OFFSETS_PARTITIONS:
        if time.perf_counter() > end:
            raise SystemExit(f"there are no snapshots after {AWAKE_SECONDS_MAX} s")
        time.sleep(0.05)
    return True
