"""Runs the pure coordinators on the partitions of a node. Start with runtime.py.

runtime.py              runs commands of group coordinators: decide, append, apply, flush, reply
transactions.py         runs commands of transaction coordinators
transaction_markers.py  writes the markers that end transactions
context.py              state per offsets partition
loader.py               loads a partition
snapshots.py            schedules snapshots
deleted_topics.py       tracks which partitions have removed the offsets of deleted topics
"""
