"""What can be set for a log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic configs of the same names, with their defaults; sizes in bytes, times in
    milliseconds."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    # Of one batch. Nothing here looks at it: whoever makes a batch does.
    max_message_bytes: int = 1_048_588
    # Written into the batches that are built here: how many leaders the partition had before.
    leader_epoch: int = 0
    # Opening syncs what it found, and so do rolling and cutting: nothing is shown that a power
    # cut can take back, no segment outlives an earlier one, nothing that was cut returns.
    # False for logs that nobody syncs, where a roll would wait for a whole segment's bytes.
    sync_at_open: bool = True
