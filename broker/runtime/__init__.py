"""Runs the pure coordinators on the partitions of a node. Start with runtime.py.

runtime.py              commands to the group coordinators: decide, append, apply, flush, reply
transactions.py         the same for transactional ids
transaction_markers.py  writes the markers that end transactions
context.py              state per offsets partition
loader.py               loads a partition
snapshots.py            when snapshots are written
offset_cleanup.py       removes the offsets of deleted topics
"""
