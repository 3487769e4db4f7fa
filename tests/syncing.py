"""Syncing of logs for tests that have no threads."""

from collections.abc import Sequence

from kohort.log.log import Log


def sync_each(logs: Sequence[Log]) -> list[OSError | None]:
    """Sync one after the other; what a `SyncAll` (log/write_ahead.py) tells of each."""
    outcomes: list[OSError | None] = []
    for log in logs:
        try:
            log.sync()
        except OSError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
    return outcomes
