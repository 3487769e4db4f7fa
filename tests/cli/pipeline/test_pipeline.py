"""`kohort pipeline` without Spark: status, compact, and errors of run."""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from kohort.cli.errors import UserError
from kohort.cli.main import main
from kohort.cli.pipeline.errors import user_errors
from kohort.cli.pipeline.run import StopSignals
from kohort.cli.signals import SignalFlag
from kohort.pipeline.inputs import Inputs
from kohort.pipeline.lake.reader import Lake
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.tables import TABLES
from lake_builder import write_batch
from offset_logs import batch_of, commit, write
from support.running_broker import kohort

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
    assert first == "cluster east, batch 1, as of 2026-01-01 12:00:00 UTC"
    assert second == "734 offsets of 2 partitions read"
    assert header.split() == ["table", "rows", "folders", "bytes"]
    shown = {row.split()[0]: row.split()[1:3] for row in rows}
    assert list(shown) == list(TABLES)
    assert (shown["bronze_log_end"], shown["gold_skew"]) == (["6", "2"], ["0", "0"])


def test_status_as_json(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "status", "--lake", str(lake), "--format", "json"]) == 0
    rows = {row.pop("table"): row for row in json.loads(capsys.readouterr().out)}
    assert rows["bronze_log_end"].pop("bytes") > 0
    expected = {
        "rows": 6,
        "folders": 2,
        "grain": "a sample of a partition's log start and end offset",
    }
    assert rows["bronze_log_end"] == expected


def test_compact_merges_folders_and_reports_them(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "compact", "--lake", str(lake)]) == 0
    assert capsys.readouterr().out == "bronze_log_end: 2 folders merged into one with 6 rows\n"
    assert [folder.rows for folder in Lake(lake).live("bronze_log_end")] == [6]
    assert main(["pipeline", "compact", "--lake", str(lake)]) == 0
    assert capsys.readouterr().out == f"{lake}: no table has more than one small folder\n"


@pytest.mark.parametrize("command", ["status", "compact"])
def test_a_missing_lake_is_an_error_and_not_created(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "missing"
    assert main(["pipeline", command, "--lake", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"kohort pipeline: {path} does not exist: create one with `kohort pipeline run --log DIR "
        f"--lake {path}`.\n"
    )
    assert not path.exists()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with one record."""
    folder = tmp_path / "data" / "__consumer_offsets-0"
    write(folder, batch_of(0, commit(1))).close()
    return folder.parent


@pytest.mark.parametrize(
    ("java_home", "message"),
    [
        ("", "Spark needs Java 17 or later, and `java` was not found: install it"),
        ("/nowhere", "JAVA_HOME is /nowhere, which has no bin/java: correct or unset it."),
    ],
)
def test_run_without_java_is_an_error_that_names_the_version(
    java_home: str, message: str, data: Path, tmp_path: Path
) -> None:
    """Run in another process, because this one may have another test's Spark session."""
    flags = ("pipeline", "run", "--log", data, "--lake", tmp_path / "lake")
    done = kohort(*flags, env={"JAVA_HOME": java_home, "PATH": "/nowhere"})
    assert done.returncode == 2
    assert message in done.stderr
    assert not Lake.exists(tmp_path / "lake")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--log", "missing"], "missing is not a folder: pass a data folder."),
        (["--log", "x" * 300], f"{'x' * 300}: File name too long."),
        (["--log", "."], " has no folder __consumer_offsets-N: pass a data folder."),
    ],
)
def test_unreadable_inputs_of_run_are_errors_that_leave_nothing(
    flags: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "run", *flags, "--lake", "new/lake"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("kohort pipeline: ")
    assert message in error
    assert len(error.splitlines()) == 1
    assert not Path("new").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--log", ".", "--every", "5s"], "--every requires --follow"),
        (["--log", ".", "--command-config", "f"], "--command-config requires --bootstrap-server"),
        (["--log", "missing"], "missing is not a folder: pass a data folder."),
        (
            ["--log", ".", "--events", "missing"],
            "missing is not a folder: pass the data folder of a kohort broker.",
        ),
    ],
)
def test_flags_are_checked_before_slow_imports(
    flags: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "kohort.cli.pipeline.run", None)  # not importable
    try:
        code: object = main(["pipeline", "run", *flags, "--lake", "lake"])
    except SystemExit as ended:  # from argparse
        code = ended.code
    assert code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--follow"], ["--cluster", "east"]])
