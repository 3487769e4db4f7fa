"""Errors, Ctrl-C and progress bars of the commands."""

import errno
import os
import sys
from pathlib import Path

import pytest
from kohort.cli import output
from kohort.cli.main import main
from kohort.log.files import DiskFile, DiskFiles
from kohort.log.segment import segment_name

COMMANDS = ("dump", "verify", "stats", "repair")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_without_read_permission_is_named(
    command: str,
    offsets_log: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`open` is patched, because root may read every file."""

    def deny(self: DiskFiles, path: Path, **how: bool) -> DiskFile:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(DiskFiles, "open", deny)
    assert main(["log", command, str(offsets_log)]) == 2
    (segment,) = offsets_log.glob("*.log")
    assert capsys.readouterr().err == f"kohort log: {segment}: permission denied.\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_not_a_log_is_a_user_error(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / segment_name(0)
    text.write_text("text in a file named like a segment\n" * 100)
    assert main(["log", command, str(text)]) == 2
    assert f"{text} is not a log: it has no valid record batch." in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_ends_without_a_message(
    command: str,
    offsets_log: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(self: DiskFiles, path: Path, **how: bool) -> DiskFile:
        raise KeyboardInterrupt

    monkeypatch.setattr(DiskFiles, "open", interrupt)
    assert main(["log", command, str(offsets_log)]) == (0 if command == "dump" else 130)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("command", ["verify", "stats", "repair"])
def test_long_work_has_a_progress_bar_only_on_a_terminal(
    command: str,
    offsets_log: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(["log", command, str(offsets_log)]) == 0
    plain, errors = capsys.readouterr()
    assert errors == ""
    monkeypatch.setattr(output, "PROGRESS_BYTES_MIN", 1)
    assert main(["log", command, str(offsets_log)]) == 0
    assert capsys.readouterr() == (plain, "")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["log", command, str(offsets_log)]) == 0
    out, err = capsys.readouterr()
    assert out == plain
    assert f"{command} " in err
