"""The `.txnindex` files have the aborted transactions of the log, and Kafka reads them."""

import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from kohort.log.batch import TRANSACTIONAL
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.log.producer_state import ABORT, COMMIT
from kohort.testing.faults.files import FaultyFiles
from support.log import TERMS, compact, put, put_marker

FOLDER = Path("/data/orders-0")
ENTRY = struct.Struct(">hqqqq")
SEGMENT_BYTES = 400

Entry = tuple[int, int, int, int]
"""Producer id, first offset, last offset, last stable offset."""


@pytest.fixture
def files() -> FaultyFiles:
    files = FaultyFiles()
    files.make_folder(FOLDER.parent)
    return files


def open_log(files: FaultyFiles) -> Log:
    return Log.open(FOLDER, files, LogConfig(segment_bytes=SEGMENT_BYTES))


def send(log: Log, producer_id: int) -> None:
    settings = {"producer_id": producer_id, "producer_epoch": 0, "attributes": TRANSACTIONAL}
    put(log, [("k", "v")], **settings)


def fill(log: Log) -> None:
    """Two open transactions at a time, in several segments: those of producer 1 are aborted."""
    for _ in range(4):
        send(log, 1)
        send(log, 2)
        put_marker(log, 1, ABORT)
        put_marker(log, 2, COMMIT)


def stored(files: FaultyFiles) -> dict[int, list[Entry]]:
    """The entries of each file, by the segment's base offset."""
    found = {}
    for name in files.list(FOLDER):
        if name.endswith(".txnindex"):
            entries = list(ENTRY.iter_unpack(files.read_bytes(FOLDER / name)))
            assert {version for version, *_ in entries} == {0}
            found[int(name[:20])] = [(a, b, c, d) for _, a, b, c, d in entries]
    return found


def expected(log: Log) -> dict[int, list[Entry]]:
    found: dict[int, list[Entry]] = {}
    for segment in log.segments:
        for each in log.producers.aborted:
            if segment.base_offset <= each.last_offset < segment.end_offset:
                found.setdefault(segment.base_offset, []).append(
                    (each.producer_id, each.first_offset, *each[2:])
                )
    return found


def test_each_aborted_transaction_is_in_the_index_of_its_marker(files: FaultyFiles) -> None:
    log = open_log(files)
    fill(log)
    assert len(log.segments) > 2
    entries = [each for found in stored(files).values() for each in found]
    assert entries == [(1, 4 * n, 4 * n + 2, 4 * n + 1) for n in range(4)]
    assert stored(files) == expected(log)


def test_committed_transactions_need_no_index(files: FaultyFiles) -> None:
    log = open_log(files)
    send(log, 1)
    put_marker(log, 1, COMMIT)
    assert not stored(files)


@pytest.mark.parametrize(
    "damage",
    [
        lambda files, path: files.remove(path),
        lambda files, path: files.contents[path].extend(b"\0" * 34),
        lambda files, path: files.contents[path].__setitem__(slice(10, 12), b"\xff\xff"),
        lambda files, path: files.contents.__setitem__(
            path.with_name(f"{999:020d}.txnindex"), bytearray(34)
        ),
    ],
    ids=["missing", "longer", "other offsets", "without a segment"],
)
def test_an_index_that_does_not_match_is_written_again(
    files: FaultyFiles, damage: Callable[[FaultyFiles, Path], object]
) -> None:
    log = open_log(files)
    fill(log)
    before = stored(files)
    log.close()
    damage(files, FOLDER / f"{min(before):020d}.txnindex")
    assert stored(files) != before
    open_log(files)
    assert stored(files) == before


def test_an_index_that_matches_is_not_written(files: FaultyFiles) -> None:
    log = open_log(files)
    fill(log)
    log.close()
    files.calls.clear()
    open_log(files)
    assert not any(path.suffix == ".txnindex" for _, path in files.calls)


@pytest.mark.parametrize("offset", range(16))
def test_truncation_removes_the_transactions_whose_marker_it_removes(
    files: FaultyFiles, offset: int
) -> None:
    log = open_log(files)
    fill(log)
    log.truncate_to(offset)
    assert stored(files) == expected(log)
    fill(log)
    assert stored(files) == expected(log)


def test_retention_removes_the_index_with_its_segment(files: FaultyFiles) -> None:
    log = open_log(files)
    fill(log)
    log.delete_before(log.segments[-1].base_offset)
    assert stored(files).keys() <= {log.segments[-1].base_offset}
    log.close()
    again = open_log(files)
    assert stored(files) == expected(again)


def test_compaction_keeps_indexes_of_its_segments_only(files: FaultyFiles) -> None:
    log = open_log(files)
    fill(log)
    compact(log, terms=TERMS._replace(delete_retention_ms=0))
    bases = {segment.base_offset for segment in log.segments}
    assert stored(files).keys() <= bases
    log.close()
    again = open_log(files)
    assert stored(files) == expected(again)


def test_an_index_that_cannot_be_written_does_not_fail_the_append(
    files: FaultyFiles, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(files)
    send(log, 1)
    files.fail("append", after=1)
    put_marker(log, 1, ABORT)
    assert "Failed to write" in caplog.text
    assert log.end_offset == 2
    log.close()
    again = open_log(files)
    assert stored(files) == expected(again) != {}


@pytest.mark.java
def test_kafka_reads_the_index(tmp_path: Path, kafka_tool: Callable[..., str]) -> None:
    folder = tmp_path / "orders-0"
    log = Log.open(folder, DiskFiles(preallocate_bytes=64 * 1024), LogConfig())
    fill(log)
    names = ",".join(map(str, folder.glob("*.txnindex")))
    output = kafka_tool("org.apache.kafka.tools.DumpLogSegments", "--files", names)
    pattern = r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    entries = [tuple(map(int, each)) for each in re.findall(pattern, output)]
    assert entries == [(1, 4 * n, 4 * n + 2, 4 * n + 1) for n in range(4)]
    assert output.count("version: 0") == 4
    log.close()
