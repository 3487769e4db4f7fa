"""The faults of docs/disks.md on one offsets partition: the response, the log lines, and the disk
afterwards; and a whole broker on a disk that fails twice."""

import errno
import logging
import random
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import pytest
from kohort.broker.broker import Broker
from kohort.broker.runtime.runtime import RETRY_FAILED_MS
from kohort.coordinator.commands import OffsetFetch
from kohort.log.group_commit import BATCH_BYTES_MAX, Durability
from kohort.log.log import LogConfig
from kohort.log.records import records
from kohort.offsets.record_codec import decode_commit_value, decode_record
from kohort.offsets.records import OffsetCommitRecord
from kohort.protocol.errors import ErrorCode
from kohort.testing.faults.files import FaultyFiles, FileFault
from kohort.topics.names import OFFSETS_TOPIC, REGISTRY_TOPIC, TRANSACTION_TOPIC
from support.broker import DATA, BrokerHarness, PendingRequest
from support.coordinator import offset_commit
from support.running_broker import call, running_broker, until_durable
from support.runtime import FOLDER, RuntimeHarness
from support.transactions import Producer

FIRST = FOLDER / f"{0:020d}.log"
DURABILITIES: tuple[Durability, ...] = ("fsync", "os")


class Fault(NamedTuple):
    inject: Callable[[FaultyFiles], None]
    message: str  # logged as an error


WRITES = {
    "full": Fault(lambda f: f.fail("append", error=errno.ENOSPC), "No space left on device"),
    "failing": Fault(lambda f: f.fail("append"), "Input/output error"),
    "short": Fault(lambda f: f.fail("append", error=errno.ENOSPC, written=70), "No space left"),
    "torn and not truncated": Fault(
        lambda f: (f.fail("append", written=70), f.fail("truncate"))[0], "Input/output error"
    ),
    "read-only": Fault(lambda f: f.fail("append", error=errno.EROFS), "Read-only file system"),
    "not permitted": Fault(lambda f: f.fail("append", error=errno.EACCES), "Permission denied"),
}
SYNCS = {
    "failing": Fault(lambda f: f.fail("sync"), "Input/output error"),
    "failing again": Fault(lambda f: f.fail("sync", times=4), "Input/output error"),
    "removed file": Fault(lambda f: f.fail("sync", error=errno.ENOENT), "No such file"),
}


def error_of(harness: RuntimeHarness, name: str) -> ErrorCode:
    (error,) = set(harness.results[name].errors)
    return ErrorCode(error)


def stored(harness: RuntimeHarness) -> list[int]:
    """Return the committed offsets in the log."""
    found = [
        decode_record(each.key, each.value)
        for _, batch in harness.partition.log.batches()
        for each in records(batch)
    ]
    return [
        decode_commit_value(each.value).offset for each in found if type(each) is OffsetCommitRecord
    ]


def check_rejection_and_recovery(
    fault: Fault, durability: Durability, caplog: pytest.LogCaptureFixture
) -> None:
    harness = RuntimeHarness(durability)
    harness.commit_and_run(1)
    fault.inject(harness.files)
    with caplog.at_level(logging.ERROR):
        harness.commit("rejected", 2)
        harness.run_loop()
    assert error_of(harness, "rejected") is ErrorCode.not_coordinator
    assert fault.message in caplog.text
    assert harness.committed_offset() in (1, ErrorCode.not_coordinator)
    harness.files.heal()
    harness.timers.advance(RETRY_FAILED_MS)
    assert harness.committed_offset() == 1
    assert harness.commit_and_run(3) is ErrorCode.none
    assert stored(harness) == [1, 3]
    if durability == "fsync":
        harness.files.crash(random.Random(0))
    assert RuntimeHarness(durability, harness.files).committed_offset() == 3


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("what", WRITES)
def test_a_failed_write_rejects_the_commit_and_leaves_no_records(
    what: str, durability: Durability, caplog: pytest.LogCaptureFixture
) -> None:
    check_rejection_and_recovery(WRITES[what], durability, caplog)


