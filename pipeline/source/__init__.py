"""Sources: the offsets log of a folder or a broker, as Arrow batches.

source.py           the interface of a source. Start here;  factory.py: options to sources
folder.py           a data folder;  segments.py: one segment of it
wire_source.py      any Kafka;  wire_cluster.py: leaders, retries;  wire_connection.py: one socket
decoding.py         record batches to Arrow, for every source;  batches.py: batches in memory
  vectorized.py     OffsetCommit records with numpy
  records.py        any record, one by one
log_ends.py         samples of the start and end offsets of topics' logs
events.py           the coordinator's event log;  topic_ids.py: topic names by id
datasource.py       the Spark format `kohort`
"""
