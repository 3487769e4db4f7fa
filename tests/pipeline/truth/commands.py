"""`kohort …` as a user types it, for as long as Spark needs."""

import subprocess
import sys
from pathlib import Path

from processes import QUIET

# A session of Spark on a busy machine, and the batches.
RUN_SECONDS = 300


def kohort(*args: str | Path) -> str:
    """What it prints. Fails where it does."""
    done = subprocess.run(
        [sys.executable, "-m", "kohort", *map(str, args)],
        env=QUIET,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
