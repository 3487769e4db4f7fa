"""`kohort log verify`: problems, their positions, what is lost, and the remedy."""

import errno
import os
import struct
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from crc32c import crc32c
from kohort.cli.log import verify
from kohort.cli.main import main
from kohort.log.files import DiskFile, DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.log.segment import segment_name
from support.log import NewRecord, build

from .conftest import NOW_MS, batch_of, commit, corrupt, in_transaction, new_records, write_log

FIRST = segment_name(0)

Verify = Callable[[Path], tuple[int, str]]


@pytest.fixture
def verify_log(capsys: pytest.CaptureFixture[str]) -> Verify:
    def verify_log(path: Path) -> tuple[int, str]:
        before = content_of(path)
        code = main(["log", "verify", str(path)])
        assert content_of(path) == before, "verify must not write"
        out, err = capsys.readouterr()
        assert (err == "") == (code != 2)
        return code, out + err

    return verify_log


def content_of(path: Path) -> dict[Path, tuple[int, bytes]]:
    files = path.rglob("*") if path.is_dir() else [path] if path.is_file() else []
    return {f: (f.stat().st_mtime_ns, f.read_bytes()) for f in files if f.is_file()}


def test_a_valid_log_has_no_problems(offsets_log: Path, verify_log: Verify) -> None:
    write_log(offsets_log.parent / "orders-0", [lambda at: build([NewRecord(None, b"x", 1)])] * 1)
    write_log(
        offsets_log.parent / "__consumer_offsets-1",
        [
            lambda at: in_transaction(new_records(commit("g", 1)), at, 7),
            lambda at: in_transaction(
                [NewRecord(b"\0\0\0\1", b"\0\0\0\0\0\0", NOW_MS)], at, 7, control=True
            ),
        ],
    )
    code, output = verify_log(offsets_log.parent)
    assert code == 0
    assert output.endswith(
        "3 partitions, 3 segments, 13 batches, 13 records, 1,346 bytes: valid.\n"
    )
    for path in (offsets_log, offsets_log / FIRST):
        code, output = verify_log(path)
        assert (code, output.count("\n")) == (0, 1)


def test_a_corrupt_byte_is_reported_with_position_loss_and_remedy(
    offsets_log: Path, verify_log: Verify
) -> None:
    size = (offsets_log / FIRST).stat().st_size // 10
    corrupt(offsets_log / FIRST, 4 * size + 85)
    code, output = verify_log(offsets_log)
    assert code == 1
    position, lost, remedy, total = output.splitlines()
    assert position.startswith(
        f"{offsets_log / FIRST}, byte {4 * size}, offset 4: {size} corrupt bytes: "
    )
    assert "checksum" in position
    assert lost == (
        "    lost: at most offsets 4..4; still readable: "
        "OffsetCommit group=g topic=orders partition=0."
    )
    assert f"`kohort log repair {offsets_log}` keeps the later valid batches." in remedy
    assert total.endswith("9 batches, 9 records, 981 bytes: 1 problem.")


def test_a_torn_tail_is_reported_when_it_does_not_change(
    offsets_log: Path, verify_log: Verify
) -> None:
    segment = offsets_log / FIRST
    segment.write_bytes(segment.read_bytes()[:-5])
    code, output = verify_log(offsets_log)
    assert code == 1
    assert "a broker that opens the log moves it to a *.cut file." in output


