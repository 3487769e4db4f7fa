"""`kohort pipeline`, and the commands that query the lake that it writes.

arguments.py  the flags of all these commands
run.py        `pipeline run`, and its signals;  progress.py: its output
lake.py       `pipeline status` and `compact`
queries.py    `why`, `timeline`, `lag`, `storms`, `report`
output.py     paragraphs, JSON and CSV;  errors.py: exceptions as one line
"""
