"""What a command must not import."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "flags",
    [
        ("conformance", "--list"),
        ("check", "--session-timeout", "0"),
        ("pipeline", "run", "--log", "missing", "--lake", "lake"),
    ],
)
def test_a_command_does_not_import_hypothesis(flags: tuple[str, ...], tmp_path: Path) -> None:
    call = f"import sys; from kohort.cli.main import main; main({flags!r}); "
    call += "sys.exit('hypothesis' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", call], cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
