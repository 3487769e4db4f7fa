"""`kohort pipeline`, and what asks the lake that it writes.

arguments.py  `pipeline run`, `status`, `compact`: their flags
run.py, status.py, compact.py: what each of them does
progress.py   how far a run has come;  stopping.py: Ctrl-C;  failing.py: what can go wrong
questions.py  `why`, `timeline`, `lag`, `storms`, `report`: their flags
why.py, timeline.py, lag.py, storms.py, report.py: what each of them does
asking.py     from the flag to a lake that can be asked
columns.py    tables and paragraphs for people;  shapes.py: JSON and CSV for scripts
"""
