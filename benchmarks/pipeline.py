"""What the pipeline takes: its source, from the bytes of an offsets log to Arrow, and all of it."""

import shutil
import time
from typing import Any

from kohort.pipeline.session import NoSpark
from kohort.pipeline.source.batches import walk
from kohort.pipeline.source.folder import FolderSource

from . import batches
from .machine import Setting
from .offset_logs import write_offsets_log

RECORDS = 1_000_000
# Three batches: the first is Java's to warm up.
WHOLE_RECORDS = 3_000_000
# From a consumer with one partition to a group that commits a thousand at once.
PER_BATCH = (1, 6, 12, 1_200)


def measure(setting: Setting) -> dict[str, Any]:
    return {
        "source": {str(count): source(setting, count) for count in PER_BATCH},
        "batches": whole(setting),
    }


def whole(setting: Setting) -> dict[str, Any] | None:
    try:
        return batches.measure(setting.scaled(WHOLE_RECORDS), setting.folder / "batches")
    except NoSpark as error:
        print(f"The pipeline's batches are left out: {error}")
        return None


def source(setting: Setting, per_batch: int) -> dict[str, float]:
    """Seconds of this process's CPU, the best of some rounds; `walk` is the yardstick: the same
    bytes read, every batch found and its checksum computed."""
    folder = setting.folder / f"offsets-{per_batch}"
    records = write_offsets_log(folder, records=setting.scaled(RECORDS), per_batch=per_batch)
    size = sum(path.stat().st_size for path in folder.glob("*/*.log"))
    walked, decoded = [], []
    for _ in range(setting.rounds):
        began = time.process_time()
        for path in folder.glob("*/*.log"):
            walk(path.read_bytes())
        walked.append(time.process_time() - began)
        began = time.process_time()
        found = FolderSource(folder)
        rows = sum(
            len(rows) for split in found.splits({}, found.ends()) for rows in found.read(split)
        )
        decoded.append(time.process_time() - began)
        assert rows == records, (rows, records)
    shutil.rmtree(folder)
    return {
        "records": records,
        "bytes_per_record": size / records,
        "walk_records_s": records / min(walked),
        "records_s": records / min(decoded),
        "megabytes_s": size / min(decoded) / 1e6,
    }
