"""A broker that compacts and writes snapshots continuously is killed with SIGKILL while ten
connections commit.

It is killed as soon as a file appears that exists only during a compaction or a snapshot.
Acknowledged commits and groups of the consumer protocol survive, `kohort log verify` passes, and
the logs stay small.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from crash.commits import (
    COMPACTING,
    check,
    commit_and_kill,
    create_topic,
    groups_of_connections,
    log_bytes,
)
from kafka_folder import consumer_groups
from kafka_folder.group_requests import error_codes
from kohort.testing.deadline import poll
from support.running_broker import (
    TIMEOUT_SECONDS,
    BrokerProcess,
    config_flags,
    kohort,
    start_broker,
)

# Arguments of Python that run the command.
FREQUENT_SNAPSHOTS = (
    "-c",
    (
        "import sys; from kohort.broker.runtime import snapshots; from kohort.cli.main import main;"
        "snapshots.EVERY_RECORDS, snapshots.EVERY_MS = 300, 100; sys.exit(main())"
    ),
)
CONNECTIONS = 10
METADATA_SIZE = 2_000
# Files of compaction steps and of a snapshot. `.swap` exists only between two renames.
SUFFIXES = (".cleaned", ".new.derived", ".deleted", ".swap")
CONSUMER_GROUPS = (
    "group.consumer.assignment.interval.ms=0",
    "group.consumer.session.timeout.ms=60000",  # longer than the time between two starts
)
PARTITION_BYTES_MAX = 4 * 1024 * 1024

pytestmark = [pytest.mark.crash, pytest.mark.slow]


def kill_at(broker: BrokerProcess, data: Path, suffix: str, first: int) -> Callable[[], None]:
    """Return a function that kills the broker once a file with this suffix exists and its logs have
    a segment beyond `first`."""

    def wait_and_kill() -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        try:
            while time.monotonic() < deadline:
                names = [path.name for path in data.glob("__consumer_offsets-*/*")]
                if max(map(base_offset, names), default=0) > first and any(
                    name.endswith(suffix) for name in names
                ):
                    return
        finally:
            broker.process.kill()
        raise AssertionError(f"no file *{suffix} within {TIMEOUT_SECONDS} s")

    return wait_and_kill


def base_offset(name: str) -> int:
    return int(name[:20]) if name[:20].isdigit() else 0


def newest_segment(data: Path) -> int:
    names = [path.name for path in data.glob("__consumer_offsets-*/*.log")]
    return max(map(base_offset, names), default=0)


def check_consumer_groups(broker: BrokerProcess, described: Mapping[str, Any]) -> None:
    for suffix, groups in described.items():
        assert consumer_groups.described(broker.bootstrap, suffix) == groups


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_commits_and_consumer_groups_survive_kills_during_compaction(
    durability: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    groups = groups_of_connections(CONNECTIONS, METADATA_SIZE)

    def start() -> contextlib.AbstractContextManager[BrokerProcess]:
        where = ("--port", "0", "--data-dir", data, "--durability", durability)
        options = config_flags((*COMPACTING, *CONSUMER_GROUPS))
        return start_broker(tmp_path, *where, *options, kohort=FREQUENT_SNAPSHOTS)

    described: dict[str, Any] = {}  # by suffix: groups that were created before that kill

    for suffix in SUFFIXES:
        with start() as broker:
            if not data.joinpath("__consumer_offsets-0").exists():
                create_topic(broker)
            check(broker, groups)
            check_consumer_groups(broker, described)
            consumer_groups.create(broker.bootstrap, suffix)
            described[suffix] = consumer_groups.described(broker.bootstrap, suffix)
            kill = kill_at(broker, data, suffix, newest_segment(data))
            commit_and_kill(broker, groups, kill=kill)
    with start() as broker:
        check(broker, groups)
        check_consumer_groups(broker, described)
        resumed = [consumer_groups.resume(broker.bootstrap, suffix) for suffix in SUFFIXES]
        assert {error for each in resumed for error in error_codes(each)} == {"none"}
        assert poll(lambda: log_bytes(data) <= 2 * PARTITION_BYTES_MAX, TIMEOUT_SECONDS)
        assert broker.stop() == 0
        assert "Traceback" not in broker.errors.read_text()
    verified = kohort("log", "verify", data)
    assert verified.returncode == 0, verified.stdout
    assert all(group.acknowledged for own in groups for group in own)
