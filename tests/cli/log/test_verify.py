"""`kohort log verify`: sound or not, where, what is lost, what to do."""

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
from kohort.log.batch import NewRecord, build
from kohort.log.files import DiskFile, DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.log.segment import segment_name

from .conftest import NOW_MS, batch_of, bend, commit, in_transaction, new_records, write_log

FIRST = segment_name(0)

Verified = Callable[[Path], tuple[int, str]]


@pytest.fixture
def verified(capsys: pytest.CaptureFixture[str]) -> Verified:
    def verified(path: Path) -> tuple[int, str]:
        before = snapshot_of(path)
        code = main(["log", "verify", str(path)])
        assert snapshot_of(path) == before, "verify has written"
        out, err = capsys.readouterr()
        assert (err == "") == (code != 2)
        return code, out + err

    return verified


def snapshot_of(path: Path) -> dict[Path, tuple[int, bytes]]:
    files = path.rglob("*") if path.is_dir() else [path] if path.is_file() else []
    return {f: (f.stat().st_mtime_ns, f.read_bytes()) for f in files if f.is_file()}


def test_a_sound_log_is_sound(offsets_log: Path, verified: Verified) -> None:
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
    code, said = verified(offsets_log.parent)
    assert code == 0
    assert said.endswith("3 partitions, 3 segments, 13 batches, 13 records, 1,346 bytes: sound.\n")
    for path in (offsets_log, offsets_log / FIRST):
        code, said = verified(path)
        assert (code, said.count("\n")) == (0, 1)


def test_a_bad_byte_is_told_with_its_place_its_loss_and_the_way_out(
    offsets_log: Path, verified: Verified
) -> None:
    size = (offsets_log / FIRST).stat().st_size // 10
    bend(offsets_log / FIRST, 4 * size + 85)
    code, said = verified(offsets_log)
    assert code == 1
    place, lost, advice, total = said.splitlines()
    assert place.startswith(
        f"{offsets_log / FIRST}, byte {4 * size}, offset 4: {size} bytes are no"
    )
    assert "checksum" in place
    assert lost == (
        "    lost: at most offsets 4..4; as far as it can be read: "
        "OffsetCommit group=g topic=orders partition=0."
    )
    assert f"`kohort log repair {offsets_log}` keeps what is sound behind them" in advice
    assert total.endswith("9 batches, 9 records, 981 bytes: 1 flaw.")


def test_a_torn_tail_is_told_once_it_stands_still(offsets_log: Path, verified: Verified) -> None:
    segment = offsets_log / FIRST
    segment.write_bytes(segment.read_bytes()[:-5])
    code, said = verified(offsets_log)
    assert code == 1
    assert "the next start of a broker cuts it off" in said


def test_a_batch_that_is_just_being_written_is_no_flaw(
    offsets_log: Path, verified: Verified, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: verify looks again. Method: the rest of the batch is written when it begins to wait."""
    segment = offsets_log / FIRST
    content = segment.read_bytes()
    segment.write_bytes(content[:-30])

    def wait(_seconds: float) -> None:
        segment.write_bytes(content + bytes(100))

    monkeypatch.setattr(verify.time, "sleep", wait)
    assert main(["log", "verify", str(offsets_log)]) == 0


def test_a_segment_that_ends_early_before_another_one_is_a_flaw(
    tmp_path: Path, verified: Verified
) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    write_log(folder, [lambda at: batch_of(at, commit("g", at))] * 10, segment_bytes=300)
    first, second, *_ = sorted(folder.glob("*.log"))
    first.write_bytes(first.read_bytes()[:-5])
    code, said = verified(folder)
    assert code == 1
    assert f"`kohort log repair {folder}`, before a broker starts here" in said
    assert f"offsets 1..1, before {second.name}, are in no segment" in said


def test_a_missing_segment_and_foreign_files_are_worth_a_word_and_no_flaw(
    tmp_path: Path, verified: Verified
) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    write_log(folder, [lambda at: batch_of(at, commit("g", at))] * 10, segment_bytes=300)
    gone = sorted(folder.glob("*.log"))[2]
    gone.unlink()
    for name in ("notes.txt", f"{FIRST}.105.0.cut", f"{FIRST}.deleted", "partition.metadata"):
        (folder / name).write_bytes(b"x")
    (folder / f"{0:020d}.index").write_bytes(bytes(8))
    code, said = verified(folder)
    assert code == 0
    assert "offsets 4..5, before 00000000000000000006.log, are in no segment" in said
    assert "notes.txt: no file of a log; left alone." in said
    assert f"{FIRST}.105.0.cut: what a recovery or a repair put aside" in said
    assert f"{FIRST}.deleted: of a compaction or deletion" in said
    assert "metadata" not in said
    assert ".index" not in said


def test_what_a_right_checksum_hides_is_found(tmp_path: Path, verified: Verified) -> None:
    lying = bytearray(batch_of(0, commit("g", 1), commit("h", 1)))
    lying[60] = 1
    wrong = {
        "a batch whose checksum is right contradicts itself": with_crc(lying),
        "cannot be decoded: key 000100: cut short": build([NewRecord(b"\0\1\0", b"", NOW_MS)]),
        "version 9 is not one of 0 to 4": build([NewRecord(b"\0\2\0\1g", b"\0\x09", NOW_MS)]),
        "ConsumerGroupMetadataValue": build([NewRecord(b"\0\3\0\1g", b"\0\0\1", NOW_MS)]),
        "a record without a key": build([NewRecord(None, b"", NOW_MS)]),
    }
    for number, (says, batch) in enumerate(wrong.items()):
        folder = tmp_path / f"__consumer_offsets-{number}"
        write_log(folder, [lambda at, batch=batch: batch, lambda at: batch_of(at, commit("g", 1))])
        code, said = verified(folder)
        assert (code, says in said) == (1, True), said
    folder = tmp_path / "__kohort_topics-0"
    write_log(folder, [lambda at: build([NewRecord(b"{}", b"{}", NOW_MS)])])
    code, said = verified(folder)
    assert (code, "the registry's record" in said) == (1, True)


def with_crc(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def test_messages_of_old_kafkas_are_told_as_such(tmp_path: Path, verified: Verified) -> None:
    body = b"\x00\x00" + struct.pack(">ii", -1, 200) + bytes(200)
    old = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / FIRST).write_bytes(old)
    code, said = verified(folder)
    assert code == 1
    assert "byte 0, offset 0: message format v0 of Kafka before 0.11" in said
    for command in ("dump", "stats", "repair"):
        assert main(["log", command, str(folder)]) == 2
    assert (folder / FIRST).read_bytes() == old


def test_what_the_disk_does_not_give_is_told(
    offsets_log: Path, verified: Verified, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: DiskFile, position: int, size: int) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(DiskFile, "read", fail)
    code, said = verified(offsets_log)
    assert code == 1
    assert f"{offsets_log / FIRST}, byte 0, offset 0: the disk does not give it" in said


def test_what_is_no_log_is_refused(tmp_path: Path, verified: Verified) -> None:
    poem = tmp_path / segment_name(0)
    poem.write_text("a text that is named like a segment\n" * 100)
    code, said = verified(poem)
    assert (code, "is no log: there is no sound record batch in it" in said) == (2, True)
    code, said = verified(tmp_path / "missing")
    assert (code, said.count("\n")) == (2, 1)


def test_a_folder_that_somebody_writes_to_all_the_time_is_sound(
    tmp_path: Path, verified: Verified
) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    files = DiskFiles(preallocate_bytes=64 * 1024)
    log = Log.open(folder, files, LogConfig(segment_bytes=20_000, sync_at_open=False))
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
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
