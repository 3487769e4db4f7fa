"""What planted.py plants in what is kept on disks."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """Changes one place; its name says what is wrong then."""

    name: str
    path: str
    right: str  # occurs once in the file
    wrong: str


STORAGE_FAULTS = (
    Fault(
        "reply before the records are durable",
        "log/group_commit.py",
        'if durability == "fsync" or',
        "if",
    ),
    Fault(
        "written ahead and not synced",
        "log/write_ahead.py",
        "        self._file.sync()\n        self._durable_bytes = self._file.size\n",
        "        self._durable_bytes = self._file.size\n",
    ),
    Fault(
        "written ahead of what is not durable",
        "log/group_commit.py",
        "log.synced_offset == pending.base_offset",
        "log.synced_offset <= pending.base_offset",
    ),
    Fault(
        "what was written ahead goes before the logs are synced",
        "log/write_ahead.py",
        "            if any(results):\n",
        "            if not results:\n",
    ),
    Fault(
        "a refused record is synced by the way",
        "log/log.py",
        "            self.failed = error\n            self._limit_synced(offset)\n",
        "            self.failed = error\n",
    ),
    Fault(
        "what a process before could not sync is trusted",
        "log/recovery.py",
        "    file.rewrite(durable_bytes)\n",
        "",
    ),
    Fault(
        "torn tail not cut off",
        "log/recovery.py",
        "        file.truncate(segment.size)\n",
        "        file.truncate(file.size)\n",
    ),
    Fault(
        "refused bytes not cut off after a failure",
        "log/log.py",
        "                self._truncate_durably(synced_offset)\n                if",
        "                if",
    ),
    Fault(
        "old offset kept on commit",
        "offsets/table.py",
        "        offsets[name] = value\n",
        "        offsets.setdefault(name, value)\n",
    ),
    Fault(
        "what a failing disk was not to keep read back under durability os",
        "offsets/store.py",
        ".reopen(failed.end_offset)",
        ".reopen()",
    ),
    Fault(
        "snapshot tells of more than the log has",
        "offsets/snapshot.py",
        "            if start_offset <= snapshot.start_offset and snapshot_end <= end_offset:\n",
        "            if start_offset <= snapshot.start_offset:\n",
    ),
    Fault(
        "snapshot finished before its records are durable",
        "broker/snapshots.py",
        "        self._store.on_durable(context.log, partial(self._finish, context, writer))\n",
        "        self._finish(context, writer, None)\n",
    ),
    Fault(
        "evicted group read from where it stood before it changed",
        "offsets/table.py",
        "        self._extents.pop(group_id, None)\n",
        "        self._extents.get(group_id)\n",
    ),
    Fault(
        "snapshot outlives the tombstones that it does not know",
        "log/cleaner.py",
        "            yield from remove_cache_files(log.folder, log.files)\n",
        "",
    ),
    Fault(
        "the next leader takes a log that could not be mended",
        "offsets/store.py",
        "            if log.failed is None:\n",
        "            if log.end_offset:\n",
    ),
    Fault(
        "an older record outlives a newer one in a compaction",
        "log/cleaner.py",
        "offset >= newest.get(key, -1)",
        "offset <= newest.get(key, offset)",
    ),
    Fault(
        "a compaction ends behind an open transaction",
        "log/cleaner.py",
        "if header.base_offset >= self._end:",
        "if header.base_offset > self._end:",
    ),
    Fault(
        "tombstones go before their horizon",
        "log/cleaner.py",
        "keep_tombstones = horizon_ms is None or self._config.now_ms < horizon_ms",
        "keep_tombstones = horizon_ms is None",
    ),
    Fault(
        "the end of a run is not told by an empty batch",
        "log/cleaner.py",
        "self._is_last_of_producer(header) or header.next_offset == self.end",
        "self._is_last_of_producer(header)",
    ),
    Fault(
        "a cleaned segment has its name before the old ones have lost theirs for good",
        "log/segment_swap.py",
        "        yield partial(files.sync_folder, folder)\n        self._check()\n",
        "        self._check()\n",
    ),
    Fault(
        "a damaged batch is compacted and given a new checksum",
        "log/cleaner.py",
        "check_crc(batch, 0, len(batch))",
        "len(batch)",
    ),
    Fault(
        "Kafka: offsets of aborted transactions count",
        "offsets/transactions.py",
        "if control_type == _COMMIT and record is not None:",
        "if record is not None:",
    ),
    Fault(
        "Kafka: overtaken commits of transactions come back",
        "offsets/transactions.py",
        "pending[key] = (offset, None)",
        "pending[key] = (offset, pending[key][1])",
    ),
)
