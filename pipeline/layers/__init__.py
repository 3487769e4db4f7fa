"""From records to tables: single commits with Arrow, groups with Spark DataFrames.

batch.py          the input of a layer. Start here;  expectations.py: data quality
parquet_tasks.py  tables written by Arrow in Spark tasks
bronze.py         records split by kind
generations.py    GroupMetadata records compared with the previous one;  ownership.py: intervals
  epochs.py       consumer groups (KIP-848) as rows like those of GroupMetadata records
commits.py        the layer of single commits, per partition of the offsets topic
  silver_commit.py  each commit with the previous one, its generation and owner
  aggregates.py     sums by generation and minute, the last ten commits
  jumps.py          offsets that went back or far ahead;  lag.py: lag and time lag
  ordering.py       log order with numpy
histories.py      rebalances, exits, storms, skews, lifecycles;  collect.py: their input
status.py         the current state of every group, and its diagnosis
"""
