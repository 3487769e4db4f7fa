"""Opening a log after a crash: synced batches are served, invalid ones are not, and later appends
are found again."""

import logging
import random
import struct
import zlib
from pathlib import Path

import pytest
from kohort.log.errors import LogError, UnsupportedMagic
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.log.memory_files import MemoryFiles
from kohort.log.segment import CHUNK_BYTES
from kohort.testing.faults.files import Crashed, FaultyFile, FaultyFiles
from support.log import append, batch, headers, max_timestamp, stored

FOLDER = Path("/data/orders-0")
FIRST = FOLDER / f"{0:020d}.log"


def files_with(content: bytes, base_offset: int = 0) -> MemoryFiles:
    files = MemoryFiles()
    files.make_folder(FOLDER)
    files.contents[FOLDER / f"{base_offset:020d}.log"] = bytearray(content)
    return files


def whole_in(content: bytes, made: list[bytes]) -> list[bytes]:
    """Return the complete batches at the beginning of `content`. (The last byte of a record is
    zero, so that zeros complete a batch that lacks only this byte.)"""
    return [each for n, each in enumerate(made) if content.startswith(b"".join(made[: n + 1]))]


def check_continues(files: MemoryFiles, kept: list[bytes]) -> None:
    """Open, compare, append and open again, to detect invalid bytes that were not truncated."""
    log = Log.open(FOLDER, files)
    assert stored(log) == kept
    more = append(log, [2, 1], text="later")
    log.close()
    again = Log.open(FOLDER, files)
    assert stored(again) == kept + more
    assert [header.base_offset for header in headers(again)] == sorted(
        header.base_offset for header in headers(again)
    )
    joined = b"".join(kept + more)
    assert bytes(files.contents[FIRST]) == joined


@pytest.mark.parametrize(
    "tail",
    [b"", bytes(3000), b"\xff" * 70, b"\0" * 40 + b"\x01"],
    ids=["nothing", "zeros", "ones", "zeros and more"],
)
def test_a_log_truncated_at_any_byte_keeps_its_whole_batches(tail: bytes) -> None:
    """The tail is empty, zeros (preallocated, or lost by the file system), or garbage."""
    made = append(Log.open(FOLDER, MemoryFiles()), [1, 3, 2, 1, 2])
    content = b"".join(made)
    for end in range(len(content) + 1):
        left = content[:end] + tail
        check_continues(files_with(left), whole_in(left, made))


def test_a_flipped_byte_loses_its_batch_and_those_after_it() -> None:
    """Base offset and leader epoch (bytes 0 to 7 and 12 to 15) are outside the checksum."""
    made = append(Log.open(FOLDER, MemoryFiles()), [1, 3, 2, 1, 2])
    content = b"".join(made)
    starts = [sum(map(len, made[:n])) for n in range(len(made))]
    for position in range(len(content)):
        number = max(n for n, start in enumerate(starts) if start <= position)
        at = position - starts[number]
        if at < 8 or 12 <= at < 16:
            continue
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(content)
            changed[position] ^= flip
            files = files_with(bytes(changed))
            log = Log.open(FOLDER, files)
            assert stored(log) == made[:number]
            kept = [n for n in files.list(FOLDER) if n.endswith(".cut")]
            assert [files.read_bytes(FOLDER / n) for n in kept] == [
                bytes(changed[starts[number] :])
            ]


def test_a_decreasing_offset_ends_the_log() -> None:
    check_continues(files_with(batch(0, 3) + batch(2)), [batch(0, 3)])


def test_truncated_bytes_are_logged_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    whole = batch(0, 2)
    files = files_with(whole + batch(2)[:-1])
    with caplog.at_level(logging.WARNING, "kohort.log"):
        Log.open(FOLDER, files)
    (message,) = caplog.messages
    assert f"{len(batch(2)) - 1} bytes after offset 1" in message
    kept = FOLDER / f"{FIRST.name}.{len(whole)}.0.cut"
    assert kept.name in message
    assert files.read_bytes(kept) == batch(2)[:-1]
    files.contents[FIRST] += batch(2)[:-1]
    Log.open(FOLDER, files)
    assert files.exists(FOLDER / f"{FIRST.name}.{len(whole)}.1.cut")


def test_zeros_at_the_end_are_truncated_silently(caplog: pytest.LogCaptureFixture) -> None:
    files = files_with(batch(0, 2) + bytes(5000))
    Log.open(FOLDER, files)
    assert not caplog.messages
    assert files.list(FOLDER) == [FIRST.name]
    assert files.read_bytes(FIRST) == batch(0, 2)


