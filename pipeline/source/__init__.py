"""What there is to read: the offsets log in a folder or behind a broker, as Arrow batches.

source.py    what a source is, and which one the options mean;  folder.py: segments in a folder
wire.py      behind a broker;  wire_cluster.py: who leads what;  wire_connection.py: one socket
decoding.py  batches as Arrow, for every source;  batches.py: batches in memory
lockstep.py  where records lie;  commits.py: what commits say, all at once
records.py   any record, one by one;  assembling.py: both as rows
"""
