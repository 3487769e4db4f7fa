"""Which samples of topics' ends a batch takes: those of the times that its records are of, and of
the present once the log has been read to its end.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from .inputs import Inputs
from .lake.reader import Lake
from .layers.batch import Batch
from .source.ends import Span

__all__ = ["Samples"]

# The first batch's samples begin this much before its first record, so that its first commits have
# one before them.
LOOK_BACK: Final = timedelta(minutes=1)


class Samples:
    """Of one batch. `lake`: as it was before."""

    def __init__(self, inputs: Inputs, lake: Lake) -> None:
        self._inputs = inputs
        told = lake.manifest.inputs.get("samples", {})
        self._looked_to = _time(told.get("looked_to"))
        self._newest = _time(told.get("newest"))
        self._known = set(lake.read("state_commit", ["topic"])["topic"].unique().to_pylist())

    def of_now(self) -> pa.Table:
        """What has become known of topics that groups have committed to since it was last asked;
        as rows of bronze_log_end. Raises SourceError, OSError."""
        return self._new(self._inputs.samples(self._known, None))

    def of(self, batch: Batch) -> pa.Table:
        """Once bronze is written. Raises SourceError, OSError."""
        span = batch.span()
        past = None
        if span is not None:
            since = self._looked_to or span[0] - LOOK_BACK
            self._looked_to = max(span[1], since)
            past = Span(_ms(since), _ms(self._looked_to))
        found = self._new(self._inputs.samples(self._known | batch.topics(), past))
        if not batch.caught_up and self._looked_to is not None:
            found = found.filter(pc.less_equal(found["sampled_at"], pa.scalar(self._looked_to)))
        if found.num_rows:
            self._newest = pc.max(found["sampled_at"]).as_py()
        return found

    def position(self) -> dict[str, str]:
        """For the manifest, once `of` has been asked."""
        times = {"looked_to": self._looked_to, "newest": self._newest}
        return {name: time.isoformat() for name, time in times.items() if time is not None}

    def _new(self, found: pa.Table) -> pa.Table:
        if self._newest is None:
            return found
        later = pc.greater(found["sampled_at"], pa.scalar(self._newest))
        first = pc.invert(pc.is_in(found["topic"], pa.array(sorted(self._known), pa.string())))
        return found.filter(pc.or_(later, first))


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _ms(time: datetime) -> int:
    return (time - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