def test_segments_behind_a_corrupt_one_are_renamed() -> None:
    files = files_with(batch(0, 2) + batch(2)[:-1])
    later = FOLDER / f"{3:020d}.log"
    files.contents[later] = bytearray(batch(3))
    check_continues(files, [batch(0, 2)])
    assert files.read_bytes(FOLDER / f"{later.name}.0.0.cut") == batch(3)


def test_zeros_count_as_preallocated_only_if_no_offset_is_missing() -> None:
    files = files_with(batch(0, 2) + bytes(100))
    files.contents[FOLDER / f"{2:020d}.log"] = bytearray(batch(2))
    assert stored(Log.open(FOLDER, files)) == [batch(0, 2), batch(2)]
    files = files_with(batch(0, 2) + bytes(100))
    files.contents[FOLDER / f"{3:020d}.log"] = bytearray(batch(3))
    assert stored(Log.open(FOLDER, files)) == [batch(0, 2)]


def test_a_segment_that_overlaps_the_previous_one_is_renamed() -> None:
    files = files_with(batch(0, 5))
    files.contents[FOLDER / f"{3:020d}.log"] = bytearray(batch(3))
    check_continues(files, [batch(0, 5)])


def test_an_empty_last_segment_keeps_its_offset() -> None:
    files = files_with(batch(0, 2))
    files.contents[FOLDER / f"{2:020d}.log"] = bytearray()
    log = Log.open(FOLDER, files)
    assert log.end_offset == 2
    log.append(batch(2))
    assert stored(Log.open(FOLDER, files)) == [batch(0, 2), batch(2)]
    assert max_timestamp(log) is not None


def test_files_that_are_not_segments_are_ignored() -> None:
    files = files_with(batch(5, 2), base_offset=5)
    others = [
        f"{5:020d}.index",
        f"{5:020d}.timeindex",
        f"{5:020d}.snapshot",
        "notes.log.deleted",
        "notes.swap",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "1.log",
        "²0000000000000000000.log",
        "notes.log",
    ]
    for name in others:
        files.contents[FOLDER / name] = bytearray(b"not ours")
    log = Log.open(FOLDER, files)
    assert (log.start_offset, log.end_offset) == (5, 7)
    log.truncate_to(5)
    log.sync()
    assert all(files.read_bytes(FOLDER / name) == b"not ours" for name in others)


def old_message(magic: int, value_bytes: int) -> bytes:
    timestamp = struct.pack(">q", 0) if magic else b""
    body = bytes([magic, 0]) + timestamp + struct.pack(">ii", -1, value_bytes) + bytes(value_bytes)
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    ("value_bytes", "count"),
    [
        pytest.param(2_000, 1_000, id="larger than a chunk, so that one crosses its end"),
        pytest.param(0, 1, id="smaller than a batch's header"),
        pytest.param(5, 20, id="each one smaller than a batch's header"),
        pytest.param(2 * CHUNK_BYTES, 2, id="each one larger than a chunk"),
    ],
)
def test_a_log_of_kafka_before_0_11_is_rejected_and_not_truncated(
    magic: int, value_bytes: int, count: int
) -> None:
    content = old_message(magic, value_bytes) * count
    for before in (b"", batch(0)):
        files = files_with(before + content)
        with pytest.raises(UnsupportedMagic, match=f"format v{magic}"):
            Log.open(FOLDER, files)
        assert bytes(files.contents[FIRST]) == before + content


def test_an_old_message_across_chunks_is_recognized() -> None:
    old = old_message(0, 2_000)
    filling = CHUNK_BYTES - len(batch(0, text="")) - 1_000
    content = batch(0, text="x" * filling) + old
    assert CHUNK_BYTES - len(old) < len(content) - len(old) < CHUNK_BYTES
    with pytest.raises(UnsupportedMagic):
        Log.open(FOLDER, files_with(content))


@pytest.mark.parametrize("value_bytes", [0, 2 * CHUNK_BYTES])
def test_a_torn_old_message_is_truncated(value_bytes: int) -> None:
    torn = old_message(1, value_bytes)[:-1] + b"x"
    check_continues(files_with(batch(0) + torn), [batch(0)])


def test_batches_larger_than_a_chunk_are_verified_completely() -> None:
    large = batch(0, 2, text="x" * CHUNK_BYTES)
    check_continues(files_with(large + batch(2)), [large, batch(2)])
    changed = bytearray(large + batch(2))
    changed[len(large) - 5] ^= 1
    check_continues(files_with(bytes(changed)), [])


