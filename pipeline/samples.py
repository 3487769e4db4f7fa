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
    """Of one batch; made before it is planned. `lake`: as it was before.

    The present is looked at before the log is: what is written and committed while a batch is read
    would be lag otherwise, as its commits come with the next batch. Raises SourceError, OSError.
    """

    def __init__(self, inputs: Inputs, lake: Lake) -> None:
        self._inputs = inputs
        told = lake.manifest.inputs.get("samples", {})
        self._looked_to = _time(told.get("looked_to"))
        self._newest = _time(told.get("newest"))
        self._known = set(lake.read("state_commit", ["topic"])["topic"].unique().to_pylist())
        # Before the first batch nobody knows which of them are committed to.
        self._present = inputs.samples(None if lake.batch_id < 0 else self._known, None)

    @property
    def has_news(self) -> bool:
        """Of topics that groups have committed to."""
        return bool(self._new(self._of(self._present, self._known)).num_rows)

    def of(self, batch: Batch) -> pa.Table:
        """Rows of bronze_log_end, once bronze is written. Raises SourceError, OSError."""
        topics = self._known | batch.topics()
        found = self._of(self._present, topics)
        span = batch.span()
        if span is not None:
            since = self._looked_to or span[0] - LOOK_BACK
            self._looked_to = max(span[1], since)
            past = Span(_ms(since), _ms(self._looked_to))
            found = self._with_past(found, self._inputs.samples(topics, past))
        found = self._new(found)
        if not batch.caught_up and self._looked_to is not None:
            found = found.filter(pc.less_equal(found["sampled_at"], pa.scalar(self._looked_to)))
        if found.num_rows:
            self._newest = pc.max(found["sampled_at"]).as_py()
        return found

    def position(self) -> dict[str, str]:
        """For the manifest, once `of` has been asked."""
        times = {"looked_to": self._looked_to, "newest": self._newest}
        return {name: time.isoformat() for name, time in times.items() if time is not None}

    def _with_past(self, present: pa.Table, found: pa.Table) -> pa.Table:
        """`found`, whose newest samples are younger than `present`: those stay only of topics that
        nobody has looked at before. A log at rest has been the same up to its last record."""
        is_past = pc.is_null(found["log_start"])
        looked_at = pc.unique(present["topic"])
        kept = found.filter(pc.or_(is_past, pc.invert(pc.is_in(found["topic"], looked_at))))
        place = present.schema.get_field_index("sampled_at")
        field = present.schema.field(place)
        not_before = pa.scalar(self._looked_to, field.type)
        times = present["sampled_at"]
        times = pc.if_else(pc.less(times, not_before), not_before, times)
        return pa.concat_tables([kept, present.set_column(place, field, times)])

    @staticmethod
    def _of(found: pa.Table, topics: set[str]) -> pa.Table:
        return found.filter(pc.is_in(found["topic"], pa.array(sorted(topics), pa.string())))

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
