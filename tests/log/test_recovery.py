"""Whatever a crash leaves: all that was synced is served, nothing that is not sound is, and what
is appended next is found again."""

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
from kohort.testing.faulty_files import Crashed, FaultyFiles
from support.log import append, batch, headers, stored

FOLDER = Path("/data/orders-0")
FIRST = FOLDER / f"{0:020d}.log"


def files_with(content: bytes, base_offset: int = 0) -> MemoryFiles:
    files = MemoryFiles()
    files.make_folder(FOLDER)
    files.contents[FOLDER / f"{base_offset:020d}.log"] = bytearray(content)
    return files


def whole_in(content: bytes, made: list[bytes]) -> list[bytes]:
    """The batches that `content` begins with. (The last byte of a record is a zero, so zeros
    behind a batch that lacks only that byte make it whole again.)"""
    return [each for n, each in enumerate(made) if content.startswith(b"".join(made[: n + 1]))]


def check_goes_on(files: MemoryFiles, kept: list[bytes]) -> None:
    """Opens, compares, appends and opens again: garbage left behind would show."""
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
def test_a_log_cut_at_every_byte_keeps_its_whole_batches(tail: bytes) -> None:
    """With nothing behind the cut, with zeros (allocated ahead, or lost by the file system),
    with garbage."""
    made = append(Log.open(FOLDER, MemoryFiles()), [1, 3, 2, 1, 2])
    content = b"".join(made)
    for end in range(len(content) + 1):
        left = content[:end] + tail
        check_goes_on(files_with(left), whole_in(left, made))


def test_a_flipped_byte_costs_its_batch_and_what_follows_and_no_more() -> None:
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
            bent = bytearray(content)
            bent[position] ^= flip
            files = files_with(bytes(bent))
            log = Log.open(FOLDER, files)
            assert stored(log) == made[:number]
            kept = [n for n in files.list(FOLDER) if n.endswith(".cut")]
            assert [files.read_bytes(FOLDER / n) for n in kept] == [bytes(bent[starts[number] :])]


def test_an_offset_that_goes_back_ends_the_log() -> None:
    check_goes_on(files_with(batch(0, 3) + batch(2)), [batch(0, 3)])


def test_what_is_cut_is_told_and_kept(caplog: pytest.LogCaptureFixture) -> None:
    whole = batch(0, 2)
    files = files_with(whole + batch(2)[:-1])
    with caplog.at_level(logging.WARNING, "kohort.log"):
        Log.open(FOLDER, files)
    (said,) = caplog.messages
    assert f"{len(batch(2)) - 1} bytes after offset 1" in said
    aside = FOLDER / f"{FIRST.name}.{len(whole)}.0.cut"
    assert aside.name in said
    assert files.read_bytes(aside) == batch(2)[:-1]
    files.contents[FIRST] += batch(2)[:-1]
    Log.open(FOLDER, files)
    assert files.exists(FOLDER / f"{FIRST.name}.{len(whole)}.1.cut")


def test_zeros_at_the_end_go_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    files = files_with(batch(0, 2) + bytes(5000))
    Log.open(FOLDER, files)
    assert not caplog.messages
    assert files.list(FOLDER) == [FIRST.name]


def test_segments_behind_a_bad_one_are_put_aside() -> None:
    files = files_with(batch(0, 2) + batch(2)[:-1])
    later = FOLDER / f"{3:020d}.log"
    files.contents[later] = bytearray(batch(3))
    check_goes_on(files, [batch(0, 2)])
    assert files.read_bytes(FOLDER / f"{later.name}.0.0.cut") == batch(3)


def test_zeros_in_the_middle_count_as_allocated_only_if_no_offset_is_missing() -> None:
    files = files_with(batch(0, 2) + bytes(100))
    files.contents[FOLDER / f"{2:020d}.log"] = bytearray(batch(2))
    assert stored(Log.open(FOLDER, files)) == [batch(0, 2), batch(2)]
    files = files_with(batch(0, 2) + bytes(100))
    files.contents[FOLDER / f"{3:020d}.log"] = bytearray(batch(3))
    assert stored(Log.open(FOLDER, files)) == [batch(0, 2)]


