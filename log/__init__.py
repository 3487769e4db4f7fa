"""Partition logs: RecordBatch v2 in Kafka's file layout, group commit, recovery, compaction.

log.py               Log: append, read, roll, sync, truncate, recover
segment.py           one file of batches and its sparse index
batch.py             a batch: header, validation, building
records.py           the records inside a batch
codecs.py            gzip, snappy, lz4, zstd
group_commit.py      one flush for all appends during the previous flush
write_ahead.py       one shared file that is synced instead of many logs
recovery.py          what is valid in a log's files: opening, inspection, repair
segment_manifest.py  cache of scan results, so that opening skips verified batches
cleanup.py           which part of a log has expired or is cleanable
cleaner.py           compaction: keeps the newest record of each key
segment_swap.py      replacing segments by a cleaned one, crash-safe
producer_state.py    producers and their transactions, read from the batches
checkpoint.py        Kafka's text files: start offsets, cleaned offsets, topic ids
cache_files.py       disposable files beside a log: names, framing, removal
files.py             file system access; locking and deleting folders
memory_files.py      the same interface in memory
tasks.py             cooperative tasks: long work in short steps
errors.py            errors of the log; when operations begin to fail and work again
"""
