"""A `kohort` that continuously compacts offsets logs and writes snapshots.

Usage: `python compacting_broker.py serve …`.
"""

import sys

from kohort.broker import snapshots
from kohort.cli.main import main

OPTIONS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=2",
    "offsets.topic.segment.bytes=1048576",  # the minimum
    "log.cleaner.min.compaction.lag.ms=0",
    "log.cleaner.min.cleanable.ratio=0.01",
    "log.cleaner.delete.retention.ms=0",
    "log.cleaner.backoff.ms=1",
)

if __name__ == "__main__":
    snapshots.EVERY_RECORDS = 300
    snapshots.EVERY_MS = 100
    sys.exit(main())