def test_a_segment_that_overlaps_the_one_before_is_put_aside() -> None:
    files = files_with(batch(0, 5))
    files.contents[FOLDER / f"{3:020d}.log"] = bytearray(batch(3))
    check_goes_on(files, [batch(0, 5)])


def test_an_empty_last_segment_keeps_its_offset() -> None:
    files = files_with(batch(0, 2))
    files.contents[FOLDER / f"{2:020d}.log"] = bytearray()
    log = Log.open(FOLDER, files)
    assert log.end_offset == 2
    log.append(batch(2))
    assert stored(Log.open(FOLDER, files)) == [batch(0, 2), batch(2)]
    assert log.max_timestamp() is not None


def test_files_that_are_no_segments_are_left_alone() -> None:
    files = files_with(batch(5, 2), base_offset=5)
    strangers = [
        f"{5:020d}.index",
        f"{5:020d}.timeindex",
        f"{5:020d}.txnindex",
        f"{5:020d}.snapshot",
        "notes.log.deleted",
        "notes.swap",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "1.log",
        "²0000000000000000000.log",
        "notes.log",
    ]
    for name in strangers:
        files.contents[FOLDER / name] = bytearray(b"not ours")
    log = Log.open(FOLDER, files)
    assert (log.start_offset, log.end_offset) == (5, 7)
    log.truncate_to(5)
    log.sync()
    assert all(files.read_bytes(FOLDER / name) == b"not ours" for name in strangers)


def test_a_log_of_kafka_before_0_11_is_refused_and_not_cut() -> None:
    body = b"\x00\x00" + struct.pack(">ii", -1, 2_000) + bytes(2_000)
    old = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    content = old * 1000  # beyond a chunk, so that one of them lies across its end
    files = files_with(content)
    with pytest.raises(UnsupportedMagic):
        Log.open(FOLDER, files)
    files = files_with(batch(0) + content)
    with pytest.raises(UnsupportedMagic):
        Log.open(FOLDER, files)
    assert bytes(files.contents[FIRST]) == batch(0) + content


def test_an_old_message_across_the_end_of_a_chunk_is_known_all_the_same() -> None:
    body = b"\x00\x00" + struct.pack(">ii", -1, 2_000) + bytes(2_000)
    old = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    filling = CHUNK_BYTES - len(batch(0, text="")) - 1_000
    content = batch(0, text="x" * filling) + old
    assert CHUNK_BYTES - len(old) < len(content) - len(old) < CHUNK_BYTES
    with pytest.raises(UnsupportedMagic):
        Log.open(FOLDER, files_with(content))


def test_batches_larger_than_a_chunk_are_checked_to_their_last_byte() -> None:
    large = batch(0, 2, text="x" * CHUNK_BYTES)
    check_goes_on(files_with(large + batch(2)), [large, batch(2)])
    bent = bytearray(large + batch(2))
    bent[len(large) - 5] ^= 1
    check_goes_on(files_with(bytes(bent)), [])


def test_a_crash_while_a_tail_is_put_aside_loses_neither_log_nor_tail() -> None:
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
            aside = [n for n in files.list(FOLDER) if n.endswith(".cut")]
            assert tail in [files.read_bytes(FOLDER / name) for name in aside]


def test_a_forged_length_is_summed_in_chunks() -> None:
    """The file is larger than a chunk and the first length claims all of it."""
    content = bytearray(batch(0) + bytes(range(256)) * 20_000)
    content[8:12] = (len(content) - 12).to_bytes(4, "big")
    assert stored(Log.open(FOLDER, files_with(bytes(content)))) == []


def test_a_file_larger_than_any_segment_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    with (folder / FIRST.name).open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(LogError, match="at most 2 GiB"):
        Log.open(folder, DiskFiles())


def test_reading_only_changes_nothing() -> None:
    files = files_with(batch(0, 2) + batch(2)[:-1])
    files.contents[FOLDER / f"{3:020d}.log"] = bytearray(batch(3))
    before = {path: bytes(content) for path, content in files.contents.items()}
    assert stored(Log.open(FOLDER, files, read_only=True)) == [batch(0, 2)]
    assert {path: bytes(content) for path, content in files.contents.items()} == before


def test_a_crash_leaves_allocated_zeros_which_the_next_open_cuts(tmp_path: Path) -> None:
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
