"""Bronze, from Arrow; silver and gold, from DataFrames to DataFrames. A module per kind of table.

batch.py  what a layer is given, and how it answers. Start here
bronze.py  what was read, parted by kind, written by whoever decodes it
consumers.py  records of groups of the consumer protocol (KIP-848)
generations.py, ownership.py, limits.py  a group's records beside what came before; who owned what
gathering.py, story_rows.py, stories.py  a group's story, and what the rules make of it
windows.py, status_rows.py, status.py  how groups are now
commits.py  each commit beside the one before it; places.py: where the log has gaps
    as_of.py: what was in force; transactions.py: what is held back; log_ends.py: lag
activity.py, minutes.py, jumps.py  what commits add up to, and offsets that went astray
expectations.py  what rows have to be, and how many are not
"""
