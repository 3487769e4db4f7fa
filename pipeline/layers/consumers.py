"""Records of groups of the consumer protocol (KIP-848): state_consumer, the newest of each key.

They stay as they are in the log but for the group that they are of: diagnosis/consumers.py reads
them, of one group at a time, when its status is told.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from ..diagnosis.consumers import RECORD_TYPES
from ..state_tables import STATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .batch import Batch

__all__ = ["epochs", "remembered", "tables"]

_OF_GROUP: Final = 3  # ConsumerGroupMetadata: its key is the group, its value the group's epoch
# A key: the record's type, then the group's length and id, then a member's, of some types.
_LENGTH: Final = "CAST(conv(hex(substring(key, 3, 2)), 16, 10) AS INT)"
_GROUP: Final = f"CAST(substring(key, 5, {_LENGTH}) AS STRING)"


def tables(batch: "Batch") -> "dict[str, DataFrame]":
    if not batch.rows("bronze_other"):
        return {}
    new = _records(batch.new("bronze_other"), *RECORD_TYPES)
    if new.isEmpty():
        return {}
    return {"state_consumer": remembered(batch.old("state_consumer"), new)}


def epochs(others: "DataFrame") -> "DataFrame":
    """Where groups of the consumer protocol have got an epoch, in bronze_other."""
    place = ["cluster", "offsets_partition", "group", "log_offset", "append_ts", "missing_before"]
    return _records(others, _OF_GROUP).where("value IS NOT NULL").select(*place)


def remembered(old: "DataFrame", new: "DataFrame") -> "DataFrame":
    """state_consumer after `new`, records of it; what they forget is forgotten."""
    names = STATE["state_consumer"].schema.names
    newest = F.max_by(F.struct("log_offset", "value"), "log_offset").alias("newest")
    return (
        old.select(*names)
        .unionByName(new.select(*names))
        .groupBy("cluster", "group", "key")
        .agg(newest)
        .select("cluster", "group", "key", "newest.log_offset", "newest.value")
        .where("value IS NOT NULL")
        .select(*names)
    )


def _records(others: "DataFrame", *types: int) -> "DataFrame":
    """Rows of bronze_other that are of these types, with their `group`."""
    return (
        others.where(F.col("key_version").isin(*types) & ~F.col("control"))
        .where("length(key) > 4")
        .withColumn("group", F.expr(_GROUP))
    )
