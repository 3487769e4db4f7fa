"""What is committed, in Kafka's __consumer_offsets bytes, and the table in front of it.

records.py        the records as plain data. Start here.
record_schemas.py the keys and values of all record types, declared field by field
record_codec.py   records as bytes;  commit_value.py: the value of a commit
partitioner.py    which offsets partition a group belongs to
table.py          the committed offsets in memory;  spill.py: those that are not
snapshot.py       what a log adds up to, beside it, so that a start need not read it all
transactions.py   offsets that transactions commit, while a log of Kafka's is read
store.py          log and table together
causes.py         why groups are rebalanced and members go
errors.py         what can be wrong with a record
"""
