"""What docs/control.md shows is what happens."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kohort.control_api.app import BODY_BYTES_MAX, WAITING_MAX
from kohort.control_api.fields import ITEMS_MAX, PARTITIONS_MAX, TIMEOUT_SECONDS_MAX
from support.broker_process import QUIET

from .conftest import Asker

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "control.md").read_text()
SESSIONS = [
    block
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    if "9093/" in block or "kohort ctl" in block
]


def without_times(text: str) -> str:
    return re.sub(r"\d{13}", "(time)", text)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on the PATH")
def test_the_sessions_of_the_docs_go_as_they_are_shown(ask: Asker) -> None:
    """As one: what is set in one block is there in the next."""
    ask.control._numbers = iter(range(1, 100))  # type: ignore[assignment]
    bin_folder = Path(sys.executable).parent
    environment = {**QUIET, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    environment["KOHORT_CONTROL"] = ask.url
    assert len(SESSIONS) == 5
    for step in re.findall(r"^\$ (.*\n(?:(?!\$ ).*\n)*)", "".join(SESSIONS), re.MULTILINE):
        command, _, shown = step.partition("\n")
        if command.startswith("export"):
            continue
        done = subprocess.run(
            command.replace("http://127.0.0.1:9093", ask.url).replace(
                "127.0.0.1:9093", ask.url.removeprefix("http://")
            ),
            shell=True,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert without_times(done.stdout) == without_times(shown), command


def test_the_limits_of_the_docs_are_those_of_the_code() -> None:
    assert f"at most {BODY_BYTES_MAX // 1024**2} MiB" in PAGE
    assert f"at most {ITEMS_MAX:,} values" in PAGE
    assert f"at most {PARTITIONS_MAX:,} partitions" in PAGE
    assert f"waits at most {TIMEOUT_SECONDS_MAX} seconds" in PAGE
    assert f"{WAITING_MAX} requests wait already" in PAGE
