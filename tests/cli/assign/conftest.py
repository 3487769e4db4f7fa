"""`kohort assign` in this process."""

from collections.abc import Callable

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
