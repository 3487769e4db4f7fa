"""Committed offsets: the records of __consumer_offsets, their log, and the table in memory.

records.py        the records as plain data. Start here.
record_schemas.py the keys and values of all record types, declared field by field
record_codec.py   encodes and decodes records
table.py          committed offsets in memory;  spill.py: evicted offsets on disk
snapshot.py       a snapshot of a partition's state, so that loading replays only the log's tail
pending.py        offsets committed in open transactions
store.py          appends records to the log, and loads snapshot and log into the table
coordinator_topic.py  the logs of an internal topic, and the mapping of ids to its partitions
transaction_codec.py  encodes and decodes the records of __transaction_state
causes.py         causes of rebalances and member removals
"""
