"""`kohort pipeline` where no Spark is needed: what a lake holds, merging, and what goes wrong."""

import json
import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kohort.cli.main import main
from kohort.cli.pipeline.stopping import Stopping
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.offsets.commit_value import encode_commit_value
from kohort.offsets.record_codec import encode_record
from kohort.offsets.records import OffsetCommitRecord
from kohort.pipeline.lake import Lake, write_batch
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.tables import TABLES
from support.broker_process import kohort
from support.log import NewRecord, build

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    sample = {"cluster": "c", "topic": "t", "partition": 0, "log_end": 1, "sampled_at": NOON}
    for _ in range(2):
        write_batch(
            tmp_path / "lake",
            {"bronze_log_end": [sample] * 3},
            positions={3: 700, 4: 34},
            cluster="east",
            as_of=NOON,
        )
    return tmp_path / "lake"


def test_status_lists_every_table(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "status", "--lake", str(lake)]) == 0
    first, second, _, header, *rows = capsys.readouterr().out.splitlines()
    assert first == "cluster east, batch 1, tells of all until 2026-01-01 12:00:00 UTC"
    assert second == "734 offsets of 2 partitions read"
    assert header.split() == ["table", "rows", "folders", "bytes"]
    shown = {row.split()[0]: row.split()[1:3] for row in rows}
    assert list(shown) == list(TABLES)
    assert (shown["bronze_log_end"], shown["gold_skew"]) == (["6", "2"], ["0", "0"])


def test_status_for_scripts(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "status", "--lake", str(lake), "--format", "json"]) == 0
    rows = {row.pop("table"): row for row in json.loads(capsys.readouterr().out)}
    assert rows["bronze_log_end"].pop("bytes") > 0
    said = {"rows": 6, "folders": 2, "grain": "a sample of a partition's log"}
    assert rows["bronze_log_end"] == said


def test_compact_merges_and_says_so(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "compact", "--lake", str(lake)]) == 0
    assert capsys.readouterr().out == "bronze_log_end: 2 folders merged into one of 6 rows\n"
    assert [one.rows for one in Lake(lake).live("bronze_log_end")] == [6]
    assert main(["pipeline", "compact", "--lake", str(lake)]) == 0
    assert capsys.readouterr().out == f"{lake}: no table has two small folders\n"


@pytest.mark.parametrize("command", ["status", "compact"])
def test_no_lake_is_one_sentence_and_none_is_made(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nowhere"
    assert main(["pipeline", command, "--lake", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"kohort pipeline: {path} does not exist: make one with `kohort pipeline run --log DIR "
        f"--lake {path}`.\n"
    )
    assert not path.exists()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log with one record."""
    folder = tmp_path / "data" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    log = Log.open(folder, DiskFiles(), LogConfig())
    commit = OffsetCommitRecord(
        "orders", "clicks", 0, encode_commit_value(1, -1, "", 1_700_000_000_000)
    )
    log.append(build([NewRecord(*encode_record(commit), 1_700_000_000_000)], base_offset=0))
    log.close()
    return folder.parent


@pytest.mark.parametrize(
    ("java_home", "sentence"),
    [
        ("", "Spark needs Java 17 or later, and there is no `java`: "),
        ("/nowhere", "JAVA_HOME is /nowhere, and there is no bin/java in it"),
    ],
)
def test_run_without_java_says_what_to_install(
    java_home: str, sentence: str, data: Path, tmp_path: Path
) -> None:
    """In a process of its own: in this one a test of Spark may have left a session."""
    flags = ("pipeline", "run", "--log", data, "--lake", tmp_path / "lake")
    done = kohort(*flags, env={"JAVA_HOME": java_home, "PATH": "/nowhere"})
    assert done.returncode == 2
    assert sentence in done.stderr
    assert not Lake.exists(tmp_path / "lake")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--log", "nowhere"], "nowhere is no folder: give a data folder with an offsets log."),
        (["--log", "."], " has no folder __consumer_offsets-N: name a data folder."),
        (
            ["--log", ".", "--events", "nowhere"],
            "nowhere is no folder: give one that a broker with --events has written.",
        ),
        (["--bootstrap-server", "127.0.0.1:1"], "127.0.0.1:1"),
    ],
)
def test_run_says_what_it_cannot_read(
    flags: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "run", *flags, "--lake", "lake"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("kohort pipeline: ")
    assert complaint in told
    assert len(told.splitlines()) == 1


def test_two_runs_at_once_are_refused(
    lake: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Writer(lake):
        flags = ["--log", str(data), "--lake", str(lake)]
        assert main(["pipeline", "run", *flags]) == 2
    assert f"is in use by process {os.getpid()} (kohort pipeline)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ([], "one of the arguments --log --bootstrap-server is required"),
        (["--log", ".", "--every", "soon"], "'soon' is no time: give one as 500ms, 30s, 5m, 1h"),
        (["--log", ".", "--max-records-per-batch", "0"], "'0' is no number from 1 on"),
        (["--log", ".", "--conf", "spark"], "'spark' is not KEY=VALUE"),
    ],
)
def test_wrong_flags_are_one_sentence(
    flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "run", "--lake", "lake", *flags])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert len(told.splitlines()) == 1


def test_the_first_ctrl_c_lets_a_batch_end_and_the_second_does_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        stopping = Stopping()
        stopping.listen()
        stopping.in_batch = True
        assert not stopping.wait(0)
        signal.raise_signal(signal.SIGINT)
        assert stopping.wait(0)
        assert "another Ctrl-C" in capsys.readouterr().err
        monkeypatch.setattr("os._exit", ended.append)
        signal.raise_signal(signal.SIGINT)
        assert ended == [130]
        assert "the lake is as it was" in capsys.readouterr().err
        idle = Stopping()
        idle.listen()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