@pytest.mark.parametrize("is_silent", [False, True])
def test_an_unreachable_cluster_is_exit_code_1_with_the_address_and_leaves_nothing(
    more: list[str], is_silent: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`is_silent`: connections are accepted but not served."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if is_silent:
            server.listen()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        flags = ["--bootstrap-server", address, "--timeout", "100ms", *more]
        assert main(["pipeline", "run", *flags, "--lake", str(tmp_path / "lake")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("kohort pipeline: no broker responded: ")
    assert address in error
    assert len(error.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("end", [".", ""])
def test_an_error_of_spark_is_a_sentence(end: str, tmp_path: Path) -> None:
    exception = type("AnalysisException", (Exception,), {"__module__": "pyspark.errors"})
    with (
        pytest.raises(UserError, match=r"^Spark failed: no table: 42K03\. The lake contains only"),
        user_errors(tmp_path),
    ):
        raise exception(f"no table: 42K03{end}")


def test_a_second_run_on_the_same_lake_is_rejected(
    lake: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Writer(lake):
        flags = ["--log", str(data), "--lake", str(lake)]
        assert main(["pipeline", "run", *flags]) == 2
    assert f"is in use by process {os.getpid()} (kohort pipeline)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "one of the arguments --log --bootstrap-server is required"),
        (["--log", ".", "--every", "soon"], "invalid time 'soon': expected 500ms, 30s, 5m or 1h"),
        (["--log", ".", "--max-records-per-batch", "0"], "invalid number '0': expected 1 or more"),
        (["--log", ".", "--conf", "spark"], "invalid setting 'spark': expected KEY=VALUE"),
    ],
)
def test_invalid_flags_are_errors_of_one_line(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "run", "--lake", "lake", *flags])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.fixture
def handlers_restored() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers_restored")
def test_the_first_ctrl_c_ends_after_the_batch_and_the_second_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    signals = StopSignals()
    signals.install()
    signals.in_batch = True
    assert not signals.wait(0)
    signal.raise_signal(signal.SIGINT)
    assert signals.wait(0)
    assert "press Ctrl-C again" in capsys.readouterr().err
    monkeypatch.setattr("os._exit", ended.append)
    signal.raise_signal(signal.SIGINT)
    assert ended == [130]
    assert "the lake contains only complete batches" in capsys.readouterr().err


@pytest.mark.usefixtures("handlers_restored")
@pytest.mark.parametrize(
    ("flags", "moment", "code", "summary"),
    [
        (["--follow"], (SignalFlag, "wait"), 0, "nothing new; up to date as of 2026-01-01 12:00:"),
        (["--follow"], (Inputs, "plan"), 0, "nothing new; the log may have more records"),
        ([], (Inputs, "plan"), 130, None),
    ],
)
def test_a_signal_between_batches_is_a_success_with_follow(
    flags: list[str],
    moment: tuple[type, str],
    code: int,
    summary: str | None,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lake = tmp_path / "lake"
    write_batch(lake, {}, positions={0: 1}, cluster="east", as_of=NOON)
    monkeypatch.setattr(*moment, lambda *_: signal.raise_signal(signal.SIGTERM))
    inputs = ["--log", str(data), "--lake", str(lake), "--cluster", "east"]
    assert main(["pipeline", "run", *inputs, *flags]) == code
    out = capsys.readouterr().out
    assert out.startswith(f"{lake}: {summary}") if summary else not out
