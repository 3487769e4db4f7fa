"""The lake: Parquet under `<lake>/<table>/batch_id=<n>/`, and one manifest.

reader.py        a table as Arrow, without Spark. Start here.
writer.py        a batch's folders, then the commit; compaction of small folders
manifest.py      the live folders, and how far the log has been read
schema.py        rows and files checked against their tables; errors
spark_frames.py  tables as Spark DataFrames
"""

from .reader import Lake
from .schema import LakeError, LakeNotFound, LakeTooNew, SchemaMismatch

__all__ = ["Lake", "LakeError", "LakeNotFound", "LakeTooNew", "SchemaMismatch"]
