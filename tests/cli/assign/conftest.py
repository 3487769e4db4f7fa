"""Fixtures that run `kohort assign` in this process."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kohort.cli.main import main

Assign = Callable[..., tuple[int, str, str]]


@pytest.fixture
def assign(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Assign:
    """`assign("--assignor range --topic t=3", …)` -> exit code, standard output, standard error."""
    for variable in ("FORCE_COLOR", "COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)

    def run(flags: str, *more: object) -> tuple[int, str, str]:
        code = main(["assign", *flags.split(), *map(str, more)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """A file with an assignment by range to C0 and C1; C2 has no partitions."""
    file = tmp_path / "before.json"
    owned = {"C0": [["t0", 0], ["t0", 1], ["t1", 0], ["t1", 1]], "C1": [["t0", 2], ["t1", 2]]}
    file.write_text(json.dumps({"assignment": {**owned, "C2": []}}))
    return file
