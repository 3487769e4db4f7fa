"""Partition logs: RecordBatch v2 in Kafka's file layout, group commit, recovery, compaction.

log.py               Log: append, read, roll, sync, truncate, recover
segment.py           one file of batches and its sparse index
batch.py             a batch: header, validation, building
records.py           the records inside a batch
codecs.py            gzip, snappy, lz4, zstd
group_commit.py      one flush for all appends during the previous flush
write_ahead.py       one shared file, synced instead of many logs
recovery.py          finds the valid part of a log's files when it is opened, inspected or repaired
segment_manifest.py  cache of scan results, so that opening skips verified batches
cleanup.py           decides which part of a log has expired or can be compacted
cleaner.py           compaction: keeps the newest record of each key
segment_swap.py      crash-safe replacement of segments by a cleaned segment
producer_state.py    state of idempotent and transactional producers, read from the batches
transaction_index.py aborted transactions in `.txnindex` files, for Kafka and its tools
checkpoint.py        Kafka's text files: start and cleaned offsets, cluster id, topic ids
cache_files.py       disposable files next to a log: names, framing, removal
files.py             file system access; locks and deletes folders
memory_files.py      the interface of files.py, in memory
tasks.py             cooperative tasks: long work in short steps
errors.py            errors of the log; log lines when operations begin to fail or work again
"""