def test_a_batch_that_is_being_written_is_not_a_problem(
    offsets_log: Path, verify_log: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the batch is written while `verify` waits."""
    segment = offsets_log / FIRST
    content = segment.read_bytes()
    segment.write_bytes(content[:-30])

    def wait(_seconds: float) -> None:
        segment.write_bytes(content + bytes(100))

    monkeypatch.setattr(verify.time, "sleep", wait)
    assert main(["log", "verify", str(offsets_log)]) == 0


def test_a_segment_that_ends_early_before_another_one_is_a_problem(
    tmp_path: Path, verify_log: Verify
) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    write_log(folder, [lambda at: batch_of(at, commit("g", at))] * 10, segment_bytes=300)
    first, second, *_ = sorted(folder.glob("*.log"))
    first.write_bytes(first.read_bytes()[:-5])
    code, output = verify_log(folder)
    assert code == 1
    assert f"`kohort log repair {folder}` before a broker starts" in output
    assert f"offsets 1..1, before {second.name}, are in no segment" in output


def test_a_missing_segment_and_other_files_are_mentioned_but_no_problem(
    tmp_path: Path, verify_log: Verify
) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    write_log(folder, [lambda at: batch_of(at, commit("g", at))] * 10, segment_bytes=300)
    missing = sorted(folder.glob("*.log"))[2]
    missing.unlink()
    for name in ("notes.txt", f"{FIRST}.105.0.cut", f"{FIRST}.deleted", "partition.metadata"):
        (folder / name).write_bytes(b"x")
    (folder / f"{0:020d}.index").write_bytes(bytes(8))
    (folder / f"{0:020d}.timeindex.deleted").write_bytes(bytes(8))
    code, output = verify_log(folder)
    assert code == 0
    assert "offsets 4..5, before 00000000000000000006.log, are in no segment" in output
    assert "notes.txt: not a file of a log; ignored." in output
    assert f"{FIRST}.105.0.cut: kept by a recovery or a repair" in output
    assert f"{FIRST}.deleted: left by an unfinished compaction or deletion" in output
    assert "metadata" not in output
    assert ".index" not in output
    assert f"{0:020d}.timeindex.deleted: left by an unfinished compaction or deletion" in output


def test_inconsistent_batches_with_a_valid_checksum_are_found(
    tmp_path: Path, verify_log: Verify
) -> None:
    inconsistent = bytearray(batch_of(0, commit("g", 1), commit("h", 1)))
    inconsistent[60] = 1
    invalid = {
        "a batch with a valid checksum is inconsistent": with_crc(inconsistent),
        "cannot be decoded: truncated key: 000100": build([NewRecord(b"\0\1\0", b"", NOW_MS)]),
        "version 9 is not one of 0 to 4": build([NewRecord(b"\0\2\0\1g", b"\0\x09", NOW_MS)]),
        "ConsumerGroupMetadataValue": build([NewRecord(b"\0\3\0\1g", b"\0\0\1", NOW_MS)]),
        "record without a key": build([NewRecord(None, b"", NOW_MS)]),
    }
    for number, (message, batch) in enumerate(invalid.items()):
        folder = tmp_path / f"__consumer_offsets-{number}"
        write_log(folder, [lambda at, batch=batch: batch, lambda at: batch_of(at, commit("g", 1))])
        code, output = verify_log(folder)
        assert (code, message in output) == (1, True), output
    folder = tmp_path / "__kohort_topics-0"
    write_log(folder, [lambda at: build([NewRecord(b"{}", b"{}", NOW_MS)])])
    code, output = verify_log(folder)
    assert (code, "registry record" in output) == (1, True)


def with_crc(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def test_old_message_formats_are_reported(tmp_path: Path, verify_log: Verify) -> None:
    body = b"\x00\x00" + struct.pack(">ii", -1, 200) + bytes(200)
    old = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / FIRST).write_bytes(old)
    code, output = verify_log(folder)
    assert code == 1
    assert "byte 0, offset 0: message format v0 of Kafka before 0.11" in output
    for command in ("dump", "stats", "repair"):
        assert main(["log", command, str(folder)]) == 2
    assert (folder / FIRST).read_bytes() == old


def test_read_errors_are_reported(
    offsets_log: Path, verify_log: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: DiskFile, position: int, size: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(DiskFile, "read", fail)
    code, output = verify_log(offsets_log)
    assert code == 1
    assert f"{offsets_log / FIRST}, byte 0, offset 0: read error: " in output


def test_a_log_that_is_written_all_the_time_is_valid(tmp_path: Path, verify_log: Verify) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    files = DiskFiles(preallocate_bytes=64 * 1024)
    log = Log.open(folder, files, LogConfig(segment_bytes=20_000, sync_at_open=False))
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.0001):  # at full speed the writer could outrun the reader
            log.append(batch_of(log.end_offset, commit("g" * 200, 1), commit("h", 2)))

    log.append(batch_of(0, commit("g", 1)))
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(5):
            assert main(["log", "verify", str(folder)]) == 0
    finally:
        ended.set()
        writer.join()
        log.close()


@pytest.mark.parametrize("flipped", [0, 9], ids=["first", "last"])
def test_a_flipped_bit_in_a_base_offset_is_a_problem(
    tmp_path: Path, verify_log: Verify, flipped: int
) -> None:
    """No checksum covers it. A log that was compacted or repaired has such gaps."""
    folder = tmp_path / "orders-0"
    batches = write_log(folder, [lambda at: batch_of(at, commit("g", at))] * (flipped + 1))
    segment = folder / FIRST
    content = bytearray(segment.read_bytes())
    content[len(content) - len(batches[-1]) + 7] ^= 2
    moved = content[len(content) - len(batches[-1]) + 7]
    segment.write_bytes(content)
    code, output = verify_log(folder)
    assert code == 1
    assert f"offsets {flipped}..{moved - 1} are in no batch" in output
    checkpoint = tmp_path / "cleaner-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 0 5\n")
    assert verify_log(folder)[0] == 0
    checkpoint.unlink()
    (folder / f"{FIRST}.105.0.cut").write_bytes(b"x")
    assert verify_log(folder)[0] == 0
