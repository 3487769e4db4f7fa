"""`kohort log repair` keeps the valid batches after corrupt bytes, and a crash loses nothing."""

import os
import random
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from kohort.cli.log.partition_logs import PartitionLog
from kohort.cli.log.repair import rewrite, scan_damage
from kohort.cli.main import main
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
from kohort.testing.faults.files import Crashed, FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC
from support.log import NewRecord, build

from .conftest import (
    NOW_MS,
    batch_of,
    commit,
    corrupt,
    in_transaction,
    new_records,
    write_log,
)

FIRST = segment_name(0)
Repair = Callable[..., tuple[int, str]]


@pytest.fixture
def repair_log(capsys: pytest.CaptureFixture[str]) -> Repair:
    def repair_log(path: Path, *args: str) -> tuple[int, str]:
        code = main(["log", "repair", str(path), *args])
        out, err = capsys.readouterr()
        return code, out + err

    return repair_log


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def stored(folder: Path) -> list[bytes]:
    log = Log.open(folder, DiskFiles())
    batches = [batch for _, batch in log.batches()]
    log.close()
    return batches


def test_valid_batches_behind_a_corrupt_one_are_kept(
    offsets_log: Path, repair_log: Repair, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = offsets_log / FIRST
    size = segment.stat().st_size // 10
    original = corrupt(segment, 4 * size + 85)
    corrupted = segment.read_bytes()
    batches = [original[n * size : (n + 1) * size] for n in range(10)]
    for stale in (".index", ".timeindex"):
        segment.with_suffix(stale).write_bytes(bytes(12))
    code, output = repair_log(offsets_log)
    assert code == 0
    assert "lost: at most offsets 4..4" in output
    kept = offsets_log / f"{FIRST}.{4 * size}.0.cut"
    assert f"kept in {kept.name}" in output
    assert kept.read_bytes() == corrupted[4 * size : 5 * size]
    assert segment.read_bytes() == b"".join(batches[:4] + batches[5:])
    assert sorted(path.name for path in offsets_log.iterdir()) == [FIRST, kept.name]
    assert main(["log", "verify", str(offsets_log)]) == 0
    assert stored(offsets_log) == batches[:4] + batches[5:]
    capsys.readouterr()
    assert repair_log(offsets_log) == (0, f"{offsets_log}: valid; nothing to repair.\n")


@pytest.mark.java
def test_a_repaired_segment_is_valid_for_kafkas_dump_tool(
    offsets_log: Path, repair_log: Repair, kafka_tool: Callable[..., str]
) -> None:
    segment = offsets_log / FIRST
    corrupt(segment, 300)
    corrupt(segment, 700, size=30)
    assert repair_log(offsets_log)[0] == 0
    tool = "org.apache.kafka.tools.DumpLogSegments"
    printed = kafka_tool(tool, "--offsets-decoder", "--files", segment)
    assert re.findall(r"baseOffset: (\d+)", printed) == [str(n) for n in (0, 1, 3, 4, 5, 7, 8, 9)]
    assert printed.count("isvalid: true") == 8
    assert not re.search("isvalid: false|invalid bytes|CORRUPT|mismatch|exception", printed, re.I)


def test_corrupt_bytes_in_several_segments_are_removed_at_once(
    tmp_path: Path, repair_log: Repair
) -> None:
    folder = tmp_path / "data" / "__consumer_offsets-0"
    batches = write_log(folder, [lambda at: batch_of(at, commit("g", at))] * 30, segment_bytes=1100)
    size = len(batches[0])
    first, second, last = sorted(folder.glob("*.log"))
    corrupt(first, 2 * size + 90)
    corrupt(first, 5 * size + 90)
    corrupt(second, 10, size=150)
    last.write_bytes(last.read_bytes()[:-1])
    code, output = repair_log(tmp_path / "data")
    assert (code, output.count("lost: ")) == (0, 4)
    lost = {2, 5, 10, 11, 29}
    assert stored(folder) == [batch for n, batch in enumerate(batches) if n not in lost]
    assert len(list(folder.glob("*.cut"))) == 4


def test_a_wrong_base_offset_is_corrected(offsets_log: Path, repair_log: Repair) -> None:
    """The base offset is outside the checksum; if only one offset is possible between the other
    batches, nothing is lost."""
    segment = offsets_log / FIRST
    size = segment.stat().st_size // 10
    for number, flip in ((0, 0x01), (4, 0x40), (4, 0x04), (8, 0x08)):
        whole = segment.read_bytes()
        corrupted = bytearray(whole)
        corrupted[number * size + 7] ^= flip
        segment.write_bytes(corrupted)
        code, output = repair_log(offsets_log)
        assert code == 0
        assert f"lost: nothing; the wrong base offset is corrected to {number}" in output
        assert "OffsetCommit" not in output
        assert segment.read_bytes() == whole


def test_any_wrong_bit_of_a_base_offset_is_corrected() -> None:
    """The last batch is not corrected, because no batch follows it."""
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
        corrupted = bytearray(b"".join(batches))
        corrupted[position + chance.randrange(8)] ^= 1 << chance.randrange(8)
        damage, end_offset = scan_damage(Path(FIRST), MemoryFile(corrupted), base)
        assert (damage.moved, end_offset) == ({position: offsets[number]}, offset)
        assert [each.position for each in damage.corruptions] == [position]


def test_a_dry_run_prints_the_same_and_writes_nothing(tmp_path: Path, repair_log: Repair) -> None:
    folder = tmp_path / f"{OFFSETS_TOPIC}-0"
    segment = folder / FIRST
    commits = [commit("g", 10), commit("h", 1), commit("g", 20), commit("h", 3)]
    batches = write_log(folder, [lambda at, each=each: batch_of(at, each) for each in commits])
    corrupt(segment, 7)  # the base offset
    corrupt(segment, 2 * len(batches[0]) + 90)
    corrupted = segment.read_bytes()
    code, output = repair_log(folder, "--dry-run")
    assert code == 1
    assert "2 problems would be repaired; nothing was written." in output
    assert (names(folder), segment.read_bytes()) == ([FIRST], corrupted)
    after = [line for line in repair_log(folder)[1].splitlines() if "kept in" not in line]
    assert output.splitlines()[:-1] == after[:-1]


def test_a_folder_that_a_broker_uses_is_rejected(offsets_log: Path, repair_log: Repair) -> None:
    segment = offsets_log / FIRST
    corrupt(segment, 300)
    corrupted = segment.read_bytes()
    lock = lock_folder(offsets_log.parent, DiskFiles())
    for path in (offsets_log.parent, offsets_log, segment):
        code, output = repair_log(path)
        assert code == 2
        assert f"{offsets_log.parent} is in use by process {os.getpid()} (kohort)" in output
        assert repair_log(path, "--dry-run")[0] == 1
    assert (names(offsets_log), segment.read_bytes()) == ([FIRST], corrupted)
    lock.release()
    assert repair_log(segment)[0] == 0


def test_an_interrupted_compaction_is_finished_first(tmp_path: Path, repair_log: Repair) -> None:
    folder = tmp_path / "data" / "__consumer_offsets-0"
    batches = write_log(folder, [lambda at: batch_of(at, commit("g", at))] * 9, segment_bytes=350)
    (folder.parent / ".lock").touch()
    first, second, third = sorted(folder.glob("*.log"))
    first.with_name(f"{first.name}.swap").write_bytes(batches[0] + batches[5])
    corrupt(third, len(batches[0]) + 80)
    segments = (folder / f"{first.name}.swap", third)
    assert tuple(PartitionLog(folder).segments().values()) == segments
    assert repair_log(folder, "--dry-run")[0] == 1
    assert second.exists()
    assert repair_log(folder)[0] == 0
    assert stored(folder) == [batches[n] for n in (0, 5, 6, 8)]
    assert names(folder) == [first.name, third.name, f"{third.name}.{len(batches[0])}.0.cut"]


def test_a_log_without_a_valid_batch_does_not_stop_the_repair_of_others(
    tmp_path: Path, repair_log: Repair
) -> None:
    records = [NewRecord(None, b"x", 1)]
    for name, batches in (("a-0", 3), ("b-0", 1), ("c-0", 3)):
        make = [lambda at: build(records, base_offset=at)] * batches
        write_log(tmp_path / "data" / name, make)
        corrupt(tmp_path / "data" / name / FIRST, 67)
    before = (tmp_path / "data" / "b-0" / FIRST).read_bytes()
    code, output = repair_log(tmp_path / "data")
    assert f"# {tmp_path / 'data' / 'b-0'} was not repaired: it has no valid record batch" in output
    assert f"{tmp_path / 'data'}: 2 problems repaired." in output
    assert output.count("    records without a key: lost\n") == 2
    assert code == 1
    assert (tmp_path / "data" / "b-0" / FIRST).read_bytes() == before
    for name in ("a-0", "c-0"):
        assert main(["log", "verify", str(tmp_path / "data" / name)]) == 0
    assert repair_log(tmp_path / "data" / "b-0")[0] == 2


def test_files_that_cannot_be_repaired_are_left_alone(tmp_path: Path, repair_log: Repair) -> None:
    aside = tmp_path / f"{FIRST}.deleted"
    aside.write_bytes(batch_of(0, commit("g", 1)))
    assert repair_log(aside) == (
        2,
        f"kohort log: {aside} was set aside: it is no longer part of a log.\n",
    )
    swap = aside.rename(tmp_path / f"{FIRST}.swap")
    assert repair_log(swap) == (
        2,
        f"kohort log: {swap} belongs to an interrupted compaction: pass its folder.\n",
    )
    assert names(tmp_path) == [swap.name]
    folder = tmp_path / "orders-0"
    batches = [build([NewRecord(None, b"x", 1)] * 5, base_offset=at) for at in (0, 3)]
    folder.mkdir()
    for at, batch in zip((0, 3), batches, strict=True):
        (folder / segment_name(at)).write_bytes(batch)
    code, output = repair_log(folder)
    assert (code, "begins before offset 5" in output) == (2, True)


LOST: list[tuple[str, list[OffsetsRecord], str]] = [
    (
        "a newer one",
        [commit("g", 1), commit("g", 2), commit("g", 3)],
        "no effect, because a newer record exists.",
    ),
    (
        "an older one",
        [commit("g", 10), commit("g", 20), commit("h", 3)],
        "the group falls back from offset 20 to 10 and reads those records again.",
    ),
    (
        "no other",
        [commit("h", 10), commit("g", 20), commit("h", 3)],
        "no older commit exists, so the group starts according to auto.offset.reset.",
    ),
    (
        "a deletion",
        [commit("g", 10), OffsetTombstone("g", "orders", 0), commit("h", 3)],
        "it was deleted, and its previous value is valid again.",
    ),
    (
        "a generation",
        [
            GroupMetadataRecord("g", GroupMetadata("consumer", 4, None, None, NOW_MS, ())),
            GroupMetadataRecord("g", GroupMetadata("consumer", 5, None, None, NOW_MS, ())),
            commit("h", 3),
        ],
        "the group is in generation 4 again, so its members rejoin.",
    ),
    (
        "a group",
        [
            GroupTombstone("g"),
            GroupMetadataRecord("g", GroupMetadata("consumer", 5, None, None, NOW_MS, ())),
            commit("h", 3),
        ],
        "the group no longer exists, so its members rejoin.",
    ),
]


@pytest.mark.parametrize(
    ("before", "meaning"), [each[1:] for each in LOST], ids=[each[0] for each in LOST]
)
def test_the_impact_of_a_lost_record_is_printed(
    tmp_path: Path, repair_log: Repair, before: list[OffsetsRecord], meaning: str
) -> None:
    """The second of three records is still readable, because only its checksum is wrong."""
    folder = tmp_path / f"{OFFSETS_TOPIC}-0"
    batches = write_log(folder, [lambda at, each=each: batch_of(at, each) for each in before])
    corrupt(folder / FIRST, len(batches[0]) + 17)
    _, output = repair_log(folder)
    lines = output.splitlines()
    assert any(re.fullmatch(rf"    \w+ group=g.*: {re.escape(meaning)}", line) for line in lines)


def test_an_older_record_that_cannot_be_decoded_does_not_stop_a_repair(
    tmp_path: Path, repair_log: Repair
) -> None:
    folder = tmp_path / f"{OFFSETS_TOPIC}-0"
    ((key, _, at_ms, *_),) = new_records(commit("g", 1))
    newer_version = NewRecord(key, b"\x00\x63", at_ms)
    batches = write_log(
        folder,
        [
            lambda at: build([newer_version], base_offset=at),
            lambda at: batch_of(at, commit("g", 2)),
            lambda at: batch_of(at, commit("h", 3)),
        ],
    )
    corrupt(folder / FIRST, len(batches[0]) + 17)  # the checksum
    _, output = repair_log(folder)
    assert "partition=0: the record at offset 0 is valid again.\n" in output


def test_the_impact_of_a_lost_transaction_marker_is_printed(
    tmp_path: Path, repair_log: Repair, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / f"{OFFSETS_TOPIC}-0"
    marker = NewRecord(b"\0\0\0\1", b"\0\0\0\0\0\0", NOW_MS)
    batches = write_log(
        folder,
        [
            lambda at: in_transaction(new_records(commit("g", 5)), at, 7),
            lambda at: in_transaction([marker], at, 7, control=True),
            lambda at: batch_of(at, commit("h", 1)),
        ],
    )
    corrupt(folder / FIRST, len(batches[0]) + 17)  # the checksum
    assert main(["log", "verify", str(folder)]) == 1
    assert "still readable: COMMIT of producer 7." in capsys.readouterr().out
    _, output = repair_log(folder)
    assert (
        "    COMMIT of producer 7: its transaction remains open until the producer's next "
        "transaction ends.\n"
    ) in output
    assert "OffsetCommit" not in output


def test_a_loss_that_cannot_be_read_is_reported(offsets_log: Path, repair_log: Repair) -> None:
    corrupt(offsets_log / FIRST, 330, size=200)
    _, output = repair_log(offsets_log)
    assert "none of it can be read: groups with their latest commit there fall back" in output


def test_no_crash_in_a_repair_loses_a_valid_batch_or_the_corrupt_bytes() -> None:
    folder = Path("/data/__consumer_offsets-0")
    path = folder / FIRST
    batches = [batch_of(n, commit("g", n)) for n in range(5)]
    size = len(batches[0])
    corrupted = bytearray(b"".join(batches))
    corrupted[size + 90] ^= 1
    removed = bytes(corrupted[size : 2 * size])
    repaired = b"".join([batches[0], *batches[2:]])

    def damaged() -> FaultyFiles:
        files = FaultyFiles()
        files.make_folder(folder)
        file = files.open(path, create=True)
        file.append(bytes(corrupted))
        file.sync()
        files.sync_folder(folder)
        files.sync_folder(folder.parent)
        files.count = 0
        files.calls.clear()
        return files

    def repair(files: FaultyFiles) -> None:
        damage, _ = scan_damage(path, files.open(path, read_only=True), 0)
        if damage.corruptions:
            rewrite(damage, files)

    complete = damaged()
    repair(complete)
    assert len(complete.operations) >= 8
    for number in range(len(complete.operations)):
        for seed in range(8):
            files = damaged()
            files.crash_at = number
            with pytest.raises(Crashed):
                repair(files)
            files.crash(random.Random(seed) if seed else None)
            now = files.read_bytes(path)
            assert now in (bytes(corrupted), repaired)
            cuts = [files.read_bytes(folder / n) for n in files.list(folder) if n.endswith(".cut")]
            assert now == bytes(corrupted) or removed in cuts
            repair(files)
            assert files.read_bytes(path) == repaired
            # After a power loss, a renamed file may exist under both names.
            assert now == repaired or not files.exists(folder / f"{FIRST}.repaired")


def test_a_failing_disk_leaves_the_old_or_the_new_segment() -> None:
    folder = Path("/data/__consumer_offsets-0")
    path = folder / FIRST
    garbage = b"\xff" * 80
    valid = [batch_of(n, commit("g", n)) for n in range(2)]
    for operation in ("create", "append", "sync", "sync_folder", "rename"):
        for after in range(3):
            files = FaultyFiles()
            files.make_folder(folder)
            files.contents[path] = bytearray(garbage.join(valid))
            damage, _ = scan_damage(path, files.open(path, read_only=True), 0)
            files.fail(operation, after=after)
            with suppress(OSError):
                rewrite(damage, files)
            if files.read_bytes(path) != garbage.join(valid):
                assert files.read_bytes(path) == b"".join(valid)
                assert files.read_bytes(folder / f"{FIRST}.{len(valid[0])}.0.cut") == garbage