@pytest.mark.parametrize("what", SYNCS)
def test_a_failed_sync_rejects_the_commit_and_truncates_the_log(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    check_rejection_and_recovery(SYNCS[what], "fsync", caplog)


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_flush_of_several_batches_fails_as_a_whole(durability: Durability) -> None:
    """The disk writes the first batch, fails the second, and fails the truncation."""
    harness = RuntimeHarness(durability)
    harness.commit_and_run(1)
    metadata = "x" * 4096
    count = BATCH_BYTES_MAX // len(metadata) + 1
    for name in ("first", "second"):
        offsets = [("t", each, 2) for each in range(count)]
        harness.submit(name, offset_commit("g", offsets, metadata=metadata))
    harness.files.fail("append", after=1, written=BATCH_BYTES_MAX)
    harness.files.fail("truncate", times=2)
    harness.run_loop()
    assert {error_of(harness, name) for name in ("first", "second")} == {ErrorCode.not_coordinator}
    harness.files.heal()
    harness.timers.advance(RETRY_FAILED_MS)
    assert harness.committed_offset() == 1
    assert set(stored(harness)) == {1}
    assert RuntimeHarness(durability, harness.files).committed_offset() == 1


@pytest.mark.parametrize("seed", range(20))
def test_after_a_power_failure_an_unsynced_commit_is_whole_or_missing(seed: int) -> None:
    """Unsynced bytes are lost entirely or in part; a torn batch is truncated."""
    harness = RuntimeHarness("fsync")
    harness.commit_and_run(1)
    harness.group_commit._sync_seconds = 1.0  # a slow disk: the sync runs in a thread
    harness.commit("in flight", 2)
    harness.due.pop(0)()  # written but not synced
    assert "in flight" not in harness.results
    harness.files.crash(random.Random(seed) if seed else None)
    again = RuntimeHarness("fsync", harness.files)
    assert again.committed_offset() == stored(again)[-1]
    assert stored(again) in ([1], [1, 2])
    assert seed or stored(again) == [1]


def test_a_log_is_truncated_at_bit_rot_and_the_rest_is_saved(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = RuntimeHarness("fsync")
    for offset in (1, 2, 3):
        harness.commit_and_run(offset)
    content = harness.files.contents[FIRST]
    size = len(content) // 3
    rest = bytes(content[size:])
    harness.files.contents[FIRST][size + 70] ^= 1
    again = RuntimeHarness("fsync", harness.files)
    assert again.committed_offset() == 1
    assert f"{2 * size} bytes after offset 0: checksum" in caplog.text
    (aside,) = (name for name in harness.files.list(FOLDER) if name.endswith(".cut"))
    assert aside in caplog.text
    saved = harness.files.contents[FOLDER / aside]
    assert saved[size:] == rest[size:], "including the valid batch behind the corrupt one"


def test_a_missing_segment_loses_only_its_own_records() -> None:
    config = LogConfig(segment_bytes=250)
    harness = RuntimeHarness("fsync", log_config=config)
    for number in range(6):
        harness.commit_and_run(number, group_id=f"g{number}")
    bases = [segment.base_offset for segment in harness.partition.log.segments]
    assert bases == [0, 2, 4]
    del harness.files.contents[FOLDER / f"{2:020d}.log"]
    again = RuntimeHarness("fsync", harness.files, log_config=config)
    assert [again.committed_offset(f"g{number}") for number in range(6)] == [0, 1, -1, -1, 4, 5]


def test_unknown_files_in_the_folder_are_left_unchanged() -> None:
    harness = RuntimeHarness("fsync")
    harness.commit_and_run(1)
    unknown = ("notes.txt", "00000000000000000000.log.bak", "7.log", "partition.metadata")
    for name in unknown:
        harness.files.contents[FOLDER / name] = bytearray(b"content")
    again = RuntimeHarness("fsync", harness.files)
    assert again.committed_offset() == 1
    again.commit_and_run(2)
    assert RuntimeHarness("fsync", harness.files).committed_offset() == 2
    assert {bytes(harness.files.contents[FOLDER / name]) for name in unknown} == {b"content"}


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO])
def test_an_unreadable_partition_responds_with_not_coordinator(
    error: int, caplog: pytest.LogCaptureFixture
) -> None:
    harness = RuntimeHarness("fsync")
    harness.commit_and_run(1)
    again = RuntimeHarness("fsync", harness.files)
    harness.files.fail("open", error=error, times=2)
    assert again.commit_and_run(2) is ErrorCode.not_coordinator
    assert "Failed to load partition 0 of __consumer_offsets: " in caplog.text
    assert again.committed_offset() is ErrorCode.not_coordinator
    harness.files.heal()
    again.timers.advance(RETRY_FAILED_MS)
    assert again.committed_offset() == 1
    assert stored(again) == [1]


# --- a whole broker


@pytest.mark.parametrize("durability", DURABILITIES)
def test_no_producer_is_acknowledged_in_a_transaction_topic_whose_creation_failed(
    durability: Durability,
) -> None:
    broker = BrokerHarness(durability=durability)
    broker.topics.allocate_producer_id()  # so that InitProducerId does not wait for the registry
    broker.run_loop()
    producer = Producer(broker)
    broker.files.fail("append")
    assert producer.init() is ErrorCode.not_coordinator
    assert broker.topics.get(TRANSACTION_TOPIC) is None
    assert not broker.node.transactions.contexts
    assert producer.init() is ErrorCode.none
    again = broker.restart(durability)
    again.load()
    (context,) = again.node.transactions.contexts.values()
    assert list(context.coordinator.transactions) == [producer.transactional_id]


def send_commit(broker: BrokerHarness, group_id: str = "g", offset: int = 7) -> PendingRequest:
    entries = [{"partition_index": 0, "committed_offset": offset}]
    topics = [{"name": "orders", "partitions": entries}]
    return broker.send("OffsetCommit", 8, group_id=group_id, topics=topics)


