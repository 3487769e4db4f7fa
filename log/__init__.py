"""Segmented log of RecordBatch v2 in Kafka's file layout: append, sync, read, recover, roll.

log.py            a partition's log: what the rest of kohort uses
reader.py         its reading half;  closed_segments.py: what is no longer written
group_commit.py   group commit: what was gathered is written and synced together
write_ahead.py    one file that is synced in the place of many
recovery.py       what survives when a log is opened
segment_manifest.py: what need not be walked for it
segment.py        one file of batches: walk it, find in it;  index.py: where batches begin
batch.py          a batch, whole;  header.py: its 61 bytes;  builder.py writes, records.py reads
cleaner.py        compaction: of each key the newest record;  filtering.py: what is left of a batch
cleanable.py      whether it pays;  offset_map.py: where a key was last
producer_state.py: transactions
raw_records.py    records as compaction sees them;  rebuilding.py: the batch that is left
cache_files.py    what compaction takes along: files made from a log's records
swapping.py       a new segment in the place of old ones;  tasks.py: long work in short steps
listing.py        a log's segments, whoever is using it;  scan.py: what is bad in one of them
retention.py      which segments are too old or too many;  checkpoint.py: offsets in Kafka's files
codecs.py         gzip, snappy, lz4, zstd;  epochs.py: which leader wrote what
files.py          every file call;  memory_files.py: the same in memory;  chunked_files.py: much
lock.py           one broker per folder;  deletion.py: removing a log;  config.py;  errors.py
"""
