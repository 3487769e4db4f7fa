"""The sessions and the limits in docs/control.md are true."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kohort.control_api.endpoint import ITEMS_MAX, PARTITIONS_MAX, TIMEOUT_SECONDS_MAX
from kohort.control_api.server import BODY_BYTES_MAX, WAITING_MAX
from support.running_broker import CLEAN_ENVIRONMENT

from .conftest import ApiClient

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "control.md").read_text()
SESSIONS = [
    block
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    if "9093/" in block or "kohort ctl" in block
]


def without_times_and_addresses(text: str) -> str:
    text = re.sub(r"\d{13}", "(time)", text)
    return re.sub(r"127\.0\.0\.1:\d+(, 127\.0\.0\.1:\d+)*", "(addresses)", text)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on the PATH")
def test_the_sessions_in_control_md_are_reproducible(api: ApiClient) -> None:
    """The blocks are one session: later blocks use what earlier ones have created."""
    api.control._numbers = iter(range(1, 100))  # type: ignore[assignment]
    bin_folder = Path(sys.executable).parent
    environment = {**CLEAN_ENVIRONMENT, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    environment["KOHORT_CONTROL"] = api.url
    assert len(SESSIONS) == 5
    for step in re.findall(r"^\$ (.*\n(?:(?!\$ ).*\n)*)", "".join(SESSIONS), re.MULTILINE):
        command, _, shown = step.partition("\n")
        if command.startswith("export"):
            continue
        done = subprocess.run(
            command.replace("http://127.0.0.1:9093", api.url).replace(
                "127.0.0.1:9093", api.url.removeprefix("http://")
            ),
            shell=True,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert without_times_and_addresses(done.stdout) == without_times_and_addresses(shown), (
            command
        )


def test_the_limits_in_control_md_are_those_of_the_code() -> None:
    assert f"at most {BODY_BYTES_MAX // 1024**2} MiB" in PAGE
    assert f"at most {ITEMS_MAX:,} values" in PAGE
    assert f"at most {PARTITIONS_MAX:,} partitions" in PAGE
    assert f"waits at most {TIMEOUT_SECONDS_MAX} seconds" in PAGE
    assert f"{WAITING_MAX} requests are already waiting" in PAGE