def test_a_crash_while_a_torn_tail_is_copied_loses_nothing() -> None:
    tail = batch(2)[:-1]

    def torn() -> FaultyFiles:
        files = FaultyFiles()
        append(Log.open(FOLDER, files), [2])
        files.open(FIRST).append(tail)
        files.open(FIRST).sync()
        files.sync_folder(FOLDER)
        files.sync_folder(FOLDER.parent)
        files.count = 0
        files.calls.clear()
        return files

    whole = torn()
    Log.open(FOLDER, whole)
    assert len(whole.operations) >= 6
    for number in range(len(whole.operations)):
        for seed in range(8):
            files = torn()
            files.crash_at = number
            with pytest.raises(Crashed):
                Log.open(FOLDER, files)
            files.crash(random.Random(seed) if seed else None)
            assert stored(Log.open(FOLDER, files)) == [batch(0, 2)]
            kept = [n for n in files.list(FOLDER) if n.endswith(".cut")]
            assert tail in [files.read_bytes(FOLDER / name) for name in kept]


def test_a_false_length_is_verified_in_chunks() -> None:
    """The file is larger than a chunk, and the first length covers all of it."""
    content = bytearray(batch(0) + bytes(range(256)) * 20_000)
    content[8:12] = (len(content) - 12).to_bytes(4, "big")
    assert stored(Log.open(FOLDER, files_with(bytes(content)))) == []


def test_a_file_larger_than_2_gib_is_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    with (folder / FIRST.name).open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(LogError, match="at most 2 GiB"):
        Log.open(folder, DiskFiles())


def test_a_read_only_opening_changes_nothing() -> None:
    files = files_with(batch(0, 2) + batch(2)[:-1])
    files.contents[FOLDER / f"{3:020d}.log"] = bytearray(batch(3))
    before = {path: bytes(content) for path, content in files.contents.items()}
    assert stored(Log.open(FOLDER, files, read_only=True)) == [batch(0, 2)]
    assert {path: bytes(content) for path, content in files.contents.items()} == before


def test_a_read_only_opening_only_reads_an_unfinished_swap() -> None:
    class ReadOnlyFiles(FaultyFiles):
        def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FaultyFile:
            assert read_only
            return super().open(path, create=create, read_only=read_only)

    files = ReadOnlyFiles()
    files.contents[FOLDER / f"{FIRST.name}.swap"] = bytearray(batch(0, 2))
    assert stored(Log.open(FOLDER, files, read_only=True)) == [batch(0, 2)]


def test_preallocated_zeros_are_truncated_after_a_crash(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    files = DiskFiles(preallocate_bytes=64 * 1024)
    log = Log.open(folder, files, LogConfig(segment_bytes=400))
    made = append(log, [1] * 10)
    log.sync()
    last = sorted(folder.iterdir())[-1]
    assert last.stat().st_size > 64 * 1024
    again = Log.open(folder, DiskFiles())
    assert stored(again) == made
    assert last.stat().st_size <= 400
    again.close()
    log.close()


def gap_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if "are in no batch" in line]


@pytest.mark.parametrize("base_offset", [0, 7])
@pytest.mark.parametrize("index", [0, 2], ids=["first", "last"])
def test_a_batch_with_a_corrupted_base_offset_is_logged(
    caplog: pytest.LogCaptureFixture, index: int, base_offset: int
) -> None:
    """No checksum covers it: the records of the last batch appear at other offsets."""
    made = [batch(base_offset + at) for at in range(3)]
    made[index] = (base_offset + index + 2).to_bytes(8, "big") + made[index][8:]
    files = files_with(b"".join(made[: index + 1]), base_offset)
    Log.open(FOLDER, files, LogConfig(reports_gaps=True)).close()
    first = base_offset + index
    (line,) = gap_lines(caplog)
    assert f": offsets {first} to {first + 1} are in no batch, but" in line


def test_a_missing_segment_of_a_log_that_was_never_compacted_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, config = MemoryFiles(), LogConfig(segment_bytes=100, reports_gaps=True)
    log = Log.open(FOLDER, files, config)
    append(log, [1] * 4)
    log.close()
    bases = sorted(path for path in files.contents if path.suffix == ".log")
    assert len(bases) == 4
    del files.contents[bases[1]]
    Log.open(FOLDER, files, config).close()
    (line,) = gap_lines(caplog)
    assert "offsets 1 to 1 are in no batch" in line


def test_gaps_of_a_compacted_log_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    files = files_with(batch(0) + batch(5))
    Log.open(FOLDER, files).close()
    assert not gap_lines(caplog)
