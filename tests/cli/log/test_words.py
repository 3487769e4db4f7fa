"""What the commands say where they cannot do what they are asked, and while it takes long."""

import errno
import os
import sys
from pathlib import Path

import pytest
from kohort.cli import output
from kohort.cli.main import main
from kohort.log.files import DiskFile, DiskFiles

COMMANDS = ("dump", "verify", "stats", "repair")


@pytest.mark.parametrize("command", COMMANDS)
def test_who_may_not_read_is_told_which_file(
    command: str,
    offsets_log: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """(Tests may run as root, who may read everything.)"""

    def refuse(self: DiskFiles, path: Path, **how: bool) -> DiskFile:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(DiskFiles, "open", refuse)
    assert main(["log", command, str(offsets_log)]) == 2
    (segment,) = offsets_log.glob("*.log")
    assert capsys.readouterr().err == f"kohort log: {segment}: this user may not do that.\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_ends_quietly(
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
def test_long_work_shows_how_far_it_is_on_a_terminal_and_nowhere_else(
    command: str,
    offsets_log: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(["log", command, str(offsets_log)]) == 0
    plain, silence = capsys.readouterr()
    assert silence == ""
    monkeypatch.setattr(output, "PROGRESS_BYTES_MIN", 1)
    assert main(["log", command, str(offsets_log)]) == 0
    assert capsys.readouterr() == (plain, "")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["log", command, str(offsets_log)]) == 0
    out, err = capsys.readouterr()
    assert out == plain
    assert f"{command} " in err