def committed_offsets(broker: BrokerHarness, group_ids: Iterable[str]) -> list[int]:
    groups = [
        {"group_id": each, "topics": [{"name": "orders", "partition_indexes": [0]}]}
        for each in group_ids
    ]
    response = broker.call("OffsetFetch", 8, groups=groups, require_stable=False)
    return [each.topics[0].partitions[0].committed_offset for each in response.groups]


@pytest.mark.parametrize(
    ("operation", "durability"), [("sync", "fsync"), ("append", "fsync"), ("append", "os")]
)
@pytest.mark.parametrize("sync_seconds", [0.0, 1.0], ids=["inline", "in a thread"])
@pytest.mark.parametrize("is_recovered", [True, False], ids=["recovered", "not recovered"])
def test_no_commit_is_acknowledged_in_an_offsets_topic_whose_creation_failed(
    operation: str, durability: Durability, sync_seconds: float, is_recovered: bool
) -> None:
    broker = BrokerHarness(durability=durability)
    broker.create_topic("orders")
    broker.group_commit._sync_seconds = sync_seconds

    def check_rejected(request: PendingRequest) -> None:
        broker.run_loop()
        assert request.response.topics[0].partitions[0].error_code == ErrorCode.not_coordinator
        assert broker.topics.get(OFFSETS_TOPIC) is None
        assert not broker.node.coordinators.contexts

    failed = send_commit(broker)
    broker.files.fail(operation)  # the first write or sync, which is that of the registry
    if not is_recovered:
        broker.files.faults += [
            FileFault(each, times=None, matches=lambda path: REGISTRY_TOPIC in str(path))
            for each in ("truncate", "open", "sync")
        ]
    check_rejected(failed)
    if not is_recovered:
        check_rejected(send_commit(broker))
        assert not [name for name in broker.files.list(DATA) if name.endswith("-stray")]
        broker.files.heal()
        check_rejected(send_commit(broker))  # recovers the registry
    repeated = send_commit(broker)
    broker.run_loop()
    assert not repeated.response.topics[0].partitions[0].error_code
    restarted = broker.restart(durability)
    restarted.load()
    assert committed_offsets(restarted, ["g"]) == [7]


@pytest.mark.parametrize("operation", ["append", "sync"])
@pytest.mark.parametrize("crashes", [False, True])
def test_rejected_commits_in_an_offsets_topic_whose_creation_failed_do_not_reappear(
    operation: str, crashes: bool
) -> None:
    """They must not be restored from the write-ahead log."""
    files = FaultyFiles()
    broker = BrokerHarness(files=files, has_write_ahead=True)
    broker.create_topic("orders")
    groups = ("g", "h", "i")
    assert len(set(map(broker.partition_of, groups))) == len(groups)
    rejected = [send_commit(broker, each) for each in groups]
    files.faults.append(FileFault(operation, matches=lambda path: REGISTRY_TOPIC in str(path)))
    broker.run_loop()
    for group in groups[:2]:
        send_commit(broker, group, 8)
    broker.run_loop()
    for each in rejected:
        (partition,) = each.response.topics[0].partitions
        assert partition.error_code == ErrorCode.not_coordinator
    assert committed_offsets(broker, groups) == [8, 8, -1]
    if crashes:
        files.crash()
    restarted = BrokerHarness(files=files, has_write_ahead=True)
    restarted.load()
    assert committed_offsets(restarted, groups) == [8, 8, -1]


async def test_offsets_survive_a_failed_topic_creation_and_a_failed_commit(tmp_path: Path) -> None:
    files = FaultyFiles()

    def running() -> AbstractAsyncContextManager[Broker]:
        config = {"offsets.topic.num.partitions": "1"}
        return running_broker(config, data_dir=tmp_path, durability="fsync", files=files)

    async def commit(broker: Broker, offset: int) -> ErrorCode:
        command = offset_commit("g", [("orders", 0, offset)])
        return ErrorCode((await call(broker.node.coordinators, command)).errors[0])

    async def committed(broker: Broker) -> int:
        fetch = OffsetFetch("g", (("orders", (0,)),), False, None, -1)
        result = await call(broker.node.coordinators, fetch)
        return int(result.topics[0][1][0].committed_offset)

    async with running() as broker:
        assert await commit(broker, 1) is ErrorCode.none
        files.fail("append", error=errno.ENOSPC)
        broker.node.topics.create("too-much", 1, {})
        assert await until_durable(broker.node.topics) is not None
        # A reader of the offsets topic opens its log through the registry.
        partition = broker.node.topics.partition("__consumer_offsets", 0)
        assert partition.high_watermark == 1
        for offset in (2, 3):
            assert await commit(broker, offset) is ErrorCode.none
        assert partition.high_watermark == 3
        files.fail("append", error=errno.ENOSPC)
        assert await commit(broker, 4) is ErrorCode.not_coordinator
        assert await committed(broker) == 3
    files.locked.clear()
    async with running() as broker:
        assert await committed(broker) == 3
