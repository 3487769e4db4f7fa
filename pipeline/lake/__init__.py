"""Where the pipeline's tables lie: Parquet under `<lake>/<table>/batch_id=<n>/`, and one manifest.

reader.py    a table as Arrow, without Spark. Start here.
writer.py    a batch's folders, then the commit; schemas.py: what rows have to be
frames.py    tables as Spark's DataFrames;  footers.py: what Parquet tells without a row read
compaction.py: small folders merged into one
manifest.py  which folders count, and how far the log has been read
errors.py    what can be wrong with a lake
"""

from .errors import LakeError, LakeTooNew, NoLake, WrongRows
from .reader import Lake
from .writer import write_batch

__all__ = ["Lake", "LakeError", "LakeTooNew", "NoLake", "WrongRows", "write_batch"]
