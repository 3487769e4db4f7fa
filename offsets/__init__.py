"""Committed offsets: the records of __consumer_offsets, their log, and the table in memory.

records.py        the records as plain data. Start here.
record_schemas.py the keys and values of all record types, declared field by field
record_codec.py   records as bytes
partitioner.py    which offsets partition a group belongs to
table.py          the committed offsets in memory;  spill.py: those that are not
snapshot.py       what a log adds up to, beside it, so that a start need not read it all
transactions.py   offsets committed in transactions, when a log is loaded
store.py          log and table together
causes.py         why groups are rebalanced and members go
"""
