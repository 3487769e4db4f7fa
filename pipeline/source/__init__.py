"""What there is to read: the offsets log in a folder or behind a broker, as Arrow batches.

source.py    what a source can do, and which one the options mean. Start here
folder.py    a data folder;  partition_log.py: one log in it;  segments.py: one file of that
wire.py      behind a broker;  wire_batches.py: fetch by fetch;  wire_cluster.py: who leads what;
             wire_connection.py: one socket
decoding.py  batches as Arrow, for every source;  batches.py: batches in memory
lockstep.py  where records lie;  commits.py: what commits say, all at once
records.py   any record, one by one;  assembling.py: both as rows
ends.py      where topics' logs end, and ended: ends_wire.py of a broker, ends_folder.py of a folder
events.py    the coordinator's event log
datasource.py  the format `kohort` for Spark;  side_tables.py: ends and events in it
"""
