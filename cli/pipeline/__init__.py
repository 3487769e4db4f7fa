"""`kohort pipeline`, and what asks the lake that it writes.

questions.py  `why`, `timeline`, `lag`, `storms`, `report`: their flags
why.py, timeline.py, lag.py, storms.py, report.py: what each of them does
asking.py     from the flag to a lake that can be asked
columns.py    tables and paragraphs for people;  shapes.py: JSON and CSV for scripts
"""
