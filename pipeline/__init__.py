"""PySpark over the offsets log: who lags, who was kicked out, and why a group rebalanced.

tables.py   every table, its columns and what one row is. Start here.  columns.py: their pieces
source      the log as Arrow batches, from a folder or from any Kafka
layers      what is told of commits by Arrow, of groups by Spark;  lake: where it lies
run.py      the loop that fills the lake; inputs.py, samples.py: what a batch of it reads
diagnosis   why a group rebalanced, who is behind: pure functions
answers     what people ask, from the lake, without Spark;  report: the same as a page
state_tables.py: what one batch hands to the next
session.py  the Spark session
"""
