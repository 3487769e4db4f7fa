"""The commands on a folder that a broker uses."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import TopicAlreadyExistsError
from kafka.structs import OffsetAndMetadata
from kohort.log.files import DiskFiles
from kohort.log.segment import segment_bytes_in
from support.running_broker import (
    CLEAN_ENVIRONMENT,
    IMMEDIATE,
    TIMEOUT_SECONDS,
    BrokerProcess,
    config_flags,
    kohort,
    start_broker,
)

from ...clients.consumers import until
from .conftest import corrupt

pytestmark = pytest.mark.clients


def commit(broker: BrokerProcess, group: str, offsets: range) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        with suppress(TopicAlreadyExistsError):  # the test commits again
            admin.create_topics(["orders"])
        for offset in offsets:
            partition = TopicPartition("orders", 0)
            commit = OffsetAndMetadata(offset, f"at {offset}", -1)
            admin.alter_group_offsets(group, {partition: commit})
    finally:
        admin.close()


class Following:
    """A process of `kohort log dump --follow`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def commits(self, count: int) -> list[tuple[str, int]]:
        """(group, offset) of the next commits."""
        found: list[tuple[str, int]] = []
        assert self.process.stdout is not None
        while len(found) < count:
            record: dict[str, Any] = json.loads(self.process.stdout.readline())
            if record["kind"] == "OffsetCommit":
                found.append((record["key"]["group"], record["value"]["offset"]))
        return found


@contextmanager
def following(*args: str | Path) -> Iterator[Following]:
    command = [sys.executable, "-m", "kohort", "log", "dump", "--follow", "--format", "json"]
    with subprocess.Popen(
        [*command, *map(str, args)],
        env=CLEAN_ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        # Ends the test if an expected line does not arrive.
        timeout = threading.Timer(TIMEOUT_SECONDS, process.kill)
        timeout.start()
        try:
            yield Following(process)
        finally:
            timeout.cancel()
            process.kill()


def test_dump_follows_commits_from_the_first_one_until_ctrl_c(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        start_broker(tmp_path, "--port", "0", "--data-dir", data, *IMMEDIATE) as broker,
        following(data) as dump,
    ):
        commit(broker, "first", range(3))
        assert dump.commits(3) == [("first", offset) for offset in range(3)]
        commit(broker, "second", range(2))
        assert dump.commits(2) == [("second", offset) for offset in range(2)]
        with following(data, "--group", "first") as late:
            assert late.commits(3) == [("first", offset) for offset in range(3)]
        dump.process.send_signal(signal.SIGINT)
        out, err = dump.process.communicate(timeout=TIMEOUT_SECONDS)
        assert dump.process.returncode == 0
        assert out == ""
        assert err in ("", f"# {data} has no records yet: waiting\n")


def test_dump_follows_a_log_that_is_compacted_meanwhile(tmp_path: Path) -> None:
    """The records stay in order up to the last commit, although segments roll and are replaced.

    The dump's output is not read while 4 MiB are written, so the dump blocks in a segment until
    that segment has been compacted.
    """
    data = tmp_path / "data"
    settings = config_flags(
        [
            "num.partitions=50",
            "offsets.topic.segment.bytes=1048576",
            "log.cleaner.min.cleanable.ratio=0.01",
            "log.cleaner.backoff.ms=10",
        ]
    )
    where = ("--port", "0", "--durability", "os", "--data-dir", data, *IMMEDIATE)
    with start_broker(tmp_path, *where, *settings) as broker, following(data) as dump:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_topics(["orders"])
        partitions = [TopicPartition("orders", number) for number in range(50)]
        for offset in range(1, 41):
            commit = OffsetAndMetadata(offset, "x" * 2000, -1)
            admin.alter_group_offsets("g", dict.fromkeys(partitions, commit))
        admin.close()
        offsets = [offset for _, offset in dump.commits(1)]
        while offsets[-50:] != [40] * 50:
            offsets += [offset for _, offset in dump.commits(1)]
        assert offsets == sorted(offsets)
        (folder,) = data.glob("__consumer_offsets-*")
        until(lambda: segment_bytes_in(folder, DiskFiles()) < 3_000_000, "compacted")
        assert len(list(folder.glob("*.log"))) > 1
        verified = kohort("log", "verify", data)
        assert (verified.returncode, verified.stderr) == (0, "")
        dump.process.send_signal(signal.SIGINT)
        _, err = dump.process.communicate(timeout=TIMEOUT_SECONDS)
        assert dump.process.returncode == 0
        messages = [line for line in err.splitlines() if "waiting" not in line]
        expected = "was compacted while it was read: continuing at"
        assert all(expected in line for line in messages), err


def test_a_broker_serves_a_repaired_folder_without_the_corrupt_batch(tmp_path: Path) -> None:
    """Without the repair, the broker would truncate the log at the corrupt batch, and lose nine
    more commits."""
    data = tmp_path / "data"
    where = ("--port", "0", "--data-dir", data, "-o", "num.partitions=20", *IMMEDIATE)
    with start_broker(tmp_path, *where) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_topics(["orders"])
        for number in range(20):
            partition = TopicPartition("orders", number)
            admin.alter_group_offsets("g", {partition: OffsetAndMetadata(number + 1, "", -1)})
        admin.close()
        broker.stop(signal.SIGKILL)
    (segment,) = data.glob("__consumer_offsets-*/*.log")
    content = segment.read_bytes()
    position = content.index(b"\x00\x06orders" + (10).to_bytes(4, "big"))
    corrupt(segment, position + 20)
    repaired = kohort("log", "repair", data)
    assert repaired.returncode == 0, repaired.stderr
    assert "OffsetCommit group=g topic=orders partition=10: no older commit exists" in (
        repaired.stdout
    )
    with start_broker(tmp_path, *where) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        offsets = admin.list_group_offsets({"g": None})["g"]
        admin.close()
        kept = {partition.partition: commit.offset for partition, commit in offsets.items()}
        assert kept == {number: number + 1 for number in range(20) if number != 10}
        assert broker.stop() == 0
        log = broker.errors.read_text()
        assert "truncated" not in log, log
