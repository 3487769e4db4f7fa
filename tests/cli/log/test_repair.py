"""`kohort log repair`: what is sound behind bad bytes stays, and no crash loses anything."""

import os
import random
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from kohort.cli.log.repair import damage_of, mend
from kohort.cli.log.sources import Source
from kohort.cli.main import main
from kohort.log.batch import NewRecord, build
from kohort.log.files import DiskFiles, lock_folder
from kohort.log.log import Log
from kohort.log.memory_files import MemoryFile
from kohort.log.segment import segment_name
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    OffsetsRecord,
    OffsetTombstone,
)
from kohort.testing.faulty_files import Crashed, FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC

from .conftest import NOW_MS, batch_of, bend, commit, write_log

FIRST = segment_name(0)
Repaired = Callable[..., tuple[int, str]]


@pytest.fixture
def repaired(capsys: pytest.CaptureFixture[str]) -> Repaired:
    def repaired(path: Path, *args: str) -> tuple[int, str]:
        code = main(["log", "repair", str(path), *args])
        out, err = capsys.readouterr()
        return code, out + err

    return repaired


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def stored(folder: Path) -> list[bytes]:
    log = Log.open(folder, DiskFiles())
    batches = [batch for _, batch in log.batches()]
    log.close()
    return batches


def test_every_sound_batch_behind_a_bad_one_is_served_again(
    offsets_log: Path, repaired: Repaired, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = offsets_log / FIRST
    size = segment.stat().st_size // 10
    whole = bend(segment, 4 * size + 85)
    bent = segment.read_bytes()
    batches = [whole[n * size : (n + 1) * size] for n in range(10)]
    for stale in (".index", ".timeindex"):
        segment.with_suffix(stale).write_bytes(bytes(12))
    code, said = repaired(offsets_log)
    assert code == 0
    assert "lost: at most offsets 4..4" in said
    kept = offsets_log / f"{FIRST}.{4 * size}.0.cut"
    assert f"kept in {kept.name}" in said
    assert kept.read_bytes() == bent[4 * size : 5 * size]
    assert segment.read_bytes() == b"".join(batches[:4] + batches[5:])
    assert sorted(path.name for path in offsets_log.iterdir()) == [FIRST, kept.name]
    assert main(["log", "verify", str(offsets_log)]) == 0
    assert stored(offsets_log) == batches[:4] + batches[5:]
    capsys.readouterr()
    assert repaired(offsets_log) == (0, f"{offsets_log}: sound; nothing to repair.\n")


@pytest.mark.java
def test_kafka_finds_a_repaired_segment_sound(
    offsets_log: Path, repaired: Repaired, kafka_tool: Callable[..., str]
) -> None:
    segment = offsets_log / FIRST
    bend(segment, 300)
    bend(segment, 700, size=30)
    assert repaired(offsets_log)[0] == 0
    tool = "org.apache.kafka.tools.DumpLogSegments"
    said = kafka_tool(tool, "--offsets-decoder", "--files", segment)
    assert re.findall(r"baseOffset: (\d+)", said) == [str(n) for n in (0, 1, 3, 4, 5, 7, 8, 9)]
    assert said.count("isvalid: true") == 8
    assert not re.search("isvalid: false|invalid bytes|CORRUPT|mismatch|exception", said, re.I)


def test_several_flaws_in_several_segments_go_at_once(tmp_path: Path, repaired: Repaired) -> None:
    folder = tmp_path / "data" / "__consumer_offsets-0"
    batches = write_log(folder, [lambda at: batch_of(at, commit("g", at))] * 30, segment_bytes=1100)
    size = len(batches[0])
    first, second, last = sorted(folder.glob("*.log"))
    bend(first, 2 * size + 90)
    bend(first, 5 * size + 90)
    bend(second, 10, size=150)
    last.write_bytes(last.read_bytes()[:-1])
    code, said = repaired(tmp_path / "data")
    assert (code, said.count("lost: ")) == (0, 4)
    gone = {2, 5, 10, 11, 29}
    assert stored(folder) == [batch for n, batch in enumerate(batches) if n not in gone]
    assert len(list(folder.glob("*.cut"))) == 4


def test_a_batch_whose_offset_alone_is_wrong_is_put_back(
    offsets_log: Path, repaired: Repaired
) -> None:
    """The checksum leaves out the base offset; where the batches around it leave room for one
    offset alone, nothing need be lost."""
    segment = offsets_log / FIRST
    size = segment.stat().st_size // 10
    for number, flip in ((0, 0x01), (4, 0x40), (4, 0x04), (8, 0x08)):
        whole = segment.read_bytes()
        bent = bytearray(whole)
        bent[number * size + 7] ^= flip
        segment.write_bytes(bent)
        code, said = repaired(offsets_log)
        assert code == 0
        assert f"lost: nothing: offset {number} alone fits in there, and is put back" in said
        assert "OffsetCommit" not in said
        assert segment.read_bytes() == whole


def test_any_bit_of_a_base_offset_is_put_back_where_no_offset_is_missing() -> None:
    """But for the last batch: nothing says what should come behind it."""
    for seed in range(300):
        chance = random.Random(seed)
        base = offset = chance.choice([0, 7, 2**33])
        batches, offsets = [], []
        for _ in range(chance.randint(2, 7)):
            records = [NewRecord(b"k", b"v", NOW_MS)] * chance.randint(1, 5)
            batches.append(build(records, base_offset=offset))
            offsets.append(offset)
            offset += len(records)
        number = chance.randrange(len(batches) - 1)
        position = sum(map(len, batches[:number]))
        bent = bytearray(b"".join(batches))
        bent[position + chance.randrange(8)] ^= 1 << chance.randrange(8)
        damage, end_offset = damage_of(Path(FIRST), MemoryFile(bent), base)
        assert (damage.moved, end_offset) == ({position: offsets[number]}, offset)
        assert [flaw.position for flaw in damage.flaws] == [position]


def test_a_dry_run_tells_the_same_and_writes_nothing(offsets_log: Path, repaired: Repaired) -> None:
    segment = offsets_log / FIRST
    bend(segment, 300)
    bent = segment.read_bytes()
    code, said = repaired(offsets_log, "--dry-run")
    assert code == 1
    assert "1 flaw would be mended; nothing was written." in said
    assert (names(offsets_log), segment.read_bytes()) == ([FIRST], bent)
    really = repaired(offsets_log)[1]
    assert said.splitlines()[:2] == really.splitlines()[:2]


def test_a_folder_that_a_broker_uses_is_refused(offsets_log: Path, repaired: Repaired) -> None:
    segment = offsets_log / FIRST
    bend(segment, 300)
    bent = segment.read_bytes()
    lock = lock_folder(offsets_log.parent, DiskFiles())
    for path in (offsets_log.parent, offsets_log, segment):
        code, said = repaired(path)
        assert code == 2
        assert f"{offsets_log.parent} is in use by process {os.getpid()} (kohort)" in said
        assert repaired(path, "--dry-run")[0] == 1
    assert (names(offsets_log), segment.read_bytes()) == ([FIRST], bent)
    lock.release()
    assert repaired(segment)[0] == 0


def test_a_compaction_that_a_crash_interrupted_is_ended_first(
    tmp_path: Path, repaired: Repaired
) -> None:
    folder = tmp_path / "data" / "__consumer_offsets-0"
    batches = write_log(folder, [lambda at: batch_of(at, commit("g", at))] * 9, segment_bytes=350)
    (folder.parent / ".lock").touch()
    first, second, third = sorted(folder.glob("*.log"))
    first.with_name(f"{first.name}.swap").write_bytes(batches[0] + batches[5])
    bend(third, len(batches[0]) + 80)
    seen = (folder / f"{first.name}.swap", third)
    assert tuple(Source(folder).segments().values()) == seen
    assert repaired(folder, "--dry-run")[0] == 1
    assert second.exists()
    assert repaired(folder)[0] == 0
    assert stored(folder) == [batches[n] for n in (0, 5, 6, 8)]
    assert names(folder) == [first.name, third.name, f"{third.name}.{len(batches[0])}.0.cut"]


def test_what_nobody_can_decide_is_left_alone(tmp_path: Path, repaired: Repaired) -> None:
    poem = tmp_path / segment_name(0)
    poem.write_text("a text that is named like a segment\n" * 100)
    code, said = repaired(poem)
    assert (code, "is no log" in said, names(tmp_path)) == (2, True, [poem.name])
    aside = tmp_path / f"{FIRST}.deleted"
    aside.write_bytes(batch_of(0, commit("g", 1)))
    assert repaired(aside) == (
        2,
        f"kohort log: {aside} was put aside: it is no part of a log any more.\n",
    )
    folder = tmp_path / "orders-0"
    batches = [build([NewRecord(None, b"x", 1)] * 5, base_offset=at) for at in (0, 3)]
    folder.mkdir()
    for at, batch in zip((0, 3), batches, strict=True):
        (folder / segment_name(at)).write_bytes(batch)
    code, said = repaired(folder)
    assert (code, "begins before offset 5" in said) == (2, True)


LOST: list[tuple[str, list[OffsetsRecord], str]] = [
    ("a newer one", [commit("g", 1), commit("g", 2), commit("g", 3)], "nothing changes."),
    (
        "an older one",
        [commit("g", 10), commit("g", 20), commit("h", 3)],
        "the group falls back from offset 20 to 10 and reads what is between again.",
    ),
    (
        "no other",
        [commit("h", 10), commit("g", 20), commit("h", 3)],
        "there is no older commit: the group begins where its auto.offset.reset says.",
    ),
    (
        "a deletion",
        [commit("g", 10), OffsetTombstone("g", "orders", 0), commit("h", 3)],
        "it was deleted, and what it was before comes back.",
    ),
    (
        "a generation",
        [
            GroupMetadataRecord("g", GroupMetadata("consumer", 4, None, None, NOW_MS, ())),
            GroupMetadataRecord("g", GroupMetadata("consumer", 5, None, None, NOW_MS, ())),
            commit("h", 3),
        ],
        "the group comes back with generation 4: its members have to join once more.",
    ),
    (
        "a group",
        [
            GroupTombstone("g"),
            GroupMetadataRecord("g", GroupMetadata("consumer", 5, None, None, NOW_MS, ())),
            commit("h", 3),
        ],
        "the group is not known any more: its members have to join once more.",
    ),
]


@pytest.mark.parametrize(
    ("before", "meaning"), [each[1:] for each in LOST], ids=[x[0] for x in LOST]
)
def test_what_the_loss_means_for_a_group_is_told(
    tmp_path: Path, repaired: Repaired, before: list[OffsetsRecord], meaning: str
) -> None:
    """Method: the second of three records is lost by a bit of the checksum, so it can be read."""
    folder = tmp_path / f"{OFFSETS_TOPIC}-0"
    batches = write_log(folder, [lambda at, each=each: batch_of(at, each) for each in before])
    bend(folder / FIRST, len(batches[0]) + 17)
    _, said = repaired(folder)
    lines = said.splitlines()
    assert any(re.fullmatch(rf"    \w+ group=g.*: {re.escape(meaning)}", line) for line in lines)


def test_a_loss_that_cannot_be_read_is_told_too(offsets_log: Path, repaired: Repaired) -> None:
    bend(offsets_log / FIRST, 330, size=200)
    _, said = repaired(offsets_log)
    assert "nothing of what was lost can be read: groups whose newest commit was there" in said


def test_no_crash_in_a_repair_loses_a_sound_batch_or_the_bad_bytes() -> None:
    folder = Path("/data/__consumer_offsets-0")
    path = folder / FIRST
    batches = [batch_of(n, commit("g", n)) for n in range(5)]
    size = len(batches[0])
    bent = bytearray(b"".join(batches))
    bent[size + 90] ^= 1
    bad = bytes(bent[size : 2 * size])
    mended = b"".join([batches[0], *batches[2:]])

    def damaged() -> FaultyFiles:
        files = FaultyFiles()
        files.make_folder(folder)
        file = files.open(path, create=True)
        file.append(bytes(bent))
        file.sync()
        files.sync_folder(folder)
        files.sync_folder(folder.parent)
        files.count = 0
        files.calls.clear()
        return files

    def repair(files: FaultyFiles) -> None:
        damage, _ = damage_of(path, files.open(path, read_only=True), 0)
        if damage.flaws:
            mend(damage, files)

    whole = damaged()
    repair(whole)
    assert len(whole.operations) >= 8
    for number in range(len(whole.operations)):
        for seed in range(8):
            files = damaged()
            files.crash_at = number
            with pytest.raises(Crashed):
                repair(files)
            files.crash(random.Random(seed) if seed else None)
            now = files.read_bytes(path)
            assert now in (bytes(bent), mended)
            cuts = [files.read_bytes(folder / n) for n in files.list(folder) if n.endswith(".cut")]
            assert now == bytes(bent) or bad in cuts
            repair(files)
            assert files.read_bytes(path) == mended
            # (A disk that lost power may show a renamed file under both of its names.)
            assert now == mended or not files.exists(folder / f"{FIRST}.repaired")


def test_a_disk_that_refuses_leaves_the_segment_as_it_was_or_whole() -> None:
    folder = Path("/data/__consumer_offsets-0")
    path = folder / FIRST
    bad = b"\xff" * 80
    sound = [batch_of(n, commit("g", n)) for n in range(2)]
    for operation in ("create", "append", "sync", "sync_folder", "rename"):
        for after in range(3):
            files = FaultyFiles()
            files.make_folder(folder)
            files.contents[path] = bytearray(bad.join(sound))
            damage, _ = damage_of(path, files.open(path, read_only=True), 0)
            files.fail(operation, after=after)
            with suppress(OSError):
                mend(damage, files)
            if files.read_bytes(path) != bad.join(sound):
                assert files.read_bytes(path) == b"".join(sound)
                assert files.read_bytes(folder / f"{FIRST}.{len(sound[0])}.0.cut") == bad
