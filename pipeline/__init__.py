"""PySpark over the offsets log: lag, the causes of rebalances, and the members that left.

tables.py     every table of the lake and its columns. Start here;  columns.py: shared columns
run.py        the loop that fills the lake;  inputs.py: the input of a batch;  session.py: Spark
source        the offsets log as Arrow batches, from a folder or any Kafka
layers        from records to tables;  lake: Parquet files and the manifest
diagnosis     the rules: pure functions
queries.py    queries on a lake without Spark;  lag_series.py: lag over time
report        the lake as an HTML page;  formatting.py: times, durations, names as text
"""
