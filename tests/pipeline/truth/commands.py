"""`kohort …` as a user types it, for as long as Spark needs."""

from pathlib import Path

from support import broker_process

# A session of Spark on a busy machine, and the batches.
RUN_SECONDS = 300


def kohort(*args: str | Path) -> str:
    """What it prints. Fails where it does."""
    done = broker_process.kohort(*args, seconds=RUN_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout
