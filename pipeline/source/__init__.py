"""What there is to read: the offsets log in a folder or behind a broker, as Arrow batches.

source.py    what a source is, and which one the options mean;  folder.py: segments in a folder
wire.py      behind a broker;  wire_cluster.py: who leads what;  wire_connection.py: one socket
decoding.py  batches as Arrow;  records.py: one record as a row
"""
