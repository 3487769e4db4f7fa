"""Bronze, and what is told of commits, from Arrow; what is of groups, from DataFrames.

batch.py  what a layer is given, and how it answers. Start here
sharing.py  tasks of Spark that write what they make; expectations.py: what rows have to be
bronze.py  what was read, parted by kind, written by whoever decodes it
consumers.py  records of groups of the consumer protocol (KIP-848)
generations.py, ownership.py, limits.py  a group's records beside what came before; who owned what
gathering.py, story_rows.py, stories.py  a group's story, and what the rules make of it
windows.py, status_rows.py, status.py  how groups are now
commits.py  all that is told of commits one by one
    ordering.py: the log's order, by numpy; silver.py: each commit beside the one before it
    places.py: where the log has gaps; transactions.py: what is held back; log_ends.py: lag
    activity.py, minutes.py: what commits add up to
jumps.py  offsets that went astray
"""
