"""Committed offsets: the records of __consumer_offsets, their log, and the table in memory.

records.py        the records as plain data. Start here.
record_schemas.py the keys and values of all record types, declared field by field
record_codec.py   records as bytes
table.py          committed offsets in memory;  spill.py: evicted offsets on disk
snapshot.py       snapshot of a partition's state, so that the log need not be replayed at startup
pending.py        offsets committed in open transactions
store.py          log and table together
coordinator_topic.py  the logs of an internal topic, and which of them a group belongs to
transaction_codec.py  the records of __transaction_state as bytes
causes.py         causes of rebalances and member removals
"""
